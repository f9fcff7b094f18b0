package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// maxAsked bounds the requests to one client that are not answered yet.
const maxAsked = 64

// ErrUnreachable means that a client has no stream on which it could get a message.
var ErrUnreachable = errors.New("the client has no open stream")

// Client is a client of the legacy era, for as long as its connection or session lasts.
// Clients of the modern era are asked by the result of their request, and answer by repeating
// the request.
type Client struct {
	// Capabilities are those that the client declared, a JSON object.
	Capabilities json.RawMessage

	ctx  context.Context // done when the client can answer no more
	gone context.Context // done when the client has left
	// send queues a message that belongs to no request; it reports false if there is no
	// way to the client, or no room.
	send func(message []byte) bool
	// drop withdraws a message that send has queued; it reports whether the client never got it.
	// nil: send does not queue.
	drop func(message []byte) (unsent bool)

	mu   sync.Mutex
	last uint64
	// asked holds, by the ids of our requests that are not answered yet, a channel for the
	// answer: capacity 1, sent to by receive, never closed.
	asked   map[string]chan *message
	handler func(method string, params json.RawMessage) // of OnNotification; nil: none
	memory  json.RawMessage                             // of Remember; nil: none

	remember func() // called when memory was set; nil: nothing is kept
}

func newClient(ctx, gone context.Context, capabilities json.RawMessage, send func([]byte) bool) *Client {
	return &Client{Capabilities: capabilities, ctx: ctx, gone: gone, send: send, asked: map[string]chan *message{}}
}

// Remember keeps a small JSON value for as long as the session of the client, also where that is
// continued by another process; see [Options].SessionDir. It replaces the value before.
func (c *Client) Remember(value json.RawMessage) {
	c.mu.Lock()
	c.memory = bytes.Clone(value)
	c.mu.Unlock()
	if c.remember != nil {
		c.remember()
	}
}

// Remembered returns the value of Remember; nil if there is none.
func (c *Client) Remembered() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory
}

// Done is closed when the client has left.
func (c *Client) Done() <-chan struct{} { return c.gone.Done() }

// OnNotification sets the function that is called with each notification of the client, such
// as notifications/roots/list_changed, except notifications/cancelled. It is called by the
// goroutine that received the notification and must not block.
func (c *Client) OnNotification(f func(method string, params json.RawMessage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = f
}

// Notify sends a notification to the client: before the answer to the request via while that
// is in progress, else on the client's own stream. via may be nil. The notification is dropped
// if the client cannot be reached.
func (c *Client) Notify(via *Request, method string, params any) {
	if message := notification(method, params); message != nil {
		c.deliverVia(via, message)
	}
}

// deliverVia sends a message on the stream of the request via while that is in progress, else
// on the stream of the client. It reports false if the client cannot be reached.
func (c *Client) deliverVia(via *Request, message []byte) bool {
	return via != nil && via.notes != nil && via.notes.write(message) || c.send(message)
}

// Ask sends a request to the client, on the stream of the request via while that is in
// progress, else on the client's own stream, and waits for the answer. An *Error is the
// client's answer; [ErrUnreachable] means that the client could not be asked, or can no longer
// answer. When ctx is done, the client is told that the request is cancelled.
func (c *Client) Ask(ctx context.Context, via *Request, method string, params json.RawMessage) (json.RawMessage, error) {
	id, answer, forget := c.expect()
	if answer == nil {
		return nil, errors.New("too many requests to the client are pending")
	}
	defer forget()
	question := request(id, method, params)
	if !c.deliverVia(via, question) {
		return nil, ErrUnreachable
	}
	withdraw := func() (unsent bool) { return c.drop != nil && c.drop(question) }
	select {
	case m := <-answer:
		withdraw() // a stream that is resumed does not ask again
		return m.result, m.failure()
	case <-ctx.Done():
		if !withdraw() {
			c.Notify(via, mcp.NotificationCancelled, map[string]any{"requestId": id})
		}
		return nil, context.Cause(ctx)
	case <-c.ctx.Done():
		return nil, ErrUnreachable
	}
}

// expect returns the id of a new request to the client and the channel that gets the answer, until
// forget is called. answer is nil if too many requests are pending.
func (c *Client) expect() (id json.RawMessage, answer chan *message, forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) == maxAsked {
		return nil, nil, nil
	}
	answer = make(chan *message, 1)
	c.last++
	id = json.RawMessage(strconv.FormatUint(c.last, 10))
	c.asked[idKey(id)] = answer
	return id, answer, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, idKey(id))
	}
}

// receive takes an answer or a notification of the client.
func (c *Client) receive(m *message) {
	c.mu.Lock()
	answer, handler := c.asked[idKey(m.id)], c.handler
	c.mu.Unlock()
	switch {
	case m.isAnswer() && answer != nil:
		select {
		case answer <- m:
		default: // answered twice
		}
	case !m.isAnswer() && m.id == nil && handler != nil:
		handler(m.method, m.params)
	}
}

// failure returns the error in an answer, nil if the answer has a result.
func (m *message) failure() error {
	if m.result != nil {
		return nil
	}
	e := &Error{Code: mcp.CodeInternal, Message: "the response of the client is malformed"}
	fields, err := object(m.failed)
	if err != nil {
		return e
	}
	var code int
	if json.Unmarshal(fields["code"], &code) == nil {
		e.Code, e.Message = code, text(fields["message"])
	}
	if fields["data"] != nil {
		e.Data = fields["data"]
	}
	return e
}

// request encodes a request; params may be nil.
func request(id json.RawMessage, method string, params json.RawMessage) []byte {
	return encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params,omitempty"`
	}{"2.0", id, method, params})
}
