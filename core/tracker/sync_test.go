package tracker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Repeated gaps, such as those of a stream that a proxy keeps cutting, do not postpone the sync
// that repairs them for ever.
func TestRepeatedGapsDoNotPostponeTheSync(t *testing.T) {
	var (
		y     syncs
		began = time.Now()
		begun []time.Duration
	)
	for second := range 300 {
		now := began.Add(time.Duration(second) * time.Second)
		if y.due(now) {
			begun = append(begun, now.Sub(began))
			y.pending = syncRequest{}
		}
		y.gap(now, true, 30*time.Second)
	}
	if len(begun) < 9 || len(begun) > 20 {
		t.Errorf("syncs at %v, want one about every 30 s", begun)
	}
}

// After a gap during a long sync, the next sync does not follow immediately.
func TestGapDuringASyncDelaysTheNextOne(t *testing.T) {
	y, now := syncs{running: true}, time.Now()
	y.gap(now, false, 30*time.Second)
	now = now.Add(5 * time.Second)
	y.gap(now, false, 30*time.Second)
	if wait := y.next.Sub(now); wait < time.Second {
		t.Errorf("the next sync is in %v", wait)
	}
}

// After a subscription that lasted longer than the last wait, the next one begins immediately;
// after short-lived ones, the waits grow.
func TestWaitAfterAGapDependsOnHowLongTheSubscriptionLasted(t *testing.T) {
	for _, eager := range []bool{true, false} {
		g, now := gaps{retry: backoff.New(time.Second, 30*time.Second)}, time.Now()
		after := func(stood time.Duration) time.Duration {
			g.subscribed = now
			now = now.Add(stood)
			wait := g.next(now, eager)
			now = now.Add(wait)
			return wait
		}
		for range 50 {
			if wait := after(25 * time.Second); wait != 0 {
				t.Fatalf("a wait of %v after 25 s", wait)
			}
		}
		var wait time.Duration
		for range 10 {
			wait = after(500 * time.Millisecond)
		}
		if wait < 20*time.Second {
			t.Errorf("a wait of %v after ten subscriptions of half a second", wait)
		}
		if wait = after(10 * time.Second); wait < 20*time.Second {
			t.Errorf("a wait of %v after one that lasted less than the last wait", wait)
		}
		if wait = after(40 * time.Second); wait != 0 {
			t.Errorf("a wait of %v after one that lasted longer", wait)
		}
	}
}

// A list that grows whenever there is no subscription, as often as one sync resubscribes, is
// completely known in the end.
func TestListGrowsDuringInterruptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Resync: 1000 * time.Hour})
		docs := w.Serve("docs", session.EraModern)
		docs.SetQuietly("file:///0", "text")
		var acks atomic.Int32
		last := ""
		tap := &sessiontest.Tap{Server: docs, Change: func(line string) string {
			// The first subscription is to lists only; each of the others replaces one.
			if n := acks.Load(); strings.Contains(line, mcp.NotificationAcknowledged) && acks.Add(1) > 1 && n <= maxInterruptions+1 {
				last = fmt.Sprintf("file:///%d", n)
				docs.SetQuietly(last, "text")
			}
			return line
		}}
		w.opts.Dial = tap.Dial
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Minute)
		w.wantState("docs", event.Ready)
		st, _ := w.tracker.Snapshot().Server("docs")
		if n := len(st.Resources); n != maxInterruptions+2 {
			t.Errorf("%d resources are tracked, the last is %s; %d subscriptions", n, last, acks.Load())
		}
		w.stop()
		tap.Wait()
	})
}

// A resource whose subscription was not answered, or temporarily rejected, is subscribed to later:
// without reads, nothing else would show its changes.
func TestFailedSubscriptionIsRepeated(t *testing.T) {
	for name, fault := range map[string]sessiontest.Fault{
		"not answered": {Silent: true},
		"refused":      {Code: -32603, Message: "try again later"},
		"unsupported":  {Code: -32601, Message: "still starting"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				docs := w.Serve("docs", session.EraLegacy)
				docs.SetQuietly("file:///a.md", "one")
				docs.SetQuietly("file:///b.md", "one")
				fault.Method, fault.URI, fault.Times = "resources/subscribe", "file:///a.md", 1
				docs.Fail(fault)
				w.start(sessiontest.Entry("docs", func(srv *config.Server) { srv.Read = config.ReadNone }))
				w.pass(time.Minute)
				w.wantState("docs", event.Ready)
				if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode == event.Push && len(st.Missing) == 0 {
					t.Fatal("the subscription did not fail")
				}
				w.pass(7 * time.Minute)
				if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Push || len(st.Missing) != 0 {
					t.Errorf("mode %q, missing %q", st.Mode, st.Missing)
				}
				w.forget()
				docs.Set("file:///a.md", "two")
				w.pass(5 * time.Second)
				w.wantUpdates("file:///a.md notify")
			})
		})
	}
}

// A comparison that keeps failing after the retries of its read is made later, even if nothing else
// reads the resource.
func TestFailedComparisonIsRepeated(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", func(srv *config.Server) { srv.SafetyInterval = -1 }))
		w.pass(time.Minute)
		w.forget()
		w.SetDown("docs", sessiontest.ErrRefused)
		docs.SetQuietly("file:///a.md", "two")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Code: -32603, Message: "the database is starting"})
		w.SetDown("docs", nil)
		w.pass(10 * time.Minute)
		w.wantState("docs", event.Ready)
		if n := docs.Count("resources/read"); n > 20 {
			w.Errorf("%d reads", n)
		}
		docs.Heal()
		w.pass(10 * time.Minute)
		w.wantUpdates("file:///a.md resync")
	})
}
