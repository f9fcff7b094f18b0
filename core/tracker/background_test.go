package tracker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A server that accepts subscriptions and never pushes is found out by the safety reads:
// after two changes that it missed it is polled, also in the next session.
func TestServerThatNeverPushesIsPolled(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Mute(true)
		docs.SetQuietly("file:///a.md", "two")
		w.pass(7 * time.Minute)
		w.wantUpdates("file:///a.md poll")
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Push || st.Counts.Missed != 1 {
			w.Errorf("after one missed change: mode %s, missed %d", st.Mode, st.Counts.Missed)
		}
		docs.SetQuietly("file:///b.md", "two")
		w.pass(7 * time.Minute)
		w.wantUpdates("file:///a.md poll", "file:///b.md poll")
		active := w.published(event.TypeSubscriptionActive)
		if len(active) != 1 || active[0].Payload.(event.SubscriptionActive).Mode != event.Poll {
			w.Errorf("after two missed changes:\n%s", w.log())
		}
		w.forget()
		docs.SetQuietly("file:///a.md", "three")
		w.pass(config.DefaultPollInterval*3/2 + time.Second)
		w.wantUpdates("file:///a.md poll")
		docs.Disconnect()
		w.pass(10 * time.Second)
		w.forget()
		docs.SetQuietly("file:///a.md", "four")
		w.pass(config.DefaultPollInterval*3/2 + time.Second)
		w.wantUpdates("file:///a.md poll")
	})
}

// A server that notifies a moment after a safety read has found the change missed nothing.
func TestLateNotificationIsNotMissed(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		for i := range 4 {
			docs.SetQuietly("file:///a.md", fmt.Sprint("version ", i))
			for len(w.updates()) == 0 {
				w.pass(time.Second)
			}
			docs.NotifyUpdated("file:///a.md")
			w.pass(time.Minute)
			w.forget()
		}
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Push || st.Counts.Missed != 0 {
			w.Errorf("mode %s, missed %d", st.Mode, st.Counts.Missed)
		}
	})
}

// Safety reads are spread over the interval, and "0" (negative here) switches them off.
func TestSafetyReadsAreSpreadOut(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Minute, -1} {
		t.Run(interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				docs := w.Serve("docs", session.EraLegacy)
				for i := range 30 {
					docs.SetQuietly(fmt.Sprintf("file:///%d.md", i), "one")
				}
				w.start(sessiontest.Entry("docs", func(s *config.Server) { s.SafetyInterval = interval }))
				w.pass(3 * time.Second)
				first, since := docs.Count("resources/read"), time.Now()
				w.pass(time.Minute)
				reads := docs.Count("resources/read") - first
				want := map[time.Duration]int{0: 6, time.Minute: 30, -1: 0}[interval]
				if reads < want*7/10 || reads > want*13/10 {
					t.Errorf("%d reads in a minute, want about %d", reads, want)
				}
				w.pass(time.Hour)
				most := 0
				for _, n := range readsPerSecond(docs, since) {
					most = max(most, n)
				}
				if most > 2 {
					t.Errorf("%d reads in one second", most)
				}
			})
		})
	}
}

// readsPerSecond counts the reads since some time by the second.
func readsPerSecond(docs *sessiontest.Fake, since time.Time) map[int64]int {
	out := map[int64]int{}
	for _, m := range docs.Wire() {
		if m.Method == "resources/read" && m.Time.After(since) {
			out[m.Time.Unix()]++
		}
	}
	return out
}

// "mode": "poll" subscribes to no resource and reads at the poll interval; changing it
// needs no new session.
func TestPollModeOfTheConfig(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		poll := func(s *config.Server) { s.Mode = config.ModePoll }
		w.start(sessiontest.Entry("docs", poll))
		w.pass(3 * time.Second)
		if got := docs.Subscribed(); len(got) != 0 {
			w.Errorf("subscribed to %q", got)
		}
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Poll {
			w.Errorf("mode %s", st.Mode)
		}
		docs.Set("file:///a.md", "two")
		w.pass(config.DefaultPollInterval*3/2 + time.Second)
		w.wantUpdates("file:///a.md poll")
		w.forget()
		w.apply(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		docs.Set("file:///a.md", "three")
		w.pass(time.Second)
		w.wantUpdates("file:///a.md notify")
		w.apply(sessiontest.Entry("docs", poll))
		w.pass(3 * time.Second)
		docs.Set("file:///a.md", "four")
		w.pass(config.DefaultPollInterval*3/2 + time.Second)
		w.wantUpdates("file:///a.md notify", "file:///a.md poll")
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
	})
}

// A resource that was removed and added again with other content between two syncs looks
// the same in the list: the announced change of the list makes all resources compared.
func TestRemovedAndAddedAgainBetweenTwoSyncs(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		docs.SetQuietly("file:///b.md", "removed and added again")
		docs.NotifyListChanged(catalog.Resources)
		w.pass(2 * time.Second)
		w.wantUpdates("file:///b.md resync")
		if n := len(w.published(event.TypeResourcesListChanged)); n != 0 {
			w.Errorf("%d changes of the list", n)
		}
	})
}

// The same if the list cannot be had at once.
func TestRemovedAndAddedAgainWhileTheListFails(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		docs.SetQuietly("file:///b.md", "removed and added again")
		docs.Fail(sessiontest.Fault{Method: "resources/list", Times: 2, Code: -32603, Message: "disk on fire"})
		docs.NotifyListChanged(catalog.Resources)
		w.pass(15 * time.Second)
		w.wantUpdates("file:///b.md resync")
	})
}

// However often a server announces that its list changed, the sweeps that compare its
// resources leave it time.
func TestSweepsAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		for i := range 10 {
			docs.SetQuietly(fmt.Sprintf("file:///%d.md", i), "one")
		}
		w.start(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		before := docs.Count("resources/read")
		for range 600 {
			docs.NotifyListChanged(catalog.Resources)
			w.pass(100 * time.Millisecond)
		}
		if n := docs.Count("resources/read") - before; n < 50 || n > 80 {
			t.Errorf("%d reads in a minute, want about one of each of 10 resources in 10 s", n)
		}
	})
}

// A notification that is spoilt on its way, by another writer or a crash, does not lose
// its change.
func TestChangeOfASpoiltNotificationIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := sessiontest.New()
		docs.Legacy, docs.Modern = true, false
		spoil := false
		tap := &sessiontest.Tap{Server: docs, Change: func(line string) string {
			if spoil && strings.Contains(line, "notifications/resources/updated") {
				return line[:len(line)-20]
			}
			return line
		}}
		w := newWorld(t, Options{Dial: tap.Dial})
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		spoil = true
		for i := range 3 {
			w.forget()
			docs.Set("file:///a.md", fmt.Sprint("version ", i))
			w.pass(10 * time.Second)
			w.wantUpdates("file:///a.md resync")
		}
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Counts.Dropped[session.DroppedUndecodable] != 3 {
			w.Errorf("counted %v", st.Counts.Dropped)
		}
		if n := len(w.logs.warnings()); n != 1 {
			w.Errorf("warned %q, want one warning", w.logs.warnings())
		}
		w.stop()
		tap.Wait()
	})
}
