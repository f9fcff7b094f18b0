package sessiontest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// ServeHTTP serves Streamable HTTP: sessions and GET streams for legacy clients, listen streams for
// modern clients.
func (s *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		s.log(message{Method: r.Method}, nil, seen(r))
		s.clients.end(r.Header.Get("Mcp-Session-Id"))
	default:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

func seen(r *http.Request) map[string]string {
	h := map[string]string{}
	for _, name := range []string{"Authorization", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Accept"} {
		if v := r.Header.Get(name); v != "" {
			h[name] = v
		}
	}
	return h
}

func (s *Fake) post(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var m message
	if err != nil || json.Unmarshal(raw, &m) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	s.log(m, raw, seen(r))
	if m.Method == "" || len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if f := s.fault(m.Method, m.Params); f != nil && s.faulty(w, r, f, m) {
		return
	}
	if r.Header.Get("Mcp-Protocol-Version") >= mcp.ModernVersion {
		s.postModern(w, r, m)
		return
	}
	p := newPeer(func([]byte) {})
	if m.Method == "initialize" {
		if s.Legacy && !s.NoSession {
			w.Header().Set("Mcp-Session-Id", s.open("session", p))
		}
	} else if !s.NoSession {
		known := s.session(r.Header.Get("Mcp-Session-Id"))
		if known == nil {
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		p = known
	}
	if isEvents(m) && s.Events != nil {
		s.postEvents(w, r, m)
		return
	}
	s.reply(w, s.answer(p, m), !s.Legacy)
}

// reply writes a JSON response; modern errors have an HTTP status.
func (s *Fake) reply(w http.ResponseWriter, answer map[string]any, modern bool) {
	w.Header().Set("Content-Type", "application/json")
	if e, ok := answer["error"].(*rpcError); ok && modern {
		switch e.Code {
		case -32601:
			w.WriteHeader(http.StatusNotFound)
		case -32022, -32602:
			w.WriteHeader(http.StatusBadRequest)
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// faulty responds to a request according to a fault. It returns false if the fault was only a
// delay.
func (s *Fake) faulty(w http.ResponseWriter, r *http.Request, f *Fault, m message) bool {
	if f.Silent {
		<-r.Context().Done()
		return true
	}
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return true
		}
	}
	out, ok := f.reply(m)
	if !ok && f.Status == 0 && f.Body == "" {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	if f.Status != 0 {
		w.WriteHeader(f.Status)
	}
	if f.Body != "" || !ok {
		_, _ = io.WriteString(w, f.Body)
		return true
	}
	_ = json.NewEncoder(w).Encode(out)
	return true
}

func (s *Fake) postModern(w http.ResponseWriter, r *http.Request, m message) {
	if isEvents(m) && s.Events != nil {
		s.postEvents(w, r, m)
		return
	}
	if m.Method != "subscriptions/listen" || !s.Modern {
		s.reply(w, s.answer(newPeer(func([]byte) {}), m), true)
		return
	}
	st := newEventStream(w)
	p := newPeer(st.send)
	s.join(p)
	defer s.leave(p)
	l, err := s.startListen(p, m)
	if err != nil {
		s.reply(w, m.failed(err), true)
		return
	}
	st.start()
	select {
	case graceful := <-l.end:
		if graceful {
			p.send(completed(m))
		}
	case <-p.closed:
	case <-r.Context().Done():
	}
	st.end()
}

// get serves the notification stream of a legacy session.
func (s *Fake) get(w http.ResponseWriter, r *http.Request) {
	s.log(message{Method: r.Method}, nil, seen(r))
	known := s.session(r.Header.Get("Mcp-Session-Id"))
	if f := s.fault("GET", nil); f != nil && s.faulty(w, r, f, message{}) {
		return
	}
	switch {
	case s.NoGET || !s.Legacy:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	case known == nil && !s.NoSession:
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	st := newEventStream(w)
	p := newPeer(st.send)
	p.legacy = true
	if known != nil {
		s.share(p, known)
	}
	s.join(p)
	defer s.leave(p)
	st.start()
	select {
	case <-p.closed:
	case <-r.Context().Done():
	}
	st.end()
}

// eventStream writes server-sent events. Events sent before start are held back until start is
// called.
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

// event writes one event. The caller must hold st.mu.
func (st *eventStream) event(name string, data []byte) {
	_, _ = fmt.Fprintf(st.w, "event: %s\ndata: %s\n\n", name, data)
}

func (st *eventStream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
}

// SSE returns the handler for the old HTTP+SSE transport: GET on any path opens the stream, which
// specifies "?session=…" as the endpoint for POST.
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
