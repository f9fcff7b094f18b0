package tracker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Items that are left out of a list, and a resource that is too large to be read, are one warning
// each, which names the server, however often they are listed and read. The session goes on.
func TestLeftOutIsWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{AllLists: true, Session: session.Options{Limits: session.Limits{MaxLine: 10_000}}})
		srv := w.Serve("docs", session.EraLegacy)
		srv.SetQuietly("test://ok", "one")
		srv.SetQuietly("test://large", strings.Repeat("x", 20_000))
		srv.SetList(catalog.Tools, map[string]any{"name": ""}, map[string]any{"name": "t"})
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Minute)
		srv.SetList(catalog.Tools, map[string]any{"name": ""}, map[string]any{"name": "u"})
		w.pass(time.Minute)
		got := strings.Join(w.logs.warnings(), "\n")
		if strings.Count(got, "items of the server's lists are left out") != 1 || strings.Count(got, "a resource is too large to be compared") != 1 || !strings.Contains(got, "docs") {
			w.Errorf("%s", got)
		}
		if n := srv.Count("initialize"); n != 1 {
			w.Errorf("%d sessions", n)
		}
		w.stop()
	})
}
