package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/sse"
)

// Bounds of what a session holds for clients whose stream broke during a call.
const (
	maxStreamEvents = 256         // events of one call
	maxStreamBytes  = 1 << 20     // of one call, besides its newest event
	maxCallStreams  = 32          // answered calls
	streamRetention = time.Minute // after the answer to a call
	maxDropped      = 256         // calls whose answers are held no more; a resuming client gets an error
	maxDroppedID    = 256         // bytes of the id of such a call
	streamRetry     = time.Second // how long a client is asked to wait before it resumes
)

// callStream holds the events of one POST of a legacy session, so that a client whose
// stream breaks can resume it by a GET with Last-Event-ID (SEP-1699). When it holds more
// than maxStreamEvents or maxStreamBytes, the oldest events are dropped.
type callStream struct {
	name    string          // begins the ids of its events
	request json.RawMessage // the id of the call; nil if it is longer than maxDroppedID

	mu       sync.Mutex
	events   [][]byte
	first    int // number of events[0]; 0 is the event without content that begins a stream
	bytes    int
	answered bool // the last of events is the answer
	done     bool
	changed  chan struct{} // closed and replaced when something was added
}

func (c *callStream) id(number int) string { return c.name + "-" + strconv.Itoa(number) }

// add adds an event; the last one is the answer, or nil if there is none.
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

// dropped returns what takes the place of an ended stream: a short error instead of the answer, so
// that a client that resumes too late does not wait for ever, and no other events.
func (c *callStream) dropped() *callStream {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &callStream{name: c.name, first: c.first + len(c.events), done: true, changed: make(chan struct{})}
	if c.answered {
		d.first--
		d.events = [][]byte{answer(c.request, nil, errorf(mcp.CodeInternal, "the request was answered, but the response is no longer held"))}
	}
	return d
}

// after returns the oldest event held whose number is greater than the given one, and its
// number. event is nil if there is none yet: then changed is closed when one is added, and
// done says that none will be.
func (c *callStream) after(number int) (event []byte, next int, done bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next = max(number+1, c.first)
	if i := next - c.first; i < len(c.events) {
		return c.events[i], next, false, nil
	}
	return nil, number, c.done, c.changed
}

// callStreams holds the call streams of one session. The zero value is ready.
type callStreams struct {
	mu     sync.Mutex
	last   int
	byName map[string]*callStream
	over   []endedStream // answered calls whose streams are still held, in the order of their ends
	// dropped are the names of those whose answers were replaced, the oldest first.
	dropped []string
}

type endedStream struct {
	name string
	at   time.Time
}

// begin registers the stream of a new call; the caller calls end after its last event.
func (s *callStreams) begin(request json.RawMessage) *callStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*callStream{}
	}
	s.last++
	if len(request) <= maxDroppedID {
		request = bytes.Clone(request) // it is a part of a message that may be large
	} else {
		request = nil
	}
	c := &callStream{name: "call-" + strconv.Itoa(s.last), request: request, first: 1, changed: make(chan struct{})}
	s.byName[c.name] = c
	return c
}

func (s *callStreams) end(c *callStream) {
	c.add(nil, true) // also if the call got no answer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = append(s.over, endedStream{c.name, time.Now()})
	s.sweep()
}

// sweep drops the events of streams that have been over for longer than streamRetention, and of
// the oldest beyond maxCallStreams. s.mu must be held.
func (s *callStreams) sweep() {
	for len(s.over) > 0 && (len(s.over) > maxCallStreams || time.Since(s.over[0].at) > streamRetention) {
		name := s.over[0].name
		s.over = s.over[1:]
		if c := s.byName[name]; c.request != nil {
			s.byName[name] = c.dropped()
			s.dropped = append(s.dropped, name)
		} else {
			delete(s.byName, name)
		}
	}
	for ; len(s.dropped) > maxDropped; s.dropped = s.dropped[1:] {
		delete(s.byName, s.dropped[0])
	}
}

// find returns the stream that an event id belongs to, and the number of the event.
func (s *callStreams) find(id string) (c *callStream, number int, ok bool) {
	at := strings.LastIndexByte(id, '-')
	if at < 0 {
		return nil, 0, false
	}
	number, err := strconv.Atoi(id[at+1:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	c = s.byName[id[:at]]
	return c, number, err == nil && number >= 0 && c != nil
}

// prelude sends the first event of a call's stream: an id without content, and how long the
// client should wait before it resumes a broken stream.
func (e *eventStream) prelude(c *callStream) error {
	retry := bytes.TrimSuffix(sse.AppendRetry(nil, streamRetry), []byte("\n")) // in one event with the id
	if _, err := e.out.Write(append(retry, sse.Append(nil, c.id(0), "", nil)...)); err != nil {
		return err
	}
	return e.flush()
}

// resume sends the events of c after the one with the given number, and those to come until
// the call is answered, the server closes or ctx ends.
func (e *eventStream) resume(ctx context.Context, c *callStream, number int) error {
	if err := e.start(); err != nil {
		return err
	}
	beat := time.NewTicker(e.srv.opts.Heartbeat)
	defer beat.Stop()
	for {
		event, next, done, changed := c.after(number)
		if event != nil {
			number = next
			if err := e.event(c.id(number), event); err != nil {
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
