package mcpserver

import (
	"context"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
)

// eventStream is an event stream to one client. It must be used by one goroutine at a time.
type eventStream struct {
	srv *Server
	w   http.ResponseWriter
	out *eventstream.Writer
}

func (s *Server) newEventStream(w http.ResponseWriter) *eventStream {
	return &eventStream{srv: s, w: w, out: s.writer(w)}
}

// start sends the headers immediately: clients wait for them.
func (e *eventStream) start() error {
	h := e.w.Header()
	h.Set("Content-Type", eventstream.ContentType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	h.Del("Content-Length")
	e.out.Extend()
	e.w.WriteHeader(http.StatusOK)
	return e.out.Flush()
}

// event writes one event; id may be "".
func (e *eventStream) event(id string, data []byte) error {
	_, err := e.out.Write(eventstream.Append(make([]byte, 0, len(data)+len(id)+40), id, eventstream.DefaultType, data))
	return err
}

// prime sends an id with an empty event, so that a client that is cut off before its
// first event can still resume.
func (e *eventStream) prime(id string) error {
	_, err := e.out.Write(eventstream.Append(nil, id, "", nil))
	return err
}

func (e *eventStream) comment() error {
	if _, err := e.out.Write(eventstream.AppendComment(nil, "heartbeat")); err != nil {
		return err
	}
	return e.flush()
}

func (e *eventStream) flush() error { return e.out.Flush() }

// pusher returns a pusher of a subscriber's notifications to this stream. number
// returns the id of each event; nil means that they have none.
func (e *eventStream) pusher(sub *subscriptions.Subscriber, number func(subscriptions.Batch) string) *pusher {
	return &pusher{
		sub: sub, flush: e.flush, beat: e.comment, every: e.srv.opts.Heartbeat,
		send: func(_ context.Context, what subscriptions.Batch, message []byte) error {
			id := ""
			if number != nil {
				id = number(what)
			}
			return e.event(id, message)
		},
	}
}

// writer returns a writer with the deadlines of the server for each part of an answer.
func (s *Server) writer(w http.ResponseWriter) *eventstream.Writer {
	return eventstream.NewWriter(w, s.writeDeadline)
}

// writeDeadline returns the deadline of the next write, which is shorter while the
// server closes.
func (s *Server) writeDeadline() time.Time {
	timeout := s.opts.WriteTimeout
	if s.ctx.Err() != nil {
		timeout = min(timeout, drainTimeout)
	}
	return time.Now().Add(timeout)
}

func (s *Server) deadline(rc *http.ResponseController) {
	_ = rc.SetWriteDeadline(s.writeDeadline()) // not all writers support deadlines
}
