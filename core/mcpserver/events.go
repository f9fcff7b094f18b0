package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Events contains the handlers for MCP Events (SEP-3415, io.modelcontextprotocol/events) in both
// eras. Handle and Stream are required.
type Events struct {
	// Handle handles events/list, events/poll, events/subscribe and events/unsubscribe.
	Handle Func
	// Stream serves events/stream.
	Stream StreamFunc
	// Identify returns a permanent name for the client that sent an HTTP request, such as the name
	// of its token, or an empty string if it has none; see [Request].Identity. May be nil.
	Identify func(*http.Request) string
}

// StreamFunc serves one events/stream request. An error before the first message becomes the
// response to the request; a later error ends the stream without a result. ctx is done when the
// client cancels the request or disconnects, in both eras, and when the server or the connection
// closes. Only in the last case is the result sent.
//
// send writes messages, each a single-line JSON-RPC notification, and blocks while the client does
// not read. It returns an error once the client has disconnected. Streams do not count toward
// Options.MaxInFlight: the function must limit their number.
type StreamFunc func(ctx context.Context, r *Request, id json.RawMessage, send func(messages ...[]byte) error) (json.RawMessage, error)

const (
	eventsPrefix     = "events/"
	eventsCapability = `{"listChanged":true}`
)

func (e Events) offered() bool { return e.Handle != nil && e.Stream != nil }

// errEnding is the cancellation cause for a stream whose connection is closing.
var errEnding = errors.New("the connection is ending")

// runEventStream calls Events.Stream for one request.
func (s *Server) runEventStream(ctx context.Context, m *message, from caller, send func(...[]byte) error) (json.RawMessage, *Error) {
	r := newRequest(m, from)
	result, err := s.run(ctx, func(ctx context.Context, r *Request) (json.RawMessage, error) {
		return s.opts.Events.Stream(ctx, r, m.id, send)
	}, r)
	if err != nil {
		return nil, wireError(err, r)
	}
	return s.complete(result, false, from)
}

// streamEvents serves an events/stream request on the goroutine of the HTTP handler. The stream
// ends when the client disconnects, even in the legacy era, because an event stream cannot be
// resumed.
func (x *exchange) streamEvents(parent context.Context, from caller) {
	if !x.acceptsEvents() {
		return
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer context.AfterFunc(x.r.Context(), func() { cancel(context.Cause(x.r.Context())) })()
	defer context.AfterFunc(x.srv.ctx, func() { cancel(errClosed) })()
	var stream *eventStream
	send := func(messages ...[]byte) error {
		if stream == nil {
			stream = x.srv.newEventStream(x.w)
			if err := stream.start(); err != nil {
				return err
			}
		}
		for _, message := range messages {
			if err := stream.event("", message); err != nil {
				return err
			}
		}
		return stream.flush()
	}
	result, failed := x.srv.runEventStream(ctx, x.m, from, send)
	switch {
	case x.r.Context().Err() != nil: // the client has disconnected
	case stream == nil && wasCancelled(ctx):
		x.finish(reply{}, true)
	case stream == nil:
		x.reply(http.StatusOK, answer(x.m.id, result, failed))
	case failed == nil && !wasCancelled(ctx):
		_ = stream.send("", answer(x.m.id, result, nil)) // fails only if the client has disconnected
	}
}

// streamEvents serves an events/stream request until the client cancels it or the connection
// closes.
func (c *stdioConn) streamEvents(m *message, from caller) {
	ctx, end, ok := c.begin(m)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{}) // closed when the stream has ended
	c.wg.Go(func() {
		select {
		case <-c.ending:
			cancel(errEnding)
		case <-ended:
		}
	})
	c.wg.Go(func() {
		defer end()
		defer cancel(nil)
		defer close(ended)
		began := false
		result, failed := c.srv.runEventStream(ctx, m, from, func(messages ...[]byte) error {
			began = true
			return c.out.write(ctx, bytes.Join(messages, []byte("\n")))
		})
		cancelled := wasCancelled(ctx)
		end()
		if !cancelled && (failed == nil || !began) {
			_ = c.out.write(context.Background(), answer(m.id, result, failed))
		}
	})
}
