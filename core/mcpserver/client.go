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

// maxAsked bounds the pending requests to one client.
const maxAsked = 64

// ErrUnreachable means that the client has no stream that could carry a message.
var ErrUnreachable = errors.New("the client has no open stream")

// Client is a legacy client, valid as long as its connection or session. A modern client is asked
// by the result of its own request, and answers by repeating the request.
type Client struct {
	// Capabilities are the client's capabilities, a JSON object.
	Capabilities json.RawMessage

	ctx  context.Context // done when the client can no longer answer
	gone context.Context // done when the client has left
	// send queues a message that belongs to no request; it reports false if the client is
	// unreachable or its queue is full.
	send func(message []byte) bool
	// drop withdraws a message that send queued; it reports whether the client never got it. nil:
	// send does not queue.
	drop func(message []byte) (unsent bool)

	mu   sync.Mutex
	last uint64
	// asked holds the channel for the response of each pending request, by id. receive sends to
	// it; capacity 1, never closed.
	asked   map[string]chan *message
	handler func(method string, params json.RawMessage) // of OnNotification; nil: none
	memory  json.RawMessage                             // of Remember; nil: none

	remember func() // called after memory was set; nil: nothing is stored
}

func newClient(ctx, gone context.Context, capabilities json.RawMessage, send func([]byte) bool) *Client {
	return &Client{Capabilities: capabilities, ctx: ctx, gone: gone, send: send, asked: map[string]chan *message{}}
}

// Remember stores a small JSON value with the client's session, replacing the previous value. It
// survives if another process continues the session; see [Options].SessionDir.
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

// Done returns a channel that is closed when the client has left.
func (c *Client) Done() <-chan struct{} { return c.gone.Done() }

// OnNotification sets the handler of the client's notifications, such as
// notifications/roots/list_changed, except notifications/cancelled. It runs on the goroutine that
// received the notification and must not block.
func (c *Client) OnNotification(f func(method string, params json.RawMessage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = f
}

// Notify sends a notification to the client: before the response to the request via while that is
// in progress, else on the client's own stream. via may be nil. The notification is dropped if the
// client is unreachable.
func (c *Client) Notify(via *Request, method string, params any) {
	if message := notification(method, params); message != nil {
		c.deliverVia(via, message)
	}
}

// deliverVia sends a message on the stream of the request via while that is in progress, else on
// the client's own stream. It reports false if the client is unreachable.
func (c *Client) deliverVia(via *Request, message []byte) bool {
	return via != nil && via.notes != nil && via.notes.write(message) || c.send(message)
}

// Ask sends a request to the client and waits for the response. The request goes on the stream of
// the request via while that is in progress, else on the client's own stream. An *Error is the
// client's response; [ErrUnreachable] means that the client could not be asked or can no longer
// answer. When ctx is done, Ask cancels the request at the client.
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
		withdraw() // a resumed stream must not ask again
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

// expect returns the id of a new request to the client and the channel for its response, valid
// until forget is called. answer is nil if too many requests are pending.
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

// receive handles a response or a notification of the client.
func (c *Client) receive(m *message) {
	c.mu.Lock()
	answer, handler := c.asked[idKey(m.id)], c.handler
	c.mu.Unlock()
	switch {
	case m.isAnswer() && answer != nil:
		select {
		case answer <- m:
		default: // a duplicate response
		}
	case !m.isAnswer() && m.id == nil && handler != nil:
		handler(m.method, m.params)
	}
}

// failure returns the error in a response, nil if it has a result.
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
