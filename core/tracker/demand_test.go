package tracker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

const testIdle = time.Minute

// onDemand runs the test in each era, with a tracker that connects the server "docs" on demand.
func onDemand(t *testing.T, test func(w *world, docs *sessiontest.Fake)) {
	t.Helper()
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		w.opts.OnDemand = true
		docs.SetQuietly("file:///a.md", "one")
		docs.SetList(catalog.Tools, map[string]any{"name": "echo"})
		test(w, docs)
	})
}

func idleEntry(change ...func(*config.Server)) config.Server {
	return sessiontest.Entry("docs", append([]func(*config.Server){func(s *config.Server) { s.Idle = testIdle }}, change...)...)
}

// states returns the published states of a server, with their reasons.
func (w *world) states(id string) (all []string) {
	for _, e := range w.published(event.TypeServerState) {
		if p := e.Payload.(event.ServerState); e.ServerID == id {
			all = append(all, string(p.State)+" "+p.Reason)
		}
	}
	return all
}

func (w *world) wantStates(want ...string) {
	w.Helper()
	if got := w.states("docs"); !slices.Equal(got, want) {
		w.Fatalf("states %q, want %q", got, want)
	}
}

func (w *world) wantAsleep(id string, want bool) {
	w.Helper()
	st, _ := w.tracker.Snapshot().Server(id)
	if got := st.State == event.Pending && st.Reason == event.Asleep; got != want {
		w.Fatalf("asleep: %t (%s %s), want %t; events:\n%s", got, st.State, st.Reason, want, w.log())
	}
}

func (w *world) wantDialled(id string, n int) {
	w.Helper()
	if got := len(w.Dialled(id)); got != n {
		w.Fatalf("%s was dialled %d times, want %d", id, got, n)
	}
}

// A keeper keeps a server connected that somebody has needed, and does not wake one that is asleep.
func TestKeep(t *testing.T) {
	onDemand(t, func(w *world, _ *sessiontest.Fake) {
		w.start(idleEntry())
		keep := w.tracker.Keep("docs")
		w.pass(2 * time.Hour)
		w.wantAsleep("docs", true)
		w.wantDialled("docs", 0)

		w.tracker.Demand("docs")()
		w.pass(2 * time.Hour)
		w.wantState("docs", event.Ready)
		keep()
		w.pass(testIdle - time.Second)
		w.wantState("docs", event.Ready)
		w.pass(time.Second)
		w.wantAsleep("docs", true)

		keep = w.tracker.Keep("docs")
		w.pass(2 * time.Hour)
		w.wantAsleep("docs", true)
		keep()
		w.pass(time.Second)
		w.wantAsleep("docs", true)
		w.wantDialled("docs", 1)
	})
}

// A server is connected from the first demand until its idle time after the last one.
func TestDemand(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.start(idleEntry())
		if snap, err := w.tracker.Settled(w.Context()); err != nil || len(snap.Servers) != 1 {
			t.Fatalf("Settled: %v", err)
		}
		w.pass(2 * time.Hour)
		w.wantDialled("docs", 0)
		w.wantAsleep("docs", true)
		if !w.tracker.Dormant("docs") {
			t.Error("it is not dormant")
		}

		one, two := w.tracker.Demand("docs"), w.tracker.Demand("docs")
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
		w.wantStates("Pending ", "Pending asleep", "Connecting waking", "Ready ")
		one()
		one() // has no effect
		w.pass(2 * time.Hour)
		w.wantState("docs", event.Ready)
		two()
		w.pass(testIdle - time.Second)
		w.wantState("docs", event.Ready)
		three := w.tracker.Demand("docs") // starts the idle time anew
		w.pass(time.Second)
		three()
		w.pass(testIdle - time.Nanosecond)
		w.wantState("docs", event.Ready)
		w.pass(time.Nanosecond)
		w.wantAsleep("docs", true)
		w.wantDialled("docs", 1)
		if n := len(docs.Subscribed()); n != 0 {
			t.Errorf("%d resources are subscribed to while it is asleep", n)
		}

		w.forget()
		defer w.tracker.Demand("docs")()
		w.pass(time.Second)
		w.wantStates("Connecting waking", "Ready ")
		w.wantDialled("docs", 2)
	})
}

