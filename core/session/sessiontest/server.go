// Package sessiontest is a scriptable MCP server for tests: both protocol eras,
// over stdio framing on any reader and writer (so also over io.Pipe, within a
// synctest bubble), over Streamable HTTP and over the old SSE transport. It does
// not use an SDK, so it can be as wrong as a test wants it to be.
//
// A Server is safe for concurrent use. It keeps a log of what clients sent and
// one of what really changed, to compare with what a tracker saw. Only tests
// import it.
package sessiontest

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Versions that the server speaks.
const (
	LegacyVersion = "2025-11-25"
	ModernVersion = "2026-07-28"
)

// Message is one message that a client sent.
type Message struct {
	Time   time.Time
	Method string // "" for an answer
	ID     json.RawMessage
	Params json.RawMessage
	Raw    json.RawMessage
	Header map[string]string // HTTP: what a test may want to see
}

// Change is one change of the world.
type Change struct {
	Time time.Time
	URI  string
	Text string // "" after a removal
	Gone bool
}

// Server is the world and its clients. Make it with New, change the exported
// fields before it is served.
type Server struct {
	Legacy, Modern bool // eras spoken; New: both
	PageSize       int  // items per page; 0: all
	Capabilities   map[string]any

	NoGET          bool   // HTTP: GET is answered with 405
	NoSession      bool   // HTTP: no session id is given
	Untagged       bool   // modern notifications lack their subscription id
	Name           string // serverInfo.name; "fake"
	EmptyCursor    bool   // the first nextCursor is ""
	RepeatedCursor bool   // every page has the same nextCursor
	EndlessPages   bool   // there is always another page

	mu        sync.Mutex
	resources map[string]Resource
	items     map[catalog.Kind]map[string]json.RawMessage
	faults    []*Fault
	ack       AckFault
	mute      bool
	wire      []Message
	truth     []Change
	peers     map[*peer]struct{}
	sessions  map[string]*peer // HTTP legacy and SSE
	serial    int
}

// Resource is one resource.
type Resource struct {
	Text, MimeType string
	Blob           []byte // instead of Text
}

// New makes a server that speaks both eras and offers everything.
func New() *Server {
	list := map[string]any{"listChanged": true}
	return &Server{
		Legacy: true, Modern: true, Name: "fake",
		Capabilities: map[string]any{"tools": list, "prompts": list,
			"resources": map[string]any{"listChanged": true, "subscribe": true}},
		resources: map[string]Resource{},
		items: map[catalog.Kind]map[string]json.RawMessage{
			catalog.Tools: {}, catalog.Prompts: {}, catalog.Templates: {}},
		peers: map[*peer]struct{}{}, sessions: map[string]*peer{},
	}
}

// Set gives a resource its text and notifies: of the update, or of the changed
// list if the resource is new.
func (s *Server) Set(uri, text string) {
	if s.SetQuietly(uri, text) {
		s.NotifyListChanged(catalog.Resources)
		return
	}
	s.NotifyUpdated(uri)
}

// SetQuietly is Set without a notification. It reports whether uri is new.
func (s *Server) SetQuietly(uri, text string) (added bool) {
	return s.SetResource(uri, Resource{Text: text, MimeType: "text/plain"})
}

// SetResource is SetQuietly for any resource.
func (s *Server) SetResource(uri string, r Resource) (added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.resources[uri]
	s.resources[uri] = r
	s.truth = append(s.truth, Change{Time: time.Now(), URI: uri, Text: r.Text})
	return !known
}

// Remove removes a resource and notifies of the changed list.
func (s *Server) Remove(uri string) {
	s.mu.Lock()
	delete(s.resources, uri)
	s.truth = append(s.truth, Change{Time: time.Now(), URI: uri, Gone: true})
	s.mu.Unlock()
	s.NotifyListChanged(catalog.Resources)
}

// SetList replaces the tools, prompts or templates, without a notification.
// Items are maps or raw JSON; their key member must be there.
func (s *Server) SetList(k catalog.Kind, items ...any) {
	list := make(map[string]json.RawMessage, len(items))
	for i, it := range items {
		raw, err := json.Marshal(it)
		if err != nil {
			panic(err)
		}
		var m map[string]any
		_ = json.Unmarshal(raw, &m)
		key, _ := m[k.KeyField()].(string)
		if key == "" {
			key = "\x00" + string(rune('a'+i)) // malformed on purpose
		}
		list[key] = raw
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[k] = list
}

// Wire returns what clients have sent, in order.
func (s *Server) Wire() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wire)
}

// Count returns how many requests or notifications of the method were received.
func (s *Server) Count(method string) int {
	n := 0
	for _, m := range s.Wire() {
		if m.Method == method {
			n++
		}
	}
	return n
}

// Truth returns all changes of resources, in order.
func (s *Server) Truth() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.truth)
}

// Subscribed returns the URIs that anybody is subscribed to, sorted.
func (s *Server) Subscribed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]struct{}{}
	for p := range s.peers {
		maps.Copy(all, p.filter.uris)
		for _, l := range p.listens {
			maps.Copy(all, l.filter.uris)
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Listens returns how many listens are open.
func (s *Server) Listens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for p := range s.peers {
		n += len(p.listens)
	}
	return n
}
