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
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Bounds of the events that a session holds for clients whose stream broke during a call.
const (
	maxStreamEvents = 256         // events of one call
	maxStreamBytes  = 1 << 20     // of one call, besides its newest event
	maxCallStreams  = 32          // answered calls
	streamRetention = time.Minute // after the response to a call
	maxNamedID      = 256         // bytes of the id of a call whose client gets an error instead of a lost answer
	streamRetry     = time.Second // how long a client is asked to wait before it resumes
	// openAfter is how long a call may take before its client gets an id with which it can resume.
	// A faster call needs none, and clients that take an error for the end of a connection
	// (TypeScript SDK v1) do not try to resume it.
	openAfter = 250 * time.Millisecond
)

// callStream holds the events of one POST of a legacy session, so that a client whose stream
// breaks can resume it by a GET with Last-Event-ID (SEP-1699). Beyond maxStreamEvents or
// maxStreamBytes, the oldest events are dropped.
type callStream struct {
	name string // begins the ids of its events

	mu       sync.Mutex
	events   [][]byte
	first    int // number of events[0]; event 0 has no content and begins the stream
	bytes    int
	answered bool // the last event is the response
	done     bool
	changed  chan struct{} // closed and replaced when an event is added
}

// lastEvent replaces the number in the id of the response: nothing follows it.
const lastEvent = "end"

// id returns the id of the event with the given number.
func (c *callStream) id(number int, last bool) string {
	if last {
		return c.name + "-" + lastEvent
	}
	return c.name + "-" + strconv.Itoa(number)
}

// add adds an event; the last one is the response, or nil if there is none.
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
	close(c.changed)
	c.changed = make(chan struct{})
}

// callEvent is an event of a call.
type callEvent struct {
	message []byte
	number  int
	last    bool // it is the response
}

// after returns the oldest held event with a greater number; ok is false if there is none yet. In
// that case changed is closed when one is added, and done says that none will be.
func (c *callStream) after(number int) (e callEvent, ok, done bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := max(number+1, c.first)
	if i := next - c.first; i < len(c.events) {
		return callEvent{c.events[i], next, c.answered && i == len(c.events)-1}, true, false, nil
	}
	return callEvent{}, false, c.done, c.changed
}

// callStreams holds the call streams of one session.
type callStreams struct {
	epoch string // begins the ids of all events; see session

	mu     sync.Mutex
	last   int
	byName map[string]*callStream
	over   []endedStream // answered calls whose streams are still held, in the order of their ends
}

type endedStream struct {
	name string
	at   time.Time
}

// callMark follows the epoch in the ids of events of calls.
const callMark = "-call-"

// begin registers the stream of a call; the caller calls end after its last event. The event ids
// contain the id of the call, so that a client can be answered if it resumes a stream that is no
// longer held, perhaps at another process.
func (s *callStreams) begin(request json.RawMessage) *callStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*callStream{}
	}
	s.last++
	c := &callStream{name: s.epoch + callMark + strconv.Itoa(s.last), first: 1, changed: make(chan struct{})}
	if len(request) <= maxNamedID {
		c.name += "-" + base64.RawStdEncoding.EncodeToString(request)
	}
	s.byName[c.name] = c
	return c
}

func (s *callStreams) end(c *callStream) {
	c.add(nil, true) // also if the call got no response
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = append(s.over, endedStream{c.name, time.Now()})
	s.sweep()
}

// sweep drops the streams that ended more than streamRetention ago, and the oldest beyond
// maxCallStreams. s.mu must be held.
func (s *callStreams) sweep() {
	for len(s.over) > 0 && (len(s.over) > maxCallStreams || time.Since(s.over[0].at) > streamRetention) {
		delete(s.byName, s.over[0].name)
		s.over = s.over[1:]
	}
}

// find returns the stream of a call that an event id belongs to, and the number of the event.
// isCall is false if the id belongs to no call. c is nil if nothing will follow the event. If the
// following events are no longer held, c holds an error instead.
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

// lostCall returns the replacement of a stream that is no longer held: an error as the response,
// so that the client does not wait forever. call is what follows callMark in the id that the
// client sent, which may be anything, and number its last part; the result is nil if they do not
// name a call.
func lostCall(name, call string, number int) *callStream {
	encoding := base64.RawStdEncoding
	parts := strings.Split(call, "-") // number of the call, its id, number of the event
	if len(parts) != 3 || len(parts[1]) > encoding.EncodedLen(maxNamedID) {
		return nil
	}
	request, err := encoding.DecodeString(parts[1])
	if err != nil || !isID(request) || !json.Valid(request) || !utf8.Valid(request) || len(bytes.TrimSpace(request)) < len(request) {
		return nil
	}
	c := &callStream{name: name, first: number + 1, changed: make(chan struct{})}
	c.add(answer(request, nil, errorf(mcp.CodeInternal, "the response is no longer held; the request may have taken effect")), true)
	return c
}

// prelude sends the first event of a call's stream: an id without content, and how long the client
// should wait before it resumes a broken stream.
func (e *eventStream) prelude(c *callStream) error {
	retry := bytes.TrimSuffix(eventstream.AppendRetry(nil, streamRetry), []byte("\n")) // in one event with the id
	if _, err := e.out.Write(append(retry, eventstream.Append(nil, c.id(0, false), "", nil)...)); err != nil {
		return err
	}
	return e.flush()
}

// resume sends the events of c after the given number, including future ones, until the call is
// answered, the server closes or ctx ends.
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
