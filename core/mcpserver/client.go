package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// maxAsked limits the number of pending requests to one client.
const maxAsked = 64

// ErrUnreachable reports that the client has no open stream over which to send a message.
var ErrUnreachable = errors.New("the client has no open stream")

// Client is a connected legacy client. It is valid as long as the client's connection or session.
// Servers send requests only to legacy clients: a modern client receives questions in the result of
// its own request, and repeats the request with the answers.
type Client struct {
	// Capabilities contains the client's capabilities as a JSON object.
	Capabilities  json.RawMessage
	name, session string // see [Request.ClientName] and [Request.Session]

	ctx  context.Context // done when the client can no longer answer requests
	gone context.Context // done when the client has disconnected
	// send queues a message that is unrelated to any request. It reports false if the client is
	// unreachable or its queue is full.
	send func(message []byte) bool
	// drop withdraws a message that send queued, and reports whether it was never sent. Nil if send
	// does not queue messages.
	drop func(message []byte) (unsent bool)

	mu sync.Mutex
	// asked contains the response channel of each pending request to the client, by request id.
	// receive sends to the channels, which have capacity 1 and are never closed.
	asked   map[string]chan *message
	handler func(method string, params json.RawMessage) // set by OnNotification; may be nil
	memory  json.RawMessage                             // set by Remember; may be nil

	remember func() // called after memory changes; nil if nothing is stored
}

func newClient(ctx, gone context.Context, name, session string, capabilities json.RawMessage, send func([]byte) bool) *Client {
	return &Client{Capabilities: capabilities, name: name, session: session, ctx: ctx, gone: gone, send: send, asked: map[string]chan *message{}}
}

// Remember stores a small JSON value in the client's session and replaces the previous value. The
// value is still available when another process resumes the session; see [Options].SessionDir.
func (c *Client) Remember(value json.RawMessage) {
	c.mu.Lock()
	c.memory = bytes.Clone(value)
	c.mu.Unlock()
	if c.remember != nil {
		c.remember()
	}
}

// Remembered returns the value that Remember stored, or nil if there is none.
func (c *Client) Remembered() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory
}

// Done returns a channel that is closed when the client has disconnected or its session has ended.
func (c *Client) Done() <-chan struct{} { return c.gone.Done() }

// OnNotification sets the handler for the client's notifications, such as
// notifications/roots/list_changed. The handler never receives notifications/cancelled. It runs on
// the goroutine that received the notification and must not block.
func (c *Client) OnNotification(f func(method string, params json.RawMessage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = f
}

// Notify sends a notification to the client. While the request via is in progress, the notification
// is sent on its stream, before the response; otherwise, or if via is nil, it is sent on the
// client's own stream. The notification is dropped if the client is unreachable.
func (c *Client) Notify(via *Request, method string, params any) {
	if message := notification(method, params); message != nil {
		c.deliverVia(via, message)
	}
}

// deliverVia sends a message on the stream of the request via while that request is in progress,
// and otherwise on the client's own stream. It reports false if the client is unreachable.
func (c *Client) deliverVia(via *Request, message []byte) bool {
	return via != nil && via.notes != nil && via.notes.write(message) || c.send(message)
}

// Ask sends a request to the client and waits for the response. The request is sent on the stream
// of the request via while that is in progress, and otherwise on the client's own stream. If the
// client responds with an error, Ask returns it as an *Error. Ask returns [ErrUnreachable] if the
// request cannot be sent or the client can no longer answer it. When ctx is done, Ask sends the
// client a cancellation.
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
		withdraw() // do not resend the request on a resumed stream
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

// expect allocates the id for a new request to the client and the channel for its response, which
// is valid until forget is called. answer is nil if too many requests are pending. The id is random,
// so that a late answer to a request of another process is never taken as the answer to this one.
func (c *Client) expect() (id json.RawMessage, answer chan *message, forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) == maxAsked {
		return nil, nil, nil
	}
	answer = make(chan *message, 1)
	id = encode(rand.Text())
	c.asked[idKey(id)] = answer
	return id, answer, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, idKey(id))
	}
}

// receive handles a response or notification from the client. It reports false for a response to
// which no request is pending.
func (c *Client) receive(m *message) bool {
	c.mu.Lock()
	answer, handler := c.asked[idKey(m.id)], c.handler
	c.mu.Unlock()
	switch {
	case m.isAnswer() && answer != nil:
		select {
		case answer <- m:
		default: // a duplicate response
			return false
		}
	case !m.isAnswer() && m.id == nil && handler != nil:
		handler(m.method, m.params)
	}
	return !m.isAnswer() || answer != nil
}

// receive handles a response or notification from a client, which is nil if the client cannot be
// asked. It drops and counts responses to which no request is pending.
func (s *Server) receive(from *Client, m *message) {
	if from != nil && from.receive(m) || !m.isAnswer() {
		return
	}
	s.opts.Logger.Debug("dropped a client's answer to a question that is not pending", "id", bounded(idText(m.id)), "dropped", s.strayAnswers.Add(1))
}

// StrayAnswers returns the number of responses from clients that were dropped because no request to
// the client with their id was pending.
func (s *Server) StrayAnswers() uint64 { return s.strayAnswers.Load() }

// failure returns the error in a response, or nil if the response has a result.
func (m *message) failure() error {
	if m.result != nil {
		return nil
	}
	e := &Error{Code: mcp.CodeInternal, Message: "the client's response is malformed"}
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
