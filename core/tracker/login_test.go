package tracker

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// That a server needs a login is published once, however often it is tried, and again
// only for another reason.
func TestNeedsAuthIsPublishedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins := login.NewStore(login.Options{Dir: filepath.Join(t.TempDir(), "logins")})
		w := newWorld(t, Options{Session: session.Options{Logins: logins}})
		w.Serve("docs", session.EraLegacy)
		w.SetDown("docs", session.ErrAuth)
		w.start(sessiontest.Entry("docs"))
		w.pass(5 * time.Minute)
		if n := len(w.Dialled("docs")); n < 8 {
			w.Errorf("dialled %d times in five minutes", n)
		}
		needs := func() (n int) {
			for _, e := range w.published(event.TypeServerState) {
				if e.Payload.(event.ServerState).State == event.NeedsAuth {
					n++
				}
			}
			return n
		}
		if n := needs(); n != 1 {
			w.Errorf("published %d times:\n%s", n, w.log())
		}
		w.SetDown("docs", nil)
		w.pass(time.Minute)
		w.wantState("docs", event.Ready)
	})
}