// A server that is needed before it is added is woken from the start, and is dormant until it is
// connected. Settled can wait for some of the servers.
func TestDemandComesFirst(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.Serve("hung", session.EraLegacy).Fail(sessiontest.Fault{Silent: true})
		docs.Fail(sessiontest.Fault{Delay: time.Second, Times: 1})
		w.start()
		release, other := w.tracker.Demand("docs"), w.tracker.Demand("hung")
		defer other()
		defer release()
		w.apply(idleEntry(), sessiontest.Entry("hung"))
		began := time.Now()
		synctest.Wait()
		if !w.tracker.Dormant("docs") {
			t.Error("it is not dormant")
		}
		snap, err := w.tracker.Settled(w.Context(), "docs")
		if st, _ := snap.Server("docs"); err != nil || st.State != event.Ready || time.Since(began) > 5*time.Second || w.tracker.Dormant("docs") {
			t.Errorf("%s after %v: %v", st.State, time.Since(began), err)
		}
		synctest.Wait()
		w.wantStates("Pending ", "Connecting waking", "Ready ")
		if _, err := w.tracker.Settled(w.Context()); err != nil || time.Since(began) < 10*time.Second {
			t.Errorf("all after %v: %v", time.Since(began), err)
		}
	})
}

// The lists stay known while a server sleeps. What changes meanwhile is published when it wakes, as
// are the later updates of its resources.
func TestChangesWhileAsleep(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.start(idleEntry())
		w.tracker.Demand("docs")()
		w.pass(2 * testIdle)
		w.wantAsleep("docs", true)
		st, _ := w.tracker.Snapshot().Server("docs")
		if len(st.Lists[catalog.Tools]) != 1 || len(st.Lists[catalog.Resources]) != 1 || len(st.Resources) != 1 || st.Resources[0].Digest.IsZero() {
			t.Fatalf("asleep: %+v", st)
		}
		w.forget()
		docs.SetQuietly("file:///a.md", "two")
		docs.SetList(catalog.Tools, map[string]any{"name": "echo"}, map[string]any{"name": "more"})
		w.pass(time.Hour)
		if got := w.published(); len(got) != 0 {
			t.Fatalf("published while asleep:\n%s", w.log())
		}
		defer w.tracker.Demand("docs")()
		w.pass(5 * time.Second)
		w.wantUpdates("file:///a.md resync")
		lists := w.published(event.TypeToolsListChanged)
		if len(lists) != 1 || lists[0].Cause != event.CauseResync || lists[0].Payload.(event.ListChanged).List != catalog.Tools {
			t.Errorf("lists:\n%s", w.log())
		}
		if n := len(w.published(event.TypeResourceRemoved)) + len(w.published(event.TypeResourceAdded)); n != 0 {
			t.Errorf("resources were removed or added:\n%s", w.log())
		}
		w.forget()
		docs.Set("file:///a.md", "three")
		w.pass(5 * time.Second)
	})
}

// A release while the server is connecting does not interrupt it; the idle time counts from the
// release.
func TestReleaseWhileConnecting(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		docs.Fail(sessiontest.Fault{Delay: 3 * time.Second, Times: 1})
		w.start(idleEntry())
		release := w.tracker.Demand("docs")
		w.pass(time.Second)
		if w.state("docs") != event.Connecting || !w.tracker.Dormant("docs") {
			t.Fatalf("%s", w.state("docs"))
		}
		release()
		w.pass(30 * time.Second)
		w.wantState("docs", event.Ready)
		w.pass(30 * time.Second)
		w.wantAsleep("docs", true)
	})
}

