package tracker

import (
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// suspend holds the worker's goroutine for the time given, as the suspension of
// the process does: the next read of the URI fails, and the line that says so
// takes that long to write.
func (w *world) suspend(docs *sessiontest.Fake, uri string, d time.Duration) {
	docs.Fail(sessiontest.Fault{Method: "resources/read", URI: uri, Times: 1, Code: -32603, Message: "disk on fire"})
	w.logs.stallAt("read failed", d)
	docs.NotifyUpdated(uri)
}

// A process that slept for a minute compares everything once, and keeps the
// session (F8 of the fault matrix).
func TestSuspension(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		w.suspend(docs, "file:///a.md", time.Minute)
		w.pass(time.Second)
		docs.SetQuietly("file:///b.md", "two")
		lists := docs.Count("resources/list")
		w.pass(70 * time.Second)
		got := w.updates()
		slices.Sort(got)
		if want := []string{"file:///a.md notify", "file:///a.md resync", "file:///b.md resync"}; !slices.Equal(got, want) {
			w.Errorf("updates %q, want %q; events:\n%s", got, want, w.log())
		}
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
		if n := docs.Count("resources/list") - lists; n != 1 {
			w.Errorf("%d syncs, want one", n)
		}
		if n := len(w.published(event.TypeServerState)); n != 0 {
			w.Errorf("%d states:\n%s", n, w.log())
		}
		w.forget()
		docs.Set("file:///c.md", "two")
		w.pass(3 * time.Second)
		w.wantUpdates("file:///c.md notify")
	})
}

// A ping that was out during the suspension is not held against the server, and
// does not keep the session from ending.
func TestSuspensionDuringAPing(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md") // 3 s after the connection
		for _, method := range []string{"ping", "server/discover"} {
			docs.Fail(sessiontest.Fault{Method: method, Silent: true})
		}
		w.pass(12500 * time.Millisecond) // one is out since half a second
		w.suspend(docs, "file:///a.md", 6*time.Second)
		w.pass(7 * time.Second) // and by now two are
		w.wantState("docs", event.Ready)
		docs.Heal()
		docs.Disconnect()
		w.pass(10 * time.Second)
		w.wantState("docs", event.Ready)
		if n := len(w.Dialled("docs")); n != 2 {
			w.Errorf("dialled %d times", n)
		}
	})
}

func TestClock(t *testing.T) {
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	var c clock
	for _, step := range []struct {
		now, until float64
		never      bool
		jumped     bool
	}{
		{now: 0, until: 1},
		{now: 1, until: 2},
		{now: 6.9, until: 9}, // late, within the tolerance
		{now: 14.1, until: 15, jumped: true},
		{now: 14.2, never: true},
		{now: 3000, until: 3001}, // nothing was due
		{now: 3002, never: true},
		{now: 3002 + 3700, until: 8000, jumped: true},
	} {
		if got := c.jumped(at(step.now)); got != step.jumped {
			t.Errorf("at %v s: jumped is %t", step.now, got)
		}
		if step.never {
			c.expect(time.Time{})
		} else {
			c.expect(at(step.until))
		}
	}
}
