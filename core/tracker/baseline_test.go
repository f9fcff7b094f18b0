package tracker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// What changed while no tracker ran is told: the digests of an earlier one are the
// baseline of the next.
func TestBaselineOfAnEarlierTracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newWorld(t, Options{})
		docs := first.Serve("docs", session.EraLegacy)
		settledOn(first, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		known := digests(first)
		first.stop()

		docs.SetQuietly("file:///b.md", "two")
		delete(known, "file:///c.md") // was never told
		second := newWorld(t, Options{Baseline: func(server, uri string) catalog.Digest {
			if server != "docs" {
				t.Errorf("asked for the server %q", server)
			}
			return known[uri]
		}})
		second.Add("docs", docs)
		second.start(sessiontest.Entry("docs"))
		second.pass(5 * time.Second)
		second.wantUpdates("file:///b.md resync")
	})
}