// A server that cannot be woken is retried until nobody needs it. It affects no other, and wakes
// with a fresh start.
func TestFailureEndsWithSleep(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.Serve("good", session.EraLegacy)
		w.start(idleEntry(), sessiontest.Entry("good"))
		defer w.tracker.Demand("good")()
		w.SetDown("docs", sessiontest.ErrRefused)
		release := w.tracker.Demand("docs")
		w.pass(10 * time.Minute)
		w.wantState("docs", event.Backoff)
		if w.tracker.Dormant("docs") {
			t.Error("it is dormant although it could not be woken")
		}
		if n := len(w.Dialled("docs")); n < 10 {
			t.Errorf("%d attempts", n)
		}
		release()
		w.pass(2 * testIdle)
		w.wantAsleep("docs", true)
		n := len(w.Dialled("docs"))
		w.pass(time.Hour)
		w.wantDialled("docs", n)
		w.wantState("good", event.Ready)
		w.wantDialled("good", 1)
		w.SetDown("docs", nil)
		w.forget()
		defer w.tracker.Demand("docs")()
		w.pass(time.Second)
		w.wantStates("Connecting waking", "Ready ")
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Attempt != 0 || st.Error != "" {
			t.Errorf("%+v", st)
		}
	})
}

// While a server sleeps, a new entry is only stored; it can be disabled, and removed.
func TestConfigWhileAsleep(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.start(idleEntry())
		w.apply(idleEntry(func(s *config.Server) { s.Args = []string{"--new"} }))
		w.pass(time.Hour)
		w.wantDialled("docs", 0)
		w.apply(idleEntry(func(s *config.Server) { s.Enabled = false }))
		w.pass(time.Second)
		w.wantState("docs", event.Disabled)
		release := w.tracker.Demand("docs")
		w.pass(time.Second)
		w.wantDialled("docs", 0)
		release()
		w.pass(time.Hour)
		w.apply(idleEntry())
		w.pass(time.Second)
		w.wantAsleep("docs", true)
		w.apply()
		w.pass(time.Second)
		if err := w.tracker.Gone(w.Context(), "docs"); err != nil || w.tracker.Dormant("docs") {
			t.Errorf("removed: %v", err)
		}
		if n := len(w.tracker.demands.byServer); n != 0 {
			t.Errorf("%d demands are left", n)
		}
	})
}

// A new idle time takes effect in the running session.
func TestIdleTimeChanges(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.start(idleEntry())
		w.tracker.Demand("docs")()
		w.pass(testIdle / 2)
		w.apply(idleEntry(), sessiontest.Entry("none", func(s *config.Server) { s.Enabled = false }))
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.Idle = time.Hour }))
		w.pass(30 * time.Minute)
		w.wantState("docs", event.Ready)
		w.apply(idleEntry())
		w.pass(time.Second)
		w.wantAsleep("docs", true)
		w.wantDialled("docs", 1)
	})
}

// A server that is removed while it is needed leaves no demand once it is released, and is woken
// again if it returns.
func TestRemovedWhileNeeded(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.start(idleEntry())
		release := w.tracker.Demand("docs")
		w.pass(time.Second)
		w.apply()
		w.pass(time.Minute)
		w.apply(idleEntry()) // the demand still counts
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
		w.apply()
		w.pass(time.Minute)
		release()
		if n := len(w.tracker.demands.byServer); n != 0 {
			t.Errorf("%d demands are left", n)
		}
	})
}

// Restart and RetrySoon of a server that sleeps do not connect it, and do not disturb its next session.
func TestRestartWhileAsleep(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.start(idleEntry())
		w.tracker.Restart("docs")
		w.tracker.RetrySoon("docs")
		w.pass(time.Minute)
		w.wantDialled("docs", 0)
		defer w.tracker.Demand("docs")()
		w.pass(time.Minute)
		w.wantDialled("docs", 1)
		w.tracker.Restart("docs")
		w.pass(time.Minute)
		w.wantDialled("docs", 2)
	})
}

