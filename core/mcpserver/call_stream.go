package mcpserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Limits for the events that a session retains so that a client can resume a stream that broke
// during a call.
const (
	maxStreamEvents = 256         // retained events per call
	maxStreamBytes  = 1 << 20     // retained bytes per call, excluding its newest event
	maxCallStreams  = 32          // retained streams of answered calls
	streamRetention = time.Minute // how long a stream is retained after its response
	maxNamedID      = 256         // maximum bytes of a call id that is embedded in event ids
	streamRetry     = time.Second // how long a client should wait before it resumes a stream
	// openAfter is how long a call may run before its client receives an event id from which it can
	// resume. A faster call sends no id, because clients that mistake an error response for a
	// broken connection (TypeScript SDK v1) would otherwise try to resume.
	openAfter = 250 * time.Millisecond
)

// callStream retains the events of one POST in a legacy session, so that a client whose stream
// breaks can resume it with a GET and Last-Event-ID (SEP-1699). Beyond maxStreamEvents or
// maxStreamBytes, the oldest events are dropped.
type callStream struct {
	name string // prefix of the stream's event ids

	mu       sync.Mutex
	events   [][]byte
	first    int // number of events[0]; the stream starts with event 0, which is empty
	bytes    int
	answered bool // the last event is the response
	done     bool
	changed  wake.Change // when an event is added
}

// lastEvent replaces the event number in the id of the response, because no event follows the
// response.
const lastEvent = "end"

// id returns the id of the event with the given number.
func (c *callStream) id(number int, last bool) string {
	if last {
		return c.name + "-" + lastEvent
	}
	return c.name + "-" + strconv.Itoa(number)
}

// add appends an event. The last event is the response; message is nil if the call has no response.
func (c *callStream) add(message []byte, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if message != nil {
		c.events = append(c.events, message)
		c.bytes += len(message)
		c.answered = last
	}
	for len(c.events) > 1 && (len(c.events) > maxStreamEvents || c.bytes-len(c.events[len(c.events)-1]) > maxStreamBytes) {
		c.bytes -= len(c.events[0])
		c.events = c.events[1:]
		c.first++
	}
	c.done = c.done || last
	c.changed.Happened()
}

// callEvent is one event in the stream of a call.
type callEvent struct {
	message []byte
	number  int
	last    bool // the event is the response
}

// after returns the oldest retained event whose number exceeds number. ok is false if there is none
// yet: then changed is closed when an event is added, and done reports that no event will be added.
func (c *callStream) after(number int) (e callEvent, ok, done bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := max(number+1, c.first)
	if i := next - c.first; i < len(c.events) {
		return callEvent{c.events[i], next, c.answered && i == len(c.events)-1}, true, false, nil
	}
	return callEvent{}, false, c.done, c.changed.Next()
}

// callStreams holds the call streams of one session.
type callStreams struct {
	epoch string // prefix of all event ids; see session

	mu     sync.Mutex
	last   int
	byName map[string]*callStream
	over   []endedStream // retained streams of answered calls, oldest first
}

type endedStream struct {
	name string
	at   time.Time
}

// callMark separates the epoch from the rest of the event id in the stream of a call.
const callMark = "-call-"

// begin registers the stream of a call, which the caller must end. The event ids contain the id of
// the call, so that a client that resumes a stream that is no longer retained can be sent an error,
// even by another process.
func (s *callStreams) begin(request json.RawMessage) *callStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*callStream{}
	}
	s.last++
	c := &callStream{name: s.epoch + callMark + strconv.Itoa(s.last), first: 1}
	if len(request) <= maxNamedID {
		c.name += "-" + base64.RawStdEncoding.EncodeToString(request)
	}
	s.byName[c.name] = c
	return c
}

// end appends the response to a stream, or ends it without a response if message is nil.
func (s *callStreams) end(c *callStream, message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.add(message, true)
	s.over = append(s.over, endedStream{c.name, time.Now()})
	s.sweep()
}

// sweep drops the streams that ended more than streamRetention ago, and the oldest streams beyond
// maxCallStreams. The caller must hold s.mu.
func (s *callStreams) sweep() {
	for len(s.over) > 0 && (len(s.over) > maxCallStreams || time.Since(s.over[0].at) > streamRetention) {
		delete(s.byName, s.over[0].name)
		s.over = s.over[1:]
	}
}

// find returns the stream of the call to which an event id belongs, and the number of the event.
// isCall is false if the id does not belong to a call. c is nil if no events follow this one. If
// the following events are no longer retained, c contains an error response instead.
func (s *callStreams) find(id string) (c *callStream, number int, isCall bool) {
	at := strings.LastIndexByte(id, '-')
	_, call, isCall := strings.Cut(id, callMark)
	if !isCall || id[at+1:] == lastEvent {
		return nil, 0, isCall
	}
	number, err := strconv.Atoi(id[at+1:])
	if err != nil || number < 0 {
		return nil, 0, true
	}
	s.mu.Lock()
	s.sweep()
	c = s.byName[id[:at]]
	s.mu.Unlock()
	if c == nil {
		return lostCall(id[:at], call, number), number, true
	}
	if _, ok, done, _ := c.after(number); done && !ok {
		return nil, 0, true
	}
	return c, number, true
}

// lostCall returns a substitute for a stream that is no longer retained: it contains an error
// response, so that the client does not wait forever. call is the untrusted part of the client's
// event id after callMark; number is the event number at its end. lostCall returns nil if they do
// not identify a call.
func lostCall(name, call string, number int) *callStream {
	encoding := base64.RawStdEncoding
	parts := strings.Split(call, "-") // call number, request id, event number
	if len(parts) != 3 || len(parts[1]) > encoding.EncodedLen(maxNamedID) {
		return nil
	}
	request, err := encoding.DecodeString(parts[1])
	if err != nil || !isID(request) || !json.Valid(request) || !utf8.Valid(request) || len(bytes.TrimSpace(request)) < len(request) {
		return nil
	}
	c := &callStream{name: name, first: number + 1}
	c.add(answer(request, nil, errorf(mcp.CodeInternal, "the response is no longer available; the request may have taken effect")), true)
	return c
}

// prelude sends the first event of a call's stream: an event id without data, and the time that the
// client should wait before it resumes a broken stream.
func (e *eventStream) prelude(c *callStream) error {
	retry := bytes.TrimSuffix(eventstream.AppendRetry(nil, streamRetry), []byte("\n")) // retry and id form one event
	if _, err := e.out.Write(append(retry, eventstream.Append(nil, c.id(0, false), "", nil)...)); err != nil {
		return err
	}
	return e.flush()
}

// resume sends the events of c after the given number, and new events as they are added, until the
// call is answered, the server closes or ctx is done.
func (e *eventStream) resume(ctx context.Context, c *callStream, number int) error {
	if err := e.start(); err != nil {
		return err
	}
	beat := time.NewTicker(e.srv.opts.Heartbeat)
	defer beat.Stop()
	for {
		event, ok, done, changed := c.after(number)
		if ok {
			number = event.number
			if err := e.event(c.id(number, event.last), event.message); err != nil {
				return err
			}
			continue
		}
		if err := e.flush(); err != nil || done {
			return err
		}
		select {
		case <-changed:
		case <-beat.C:
			if err := e.comment(); err != nil {
				return err
			}
		case <-e.srv.ctx.Done():
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
