package tracker

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Lists that a server does not offer are reported as empty beside those that it is
// asked for at the same time; the race detector watches.
func TestProbeOfAFewLists(t *testing.T) {
	var n sessiontest.Net
	docs := n.Serve("docs", session.EraLegacy)
	docs.Capabilities = map[string]any{"resources": map[string]any{}}
	docs.SetQuietly("file:///a.md", "one")
	var servers []config.Server
	for range 20 {
		servers = append(servers, sessiontest.Entry("docs"))
	}
	for _, r := range Probe(t.Context(), servers, ProbeOptions{Dial: n.Dial}) {
		if r.Err != nil || len(r.Lists) != 4 || len(r.Lists[catalog.Resources]) != 1 {
			t.Errorf("%v, lists %v", r.Err, r.Lists)
		}
	}
	n.Wait()
}
