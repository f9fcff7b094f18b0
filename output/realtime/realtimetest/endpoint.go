// Package realtimetest provides a realtime endpoint for tests. It validates client events as
// strictly as the API documentation requires, hosts conversations, and simulates faults of real
// endpoints on request.
//
// An [Endpoint] is an [http.Handler]. The HTTP server that calls it owns its goroutines. It records
// the received handshakes and items.
package realtimetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// ReceivedItem is an item that a client sent.
type ReceivedItem struct {
	Conn    int // number of the connection, starting at 1
	EventID string
	ID      string
	Role    string
	Texts   []string
	At      time.Time
}

// Endpoint serves any number of sessions. The zero value accepts and acknowledges every valid event.
type Endpoint struct {
	// Refuse returns the HTTP status with which to refuse handshake n, counted from 1, or 0 to
	// accept it. If nil, all handshakes are accepted.
	Refuse func(n int, r *http.Request) int
	// Greet is called at the start of every session, after session.created was sent.
	Greet func(*Conn)
	// Create handles an item in place of [Conn.Add].
	Create func(*Conn, ReceivedItem)
	// Message receives all messages that the endpoint itself does not handle.
	Message func(*Conn, websocket.MessageType, []byte)
	// Accept configures the handshake; Header is sent with the handshake response.
	Accept websocket.AcceptOptions
	Header http.Header
	// Manual keeps responses active until [Conn.EndResponse] is called.
	Manual bool

	mu       sync.Mutex
	requests []*http.Request
	items    []ReceivedItem
	replies  int
	pongs    int
	problems []string
	changed  chan struct{} // closed and replaced when a field above changes
}

// Conn is one session.
type Conn struct {
	*websocket.Conn
	N   int // number of the session, starting at 1
	e   *Endpoint
	ctx context.Context

	agent *agent // nil for OpenAI sessions

	mu     sync.Mutex
	known  map[string]bool // IDs of existing items
	active int             // number of the active response; 0 if none
	count  int
}

