package session

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// EventMessage is a message of a stream of events, not yet decoded.
type EventMessage struct {
	Method string
	Params json.RawMessage
}

// EventNews is a decoded message: Event is set for an event, Err for an error or the end of the
// subscription, neither for other messages.
type EventNews struct {
	Event     *mcp.EventOccurrence
	Cursor    string // up to where the server has looked for events; "": it did not say
	Truncated bool   // in the message "active": events before the cursor are missing
	Err       *RPCError
}

// Decode decodes the message. If it fails, the message can be ignored.
func (m EventMessage) Decode() (EventNews, error) {
	if m.Method == mcp.NotificationEventsEvent {
		o, err := DecodeEvent(m.Params)
		return EventNews{Event: &o, Cursor: o.Cursor}, err
	}
	var p struct {
		Cursor    json.RawMessage `json:"cursor"`
		Truncated bool            `json:"truncated"`
		Error     struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return EventNews{}, fmt.Errorf("malformed %s", m.Method)
	}
	n := EventNews{Cursor: decodeCursor(p.Cursor), Truncated: p.Truncated}
	switch m.Method {
	case mcp.NotificationEventsError, mcp.NotificationEventsTerminated:
		n.Err = &RPCError{Code: p.Error.Code, Message: p.Error.Message, Data: p.Error.Data}
	}
	return n, nil
}

// Stream asks the server to push events, and returns when the stream has ended: nil if the
// server ended it, the cause of ctx if that ended, or why it failed. receive is called for each
// message by the goroutine that reads from the server, and never after Stream has returned; it
// must return at once and must not use the session.
func (e Events) Stream(ctx context.Context, q EventQuery, receive func(EventMessage)) error {
	requests := &e.s.requests
	id := requests.nextID()
	defer e.s.events.add(id, receive)()
	_, err := requests.send(ctx, requests.conn, e.s.Info().ProtocolVersion, id, mcp.MethodStreamEvents, q.params())
	if err != nil {
		return fmt.Errorf("%s: %w", mcp.MethodStreamEvents, err)
	}
	return nil
}

// Redact is [Session.Redact].
func (e Events) Redact(text string) string { return e.s.Redact(text) }

// HTTP reports whether the session uses HTTP, where each stream occupies a connection.
func (e Events) HTTP() bool { return e.s.requests.conn.HTTP() }

// eventStreams are the open streams of a session, by the ids of their requests.
type eventStreams struct {
	// changed has capacity one: the goroutine that reads from the server sends without
	// blocking; it is never closed.
	changed chan struct{}

	mu   sync.Mutex // guards open, and is held while a message is delivered
	open map[string]func(EventMessage)
}

func newEventStreams() eventStreams {
	return eventStreams{changed: make(chan struct{}, 1), open: map[string]func(EventMessage){}}
}

// add registers a stream before its request is sent; remove ends the delivery.
func (s *eventStreams) add(id string, receive func(EventMessage)) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = receive
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, id)
	}
}

// notify handles a notification of the extension. Messages of an unknown stream are dropped:
// events are only hints, and resources are compared after a loss.
func (s *eventStreams) notify(n *wire.Notification) {
	if n.Method == mcp.NotificationEventsChanged {
		select {
		case s.changed <- struct{}{}:
		default:
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if receive := s.open[n.Meta.Subscription.ID]; receive != nil {
		receive(EventMessage{n.Method, n.Raw})
	}
}
