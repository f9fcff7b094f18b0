package tracker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A server that a request waits for is connected again soon after it has returned, however
// often it failed before. The attempts that were planned are not put off by that.
func TestHastenedServerIsConnectedSoon(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		w.SetDown("docs", errors.New("refused"))
		w.pass(20 * time.Second) // the waits are long by now
		before := len(w.Dialled("docs"))
		planned := func() time.Time {
			st, _ := w.tracker.Snapshot().Server("docs")
			return st.NextRetry
		}
		at := planned()
		for range 20 {
			w.tracker.Hasten("docs")
			w.pass(50 * time.Millisecond)
		}
		if n := len(w.Dialled("docs")) - before; n < 3 || n > 5 {
			w.Errorf("%d attempts in a second", n)
		}
		if now := planned(); now.Sub(at).Abs() > time.Millisecond {
			w.Errorf("the next attempt is at %v instead of %v", now, at)
		}
		w.SetDown("docs", nil)
		for range 6 {
			w.tracker.Hasten("docs")
			w.pass(50 * time.Millisecond)
		}
		w.wantState("docs", event.Ready)
	})
}

// However long requests wait, only some attempts are made because of them, and none of a
// server that asked to wait.
func TestHastenedAttemptsAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		down error
		most int
	}{
		"down":         {errors.New("refused"), 10*maxHurried + 10*3},
		"asks to wait": {&session.RetryAfter{Wait: 20 * time.Second, Err: errors.New("busy")}, 10 * 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				w.Serve("docs", session.EraLegacy)
				w.SetDown("docs", tt.down)
				w.start(sessiontest.Entry("docs"))
				for range 10 * 60 * 10 {
					w.tracker.Hasten("docs")
					w.pass(100 * time.Millisecond)
				}
				if n := len(w.Dialled("docs")); n > tt.most || n < 15 {
					w.Errorf("%d attempts in 10 minutes, want at most %d", n, tt.most)
				}
			})
		})
	}
}
