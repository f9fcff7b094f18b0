package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// sse is an event stream to one client. It belongs to one goroutine.
type sse struct {
	srv *Server
	w   http.ResponseWriter
	rc  *http.ResponseController
}

func (s *Server) newSSE(w http.ResponseWriter) *sse {
	return &sse{srv: s, w: w, rc: http.NewResponseController(w)}
}

// start sends the headers at once: clients wait for them.
func (e *sse) start() error {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	h.Del("Content-Length")
	e.srv.deadline(e.rc)
	e.w.WriteHeader(http.StatusOK)
	return e.rc.Flush()
}

// event writes one event; id may be "". Data must be one line.
func (e *sse) event(id string, data []byte) error {
	b := make([]byte, 0, len(data)+len(id)+40)
	b = append(b, "event: message\n"...)
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(append(b, "data: "...), data...), "\n\n"...)
	return e.srv.write(e.w, e.rc, b)
}

// prime tells an id without telling anything, so that a client that is cut off before
// it gets an event can say what it had.
func (e *sse) prime(id string) error {
	return e.srv.write(e.w, e.rc, []byte("id: "+id+"\ndata: \n\n"))
}

func (e *sse) comment() error {
	if err := e.srv.write(e.w, e.rc, []byte(": heartbeat\n\n")); err != nil {
		return err
	}
	return e.flush()
}

func (e *sse) flush() error {
	e.srv.deadline(e.rc)
	return e.rc.Flush()
}

// pusher tells the client of the stream what a subscriber is to be told. number
// gives each event its id; nil: they have none.
func (e *sse) pusher(sub *subscriptions.Subscriber, number func(subscriptions.Batch) string) *pusher {
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

// write gives a client WriteTimeout for each part, so that a large answer may
// take long but one who does not read is cut off.
func (s *Server) write(w http.ResponseWriter, rc *http.ResponseController, b []byte) error {
	const part = 64 << 10
	for len(b) > 0 {
		n := min(len(b), part)
		s.deadline(rc)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// deadline is that of the next write; a server that closes has less patience.
func (s *Server) deadline(rc *http.ResponseController) {
	patience := s.opts.WriteTimeout
	if s.ctx.Err() != nil {
		patience = min(patience, goodbye)
	}
	_ = rc.SetWriteDeadline(time.Now().Add(patience)) // not all writers have one
}
