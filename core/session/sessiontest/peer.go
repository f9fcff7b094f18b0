package sessiontest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// filter is what a peer or a listen wants to hear of.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	uris      map[string]struct{}
}

func (f filter) covers(uri string) bool {
	for u := range f.uris {
		if u == uri || strings.HasPrefix(uri, strings.TrimSuffix(u, "/")+"/") {
			return true
		}
	}
	return false
}

func (f filter) empty() bool { return !f.Tools && !f.Prompts && !f.Resources && len(f.uris) == 0 }

// peer is one client connection that notifications can go to.
type peer struct {
	legacy  bool
	filter  filter             // legacy
	listens map[string]*listen // modern, by the JSON of the request id
	write   func(raw []byte)   // must be safe for concurrent use
	closed  chan struct{}      // closed, under Server.mu, to cut the connection
}

// listen is one open subscriptions/listen.
type listen struct {
	filter filter
	acked  bool
	// end receives how the request ends, once: true for gracefully. Capacity 1,
	// never closed.
	end chan bool
}

func newPeer(write func([]byte)) *peer {
	return &peer{listens: map[string]*listen{}, write: write, closed: make(chan struct{}),
		filter: filter{Tools: true, Prompts: true, Resources: true, uris: map[string]struct{}{}}}
}

func (p *peer) send(message any) {
	raw, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	p.write(raw)
}

func (s *Server) join(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[p] = struct{}{}
}

func (s *Server) leave(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
}

// EndListens ends all open listens: gracefully, with the completing result, or
// abruptly. On stdio, where there is no stream to cut, an abrupt end is silence:
// use CancelListens there.
func (s *Server) EndListens(graceful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		for id, l := range p.listens {
			delete(p.listens, id)
			l.end <- graceful
		}
	}
}

// CancelListens ends all open listens with notifications/cancelled.
func (s *Server) CancelListens() {
	type target struct {
		p  *peer
		id string
	}
	var targets []target
	s.mu.Lock()
	for p := range s.peers {
		for id := range p.listens {
			targets = append(targets, target{p, id})
		}
		clear(p.listens)
	}
	s.mu.Unlock()
	for _, t := range targets {
		t.p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled",
			"params": map[string]any{"requestId": json.RawMessage(t.id), "reason": "test"}})
	}
}

// Disconnect cuts every connection: stdio ends as if the process had exited,
// HTTP streams break off. Sessions stay known.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		s.cut(p)
	}
}

// cut needs the lock.
func (s *Server) cut(p *peer) {
	delete(s.peers, p)
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
}

// ForgetSessions makes the server answer 404 to all sessions that exist, as
// after a restart, and cuts their streams.
func (s *Server) ForgetSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
	for p := range s.peers {
		s.cut(p)
	}
}

// ForgetSubscriptions cuts the streams and forgets what was subscribed, but goes
// on to accept the sessions: the silent restart of a server that checks no ids.
func (s *Server) ForgetSubscriptions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.sessions {
		clear(p.filter.uris)
	}
	for p := range s.peers {
		s.cut(p)
	}
}

func (f filter) withSet() filter {
	f.uris = make(map[string]struct{}, len(f.URIs))
	for _, u := range f.URIs {
		f.uris[u] = struct{}{}
	}
	f.URIs = slices.Sorted(maps.Keys(f.uris))
	return f
}