// No session is left while a server sleeps, not even one that an era trial has opened.
func TestNoSessionWhileAsleep(t *testing.T) {
	bothEras(t, func(w *world, docs *sessiontest.Fake) {
		var all []*session.Session // appended by one dial at a time
		w.opts.OnDemand = true
		w.opts.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			s, err := w.Dial(ctx, srv, opts)
			if err == nil {
				all = append(all, s)
			}
			return s, err
		}
		docs.FailAck(sessiontest.AckFault{NoTools: true})
		w.logs.stallAt("tracking the server in the legacy era", time.Hour) // between the trial and the session
		w.start(idleEntry())
		release := w.tracker.Demand("docs")
		w.pass(5 * time.Second)
		release()
		w.pass(2 * time.Hour)
		w.wantAsleep("docs", true)
		if len(all) != 2 {
			t.Fatalf("%d sessions; want the modern one and that of the trial", len(all))
		}
		for _, s := range all {
			if s.Err() == nil {
				t.Errorf("a session is left: %s", s.Info().Era)
			}
		}
		defer w.tracker.Demand("docs")()
		w.pass(5 * time.Second)
		w.wantEra(session.EraLegacy, session.EraModern) // it is remembered
	})
}

// A server whose session is about to end because nobody needed it is already dormant, so that a
// request waits for the next session.
func TestDemandWhileTheSessionEnds(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.start(idleEntry())
		w.tracker.Demand("docs")()
		w.pass(testIdle - time.Second)
		docs.Fail(sessiontest.Fault{Method: "resources/read", Delay: 3 * time.Second})
		docs.Set("file:///a.md", "two") // is read before the session ends
		w.pass(2 * time.Second)
		w.wantState("docs", event.Ready)
		if !w.tracker.Dormant("docs") {
			t.Error("it is not dormant")
		}
		defer w.tracker.Demand("docs")()
		if !w.tracker.Dormant("docs") {
			t.Error("it is not dormant with demand")
		}
		docs.Heal()
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		if w.tracker.Dormant("docs") {
			t.Error("it is dormant")
		}
		w.wantDialled("docs", 2)
	})
}

// If the tracker ends, or the server is removed, at that time, nothing of this is left.
func TestRemovedWhileTheSessionEnds(t *testing.T) {
	onDemand(t, func(w *world, docs *sessiontest.Fake) {
		w.start(idleEntry())
		w.tracker.Demand("docs")()
		w.pass(testIdle - time.Second)
		docs.Fail(sessiontest.Fault{Method: "resources/read", Delay: 3 * time.Second})
		docs.Set("file:///a.md", "two")
		w.pass(2 * time.Second)
		release := w.tracker.Demand("docs")
		w.apply()
		docs.Heal()
		w.pass(5 * time.Second)
		if w.tracker.Dormant("docs") {
			t.Error("a removed server is dormant")
		}
		w.apply(idleEntry())
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		if w.tracker.Dormant("docs") {
			t.Error("a connected server is dormant")
		}
		release()
	})
}

// Demand that comes before the decision to end a session prevents it.
func TestRetire(t *testing.T) {
	var d demands
	d.count("a", 1, 0)
	if d.retire("a", 0) || d.isRetired("a") {
		t.Error("it is needed")
	}
	d.count("a", -1, 0)
	if d.retire("a", time.Hour) {
		t.Error("the idle time is not over")
	}
	if !d.retire("a", 0) || !d.isRetired("a") {
		t.Error("nobody needs it")
	}
	d.unretire("a")
	if d.isRetired("a") {
		t.Error("it is still retired")
	}
}