// ServeHTTP implements [http.Handler].
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.requests = append(e.requests, r.Clone(context.Background()))
	n := len(e.requests)
	e.notify()
	e.mu.Unlock()
	if r.Header.Get("OpenAI-Beta") != "" {
		e.problem("the beta header was sent")
	}
	if e.Refuse != nil {
		if status := e.Refuse(n, r); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"error":{"code":"refused_%d","message":"refused by the test"}}`, status)
			return
		}
	}
	maps.Copy(w.Header(), e.Header)
	opts := e.Accept
	opts.InsecureSkipVerify = true
	ws, err := websocket.Accept(w, r, &opts)
	if err != nil {
		return
	}
	ws.SetReadLimit(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &Conn{Conn: ws, N: n, e: e, ctx: ctx, known: map[string]bool{}}
	defer func() { _ = ws.CloseNow() }()
	if strings.Contains(r.URL.Path, "/convai/") {
		c.agent = &agent{monitor: strings.HasSuffix(r.URL.Path, "/monitor")}
	} else {
		c.Say(map[string]any{"type": "session.created", "event_id": "event_1", "session": map[string]any{"id": fmt.Sprintf("sess_%d", n)}})
	}
	if e.Greet != nil && (c.agent == nil || c.agent.monitor) { // an agent's conversation begins later
		e.Greet(c)
	}
	c.serve()
}

// serve handles messages from the client until it disconnects.
func (c *Conn) serve() {
	for {
		typ, b, err := c.Read(c.ctx)
		if err != nil {
			return
		}
		if c.agent != nil {
			c.agent.receive(c, b)
			continue
		}
		c.receive(typ, b)
	}
}

// notify wakes the callers of Await. e.mu must be held.
func (e *Endpoint) notify() {
	if e.changed != nil {
		close(e.changed)
	}
	e.changed = make(chan struct{})
}

func (e *Endpoint) problem(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

// Requests returns the received handshakes.
func (e *Endpoint) Requests() []*http.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests)
}

// Items returns the received items in order, including resent ones.
func (e *Endpoint) Items() []ReceivedItem {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.items)
}

// Replies returns the number of received response.create events.
func (e *Endpoint) Replies() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replies
}

// Problems describes all API violations by clients.
func (e *Endpoint) Problems() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.problems)
}

// Await waits until holds returns true or ctx ends, and reports the final result of holds.
func (e *Endpoint) Await(ctx context.Context, holds func() bool) bool {
	for {
		e.mu.Lock()
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		changed := e.changed
		e.mu.Unlock()
		if holds() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return holds()
		}
	}
}

// AwaitItems waits until n items were received or ctx ends, and returns the received items.
func (e *Endpoint) AwaitItems(ctx context.Context, n int) []ReceivedItem {
	e.Await(ctx, func() bool { return len(e.Items()) >= n })
	return e.Items()
}

type clientEvent struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
	Item    struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Role    string `json:"role"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"item"`
}

// receive handles one message from the client.
func (c *Conn) receive(typ websocket.MessageType, b []byte) {
	var ev clientEvent
	if typ == websocket.MessageText && json.Unmarshal(b, &ev) == nil {
		switch ev.Type {
		case "conversation.item.create":
			c.create(ev)
			return
		case "response.create":
			c.e.mu.Lock()
			c.e.replies++
			c.e.notify()
			c.e.mu.Unlock()
			c.respond(ev.EventID)
			return
		case "session.thinking.append":
			c.appendThinking(b)
			return
		}
	}
	if c.e.Message != nil {
		c.e.Message(c, typ, b)
	}
}

func (c *Conn) create(ev clientEvent) {
	it := ReceivedItem{Conn: c.N, EventID: ev.EventID, ID: ev.Item.ID, Role: ev.Item.Role, At: time.Now()}
	for _, p := range ev.Item.Content {
		if p.Type != "input_text" {
			c.e.problem("a part of type %q", p.Type)
		}
		it.Texts = append(it.Texts, p.Text)
	}
	if ev.Item.Type != "message" || it.Role != "user" && it.Role != "system" || len(it.Texts) == 0 || len(it.ID) == 0 || len(it.ID) > 32 {
		c.e.problem("invalid item: %+v", ev)
	}
	c.e.mu.Lock()
	c.e.items = append(c.e.items, it)
	c.e.notify()
	c.e.mu.Unlock()
	if c.e.Create != nil {
		c.e.Create(c, it)
		return
	}
	c.Add(it)
}

// Add adds an item to the conversation and acknowledges it. If the ID already exists, it sends an
// error.
func (c *Conn) Add(it ReceivedItem) {
	c.mu.Lock()
	twice := c.known[it.ID]
	c.known[it.ID] = true
	c.mu.Unlock()
	if twice {
		c.Fail(it.EventID, "item_already_exists", "an item with this id already exists")
		return
	}
	for _, typ := range []string{"conversation.item.added", "conversation.item.done"} {
		c.Acknowledge(typ, it.ID)
	}
}

// Acknowledge sends an event that refers to an item.
func (c *Conn) Acknowledge(typ, id string) {
	c.Say(map[string]any{"type": typ, "event_id": "event_" + id, "previous_item_id": nil,
		"item": map[string]any{"id": id, "object": "realtime.item", "type": "message", "status": "completed"}})
}

// Fail sends an error that refers to a client event.
func (c *Conn) Fail(eventID, code, message string) {
	c.Say(map[string]any{"type": "error", "event_id": "event_e",
		"error": map[string]any{"type": "invalid_request_error", "code": code, "message": message, "param": nil, "event_id": eventID}})
}

// respond starts a response unless one is active.
func (c *Conn) respond(eventID string) {
	c.mu.Lock()
	if c.active != 0 {
		c.mu.Unlock()
		c.Fail(eventID, "conversation_already_has_active_response", "Conversation already has an active response in progress")
		return
	}
	c.count++
	c.active = c.count
	c.mu.Unlock()
	c.Say(map[string]any{"type": "response.created", "response": map[string]any{"id": fmt.Sprintf("resp_%d", c.count)}})
	if !c.e.Manual {
		c.EndResponse()
	}
}

// BeginResponse starts a response as if the user had spoken.
func (c *Conn) BeginResponse() { c.respond("") }

// EndResponse ends the active response.
func (c *Conn) EndResponse() {
	c.mu.Lock()
	n := c.active
	c.active = 0
	c.mu.Unlock()
	if n != 0 {
		c.Say(map[string]any{"type": "response.done", "response": map[string]any{"id": fmt.Sprintf("resp_%d", n)}})
	}
}

// Say sends a server event. It ignores errors, because the reader also detects a lost connection.
func (c *Conn) Say(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		c.e.problem("encode %v: %v", v, err)
		return
	}
	_ = c.Write(c.ctx, websocket.MessageText, b)
}

// Context returns a context that ends with the session.
func (c *Conn) Context() context.Context { return c.ctx }

// maxTokens limits the tokens in one append.
const maxTokens = 500

// appendThinking handles an append in a GPT-Live session. The event must have all required members
// and no others. Every token has at least one byte, so text of at most maxTokens bytes never has
// too many tokens. The item has the event's ID.
func (c *Conn) appendThinking(b []byte) {
	var ev struct {
		Type         string          `json:"type"`
		EventID      string          `json:"event_id"`
		DelegationID json.RawMessage `json:"delegation_id"`
		Content      string          `json:"content"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&ev); err != nil || ev.EventID == "" || string(ev.DelegationID) != "null" || ev.Content == "" || len(ev.Content) > maxTokens {
		c.e.problem("invalid append (%v): %s", err, b)
	}
	it := ReceivedItem{Conn: c.N, EventID: ev.EventID, ID: ev.EventID, Texts: strings.Split(ev.Content, "\n"), At: time.Now()}
	c.e.mu.Lock()
	c.e.items = append(c.e.items, it)
	c.e.notify()
	c.e.mu.Unlock()
	if c.e.Create != nil {
		c.e.Create(c, it)
		return
	}
	c.Appended(it)
}

// Appended acknowledges an append.
func (c *Conn) Appended(it ReceivedItem) {
	c.Say(map[string]any{"type": "session.thinking.appended", "event_id": "event_a", "client_event_id": it.EventID, "start_ms": 1, "end_ms": 2})
}

// FailLive sends an error that refers to an event in a GPT-Live session.
func (c *Conn) FailLive(eventID, typ, code string) {
	c.Say(map[string]any{"type": "error", "event_id": "event_e",
		"error": map[string]any{"type": typ, "code": code, "message": "refused by the test", "client_event_id": eventID}})
}
