package tracker

import (
	"context"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A restart makes one new connection, also if it is requested again before that is made. What is
// known of the server is compared with what the new session finds.
func TestRestartMakesOneConnection(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		const dialling = 5 * time.Second
		w.opts.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			time.Sleep(dialling)
			return w.Dial(ctx, srv, opts)
		}
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(dialling + time.Second)
		w.wantState("docs", event.Ready)
		docs.Mute(true)
		docs.SetQuietly("file:///a.md", "two")
		w.forget()
		w.tracker.Restart("docs")
		w.pass(time.Second)
		w.wantState("docs", event.Connecting)
		w.tracker.Restart("docs")
		w.pass(dialling + time.Second)
		w.wantState("docs", event.Ready)
		w.wantUpdates("file:///a.md resync")
		w.pass(4 * dialling)
		if n := len(w.Dialled("docs")); n != 2 {
			w.Errorf("%d connections were made, want the first one and that of the restart", n)
		}
	})
}
