// Package sessiontest is a scriptable MCP server for tests: both protocol eras,
// over stdio framing on any reader and writer (so also over io.Pipe, within a
// synctest bubble), over Streamable HTTP and over the old SSE transport. It does
// not use an SDK, so it can be as wrong as a test wants it to be.
//
// A Fake is safe for concurrent use. It keeps a log of what clients sent and
// one of what really changed, to compare with what a tracker saw. Only tests
// and scripts/faults import it.
package sessiontest

import (
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Fake is a world, the clients that look at it, and the faults between them. Make
// it with New, change the exported fields before it is served.
type Fake struct {
	Legacy, Modern bool   // eras spoken; New: both
	NamesLegacy    bool   // server/discover names the legacy versions, too
	PageSize       int    // items per page; 0: all
	Name           string // serverInfo.name; "fake"
	Capabilities   map[string]any
	Instructions   string
	Events         EventFunc // answers the methods of MCP Events; nil: there are none

	NoGET          bool // HTTP: GET is answered with 405
	NoSession      bool // HTTP: no session id is given
	EmptyCursor    bool // the first nextCursor is ""
	RepeatedCursor bool // every page has the same nextCursor
	EndlessPages   bool // there is always another page

	world
	clients
	faults
	received
}

// New makes a server that speaks both eras and offers everything.
func New() *Fake {
	list := map[string]any{"listChanged": true}
	return &Fake{
		Legacy: true, Modern: true, Name: "fake",
		Capabilities: map[string]any{"tools": list, "prompts": list,
			"resources": map[string]any{"listChanged": true, "subscribe": true}},
		world: world{resources: map[string]Resource{}, items: map[catalog.Kind]map[string]json.RawMessage{
			catalog.Tools: {}, catalog.Prompts: {}, catalog.Templates: {}}, capable: map[catalog.Kind]map[string]json.RawMessage{}},
		clients: clients{peers: map[*peer]struct{}{}, sessions: map[string]*peer{}},
	}
}

// Set gives a resource its text and notifies: of the update, or of the changed
// list if the resource is new.
func (s *Fake) Set(uri, text string) {
	if s.SetQuietly(uri, text) {
		s.NotifyListChanged(catalog.Resources)
		return
	}
	s.NotifyUpdated(uri)
}

// Remove removes a resource and notifies of the changed list.
func (s *Fake) Remove(uri string) {
	s.RemoveQuietly(uri)
	s.NotifyListChanged(catalog.Resources)
}

// Heal removes all faults.
func (s *Fake) Heal() {
	s.faults.clear()
	s.Mute(false)
}