// However demand, time, restarts and edits interleave, a server with demand is connected in the end,
// and a server without is asleep.
func TestDemandInterleavings(t *testing.T) {
	for step := range 40 {
		if testing.Short() && step%4 > 0 {
			continue
		}
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{OnDemand: true})
				docs := w.Serve("docs", session.EraModern)
				docs.SetQuietly("file:///a.md", "one")
				w.start(idleEntry(func(s *config.Server) { s.Idle = 7 * time.Millisecond }))
				offset := time.Duration(step) * 350 * time.Microsecond // around the end of the idle time
				for i := range 10 {
					release := w.tracker.Demand("docs")
					w.pass(time.Second)
					w.wantState("docs", event.Ready)
					if i%3 == 1 {
						w.tracker.Restart("docs")
					}
					if i%3 == 2 {
						w.apply(idleEntry(func(s *config.Server) { s.Args, s.Idle = []string{fmt.Sprint(i)}, 7*time.Millisecond }))
					}
					release()
					time.Sleep(offset)
					again := w.tracker.Demand("docs")
					if !w.tracker.Dormant("docs") && i%3 == 0 {
						if _, err := w.tracker.ReadResource(w.Context(), "docs", "file:///a.md"); err != nil {
							t.Errorf("a request of somebody who needs the server: %v", err)
						}
					}
					w.pass(time.Second)
					w.wantState("docs", event.Ready)
					again()
					w.pass(time.Second)
					w.wantAsleep("docs", true)
				}
			})
		})
	}
}

// Several functions receive the messages of servers; a function that was removed receives no more.
func TestMessageHandlers(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Second)
		var one, two atomic.Int32
		count := func(n *atomic.Int32) func(string, string, json.RawMessage) {
			return func(server, method string, _ json.RawMessage) {
				if server == "docs" && method == "notifications/message" {
					n.Add(1)
				}
			}
		}
		message := map[string]any{"jsonrpc": "2.0", "method": "notifications/message", "params": map[string]any{"level": "info", "data": "x"}}
		removeOne := w.tracker.OnMessage(count(&one))
		removeTwo := w.tracker.OnMessage(func(server, method string, params json.RawMessage) {
			removeOne() // no lock is held
			count(&two)(server, method, params)
		})
		docs.Broadcast(message)
		synctest.Wait()
		docs.Broadcast(message)
		synctest.Wait()
		if one.Load() != 1 || two.Load() != 2 {
			t.Errorf("received %d and %d messages", one.Load(), two.Load())
		}
		removeTwo()
		docs.Broadcast(message)
		synctest.Wait()
		if two.Load() != 2 {
			t.Error("a removed function received a message")
		}
	})
}

// A resource stays subscribed to until each owner has unsubscribed.
func TestSubscriptionOwners(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		for _, name := range []string{"a", "b", "c"} {
			docs.SetQuietly("file:///"+name, "one")
		}
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		w.pass(time.Second)
		type owner struct{ _ int }
		one, two := w.tracker.ClientOf("docs", &owner{}), w.tracker.ClientOf("docs", &owner{})
		subscribe := func(c *Client, uris ...string) {
			for _, uri := range uris {
				if err := c.Subscribe(w.Context(), uri); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := func(uris ...string) {
			t.Helper()
			w.pass(5 * time.Second)
			if got := docs.Subscribed(); !slices.Equal(got, uris) {
				t.Fatalf("subscribed to %q, want %q", got, uris)
			}
		}
		subscribe(one, "file:///a", "file:///b")
		subscribe(two, "file:///b", "file:///b", "file:///c")
		want("file:///a", "file:///b", "file:///c")
		if err := one.Unsubscribe(w.Context(), "file:///b"); err != nil {
			t.Fatal(err)
		}
		want("file:///a", "file:///b", "file:///c")
		w.forget()
		docs.Set("file:///b", "two")
		w.pass(5 * time.Second)
		w.wantUpdates("file:///b notify")
		if err := two.UnsubscribeAll(w.Context()); err != nil {
			t.Fatal(err)
		}
		want("file:///a")
		if got := one.Subscriptions(); !slices.Equal(got, []string{"file:///a"}) {
			t.Errorf("%q", got)
		}
		if err := one.UnsubscribeAll(w.Context()); err != nil {
			t.Fatal(err)
		}
		want()
	})
}
