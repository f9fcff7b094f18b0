package sessiontest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// EventCall is a request for MCP Events. Its method starts with "events/".
type EventCall struct {
	Method    string
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Cursor    *string         `json:"cursor"`
	Delivery  json.RawMessage `json:"delivery"`

	// Done is closed when the client disconnects or cancels the request.
	Done <-chan struct{} `json:"-"`
	// Send sends a notification on the stream, such as "active", with the stream's id.
	Send func(kind string, params map[string]any) `json:"-"`
}

// EventError is the error with which an EventFunc rejects a request.
type EventError struct {
	Code    int
	Message string
	Data    any
}

// EventFunc answers a request for MCP Events. A stream lasts until the function returns.
type EventFunc func(*EventCall) (any, *EventError)

func isEvents(m message) bool { return strings.HasPrefix(m.Method, "events/") }

// answer answers a request. send writes a message to the client.
func (f EventFunc) answer(m message, done <-chan struct{}, send func(any)) map[string]any {
	c := &EventCall{Method: m.Method, Done: done, Send: func(kind string, params map[string]any) {
		out := maps.Clone(params)
		if out == nil {
			out = map[string]any{}
		}
		out["_meta"] = map[string]any{"io.modelcontextprotocol/subscriptionId": m.ID}
		send(map[string]any{"jsonrpc": "2.0", "method": "notifications/events/" + kind, "params": out})
	}}
	_ = json.Unmarshal(m.Params, c)
	result, failed := f(c)
	if failed != nil {
		return m.failed(rpcError{failed.Code, failed.Message, failed.Data})
	}
	return m.answered(result)
}

// postEvents answers a request over HTTP. It uses an event stream once a message is sent.
func (s *Fake) postEvents(w http.ResponseWriter, r *http.Request, m message) {
	var st *eventStream
	p := newPeer(nil)
	p.write = func(raw []byte) { st.send(raw) }
	s.join(p) // lets Disconnect cut the connection
	defer s.leave(p)
	done := make(chan struct{}) // closed by the goroutine below
	over := make(chan struct{}) // closed below
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		select {
		case <-p.closed:
		case <-r.Context().Done():
		case <-over:
		}
	})
	answer := s.Events.answer(m, done, func(message any) {
		if st == nil {
			st = newEventStream(w)
			st.start()
		}
		p.send(message)
	})
	select {
	case <-p.closed:
		if st != nil {
			st.end()
			panic(http.ErrAbortHandler)
		}
	default:
	}
	close(over)
	wg.Wait()
	if st == nil {
		s.reply(w, answer, false)
		return
	}
	p.send(answer)
	st.end()
}

// respondEvents answers a request over stdio.
func (s *Fake) respondEvents(wg *sync.WaitGroup, p *peer, m message) {
	l := s.listen(p, m.ID, filter{uris: map[string]struct{}{}})
	done := make(chan struct{}) // closed by the goroutine below
	over := make(chan struct{}) // closed by the second goroutine below
	cancelled := false
	wg.Go(func() {
		defer close(done)
		select {
		case <-l.end:
			cancelled = true
		case <-p.closed:
		case <-over:
		}
	})
	wg.Go(func() {
		answer := s.Events.answer(m, done, func(message any) { p.send(message) })
		close(over)
		<-done
		s.endListen(p, m.ID, false)
		if !cancelled {
			p.send(answer)
		}
	})
}

// Feed is a log of events that a Fake delivers by poll and push: assign its Handle method to
// Fake.Events. Cursors are event numbers. It is safe for concurrent use.
type Feed struct {
	Types []map[string]any

	mu     sync.Mutex
	over   EventFunc
	log    []map[string]any
	first  int           // number of the first event that has not expired
	moved  chan struct{} // closed and replaced when events are added
	errors map[string]*EventError
	calls  map[string]int
	open   int
}

// NewFeed returns an empty log with event types of the given names, which are delivered by poll and
// push.
func NewFeed(names ...string) *Feed {
	f := &Feed{moved: make(chan struct{}), errors: map[string]*EventError{}, calls: map[string]int{}}
	for _, name := range names {
		f.Types = append(f.Types, EventType(name, "poll", "push"))
	}
	return f
}

