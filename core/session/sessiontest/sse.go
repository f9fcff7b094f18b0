package sessiontest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// eventStream writes server-sent events. Events sent before start wait for it.
type eventStream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	waiting [][]byte
	started bool
	ended   bool
}

func newEventStream(w http.ResponseWriter) *eventStream { return &eventStream{w: w} }

func (st *eventStream) start() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.w.Header().Set("Content-Type", "text/event-stream")
	st.w.WriteHeader(http.StatusOK)
	st.started = true
	for _, raw := range st.waiting {
		st.event("message", raw)
	}
	_ = http.NewResponseController(st.w).Flush()
}

func (st *eventStream) send(raw []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.ended:
	case !st.started:
		st.waiting = append(st.waiting, raw)
	default:
		st.event("message", raw)
		_ = http.NewResponseController(st.w).Flush()
	}
}

// event needs the lock.
func (st *eventStream) event(name string, data []byte) {
	_, _ = fmt.Fprintf(st.w, "event: %s\ndata: %s\n\n", name, data)
}

func (st *eventStream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
}

// SSE returns the handler of the old HTTP+SSE transport: GET on any path opens
// the stream and names "?session=…" as the endpoint to POST to.
func (s *Fake) SSE() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.postSSE(w, r)
			return
		}
		if r.Method != http.MethodGet {
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		st := newEventStream(w)
		p := newPeer(st.send)
		p.legacy = true
		id := s.open("sse", p)
		s.join(p)
		st.start()
		st.mu.Lock()
		st.event("endpoint", []byte(r.URL.Path+"?session="+id))
		_ = http.NewResponseController(w).Flush()
		st.mu.Unlock()
		select {
		case <-p.closed:
		case <-r.Context().Done():
		}
		st.end()
		s.clients.end(id)
	})
}

func (s *Fake) postSSE(w http.ResponseWriter, r *http.Request) {
	p := s.session(r.URL.Query().Get("session"))
	raw, err := io.ReadAll(r.Body)
	var m message
	switch {
	case p == nil:
		http.Error(w, "no such session", http.StatusMethodNotAllowed)
		return
	case err != nil || json.Unmarshal(raw, &m) != nil:
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	s.log(m, raw, seen(r))
	if m.Method == "" || len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	f := s.fault(m.Method, m.Params)
	if f != nil && f.Status != 0 && s.faulty(w, r, f, m) {
		return
	}
	w.WriteHeader(http.StatusAccepted)
	if f != nil && f.Silent {
		return
	}
	if f != nil {
		if out, ok := f.reply(m); ok {
			p.send(out)
			return
		}
	}
	p.send(s.answer(p, m))
}