// EventType returns a description of an event type. For mcptrack's own types, it includes their
// payload schema.
func EventType(name string, delivery ...string) map[string]any {
	required := map[string][]string{"resource.updated": {"server", "uri", "cause"}, "list.changed": {"server", "list"}, "server.state": {"server", "state"}}[name]
	return map[string]any{"name": name, "description": "Events of " + name, "delivery": delivery, "inputSchema": map[string]any{"type": "object"},
		"payloadSchema": map[string]any{"type": "object", "required": required}}
}

// Emit adds an event.
func (f *Feed) Emit(name string, data map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := "e" + strconv.Itoa(len(f.log)+1)
	f.log = append(f.log, map[string]any{"eventId": id, "name": name, "timestamp": "2026-11-22T10:00:00.123Z", "data": data})
	close(f.moved)
	f.moved = make(chan struct{})
}

// Expire removes all events so far, as if they had expired.
func (f *Feed) Expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first = len(f.log)
}

// Fail makes later requests with this method fail with err. If err is nil, they succeed again.
func (f *Feed) Fail(method string, err *EventError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors[method] = err
}

// Calls returns how many requests with this method were received, or the total number if method is
// empty.
func (f *Feed) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Streams returns the number of open streams.
func (f *Feed) Streams() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// SetTypes replaces the event types.
func (f *Feed) SetTypes(types ...map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Types = types
}

// Override makes another function answer requests; it may call Answer. Nil restores the default.
func (f *Feed) Override(answer EventFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = answer
}

// Handle counts a request and answers it.
func (f *Feed) Handle(c *EventCall) (any, *EventError) {
	f.mu.Lock()
	f.calls[c.Method]++
	f.calls[""]++
	over, failed := f.over, f.errors[c.Method]
	f.mu.Unlock()
	switch {
	case over != nil:
		return over(c)
	case failed != nil:
		return nil, failed
	}
	return f.Answer(c)
}

// Answer answers a request like a server without faults.
func (f *Feed) Answer(c *EventCall) (any, *EventError) {
	f.mu.Lock()
	types := f.Types
	f.mu.Unlock()
	switch c.Method {
	case "events/list":
		return map[string]any{"resultType": "complete", "events": types}, nil
	case "events/poll":
		at, truncated := f.start(c.Cursor)
		events, next, _ := f.after(c.Name, at)
		return map[string]any{"resultType": "complete", "events": events, "cursor": strconv.Itoa(next), "truncated": truncated, "hasMore": false, "nextPollMs": 1000}, nil
	case "events/stream":
		return f.stream(c), nil
	}
	return nil, &EventError{-32601, "method not found", nil}
}

func (f *Feed) start(cursor *string) (at int, truncated bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cursor == nil {
		return len(f.log), false
	}
	at, _ = strconv.Atoi(*cursor)
	return max(at, f.first), at < f.first
}

func (f *Feed) after(name string, at int) (events []map[string]any, next int, moved <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events = []map[string]any{}
	for i := at; i < len(f.log); i++ {
		if f.log[i]["name"] == name {
			e := maps.Clone(f.log[i])
			e["cursor"] = strconv.Itoa(i + 1)
			events = append(events, e)
		}
	}
	return events, len(f.log), f.moved
}

func (f *Feed) stream(c *EventCall) any {
	f.count(1)
	defer f.count(-1)
	at, truncated := f.start(c.Cursor)
	c.Send("active", map[string]any{"cursor": strconv.Itoa(at), "truncated": truncated})
	beat := time.NewTicker(25 * time.Second)
	defer beat.Stop()
	for {
		events, next, moved := f.after(c.Name, at)
		at = next
		for _, e := range events {
			c.Send("event", e)
		}
		select {
		case <-moved:
		case <-beat.C:
			c.Send("heartbeat", map[string]any{"cursor": strconv.Itoa(at)})
		case <-c.Done:
			return map[string]any{"resultType": "complete"}
		}
	}
}

func (f *Feed) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open += n
}
