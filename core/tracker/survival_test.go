package tracker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A server that was away: exactly one resync event for what changed meanwhile,
// none for the others, within 5 s of its return (B8).
func TestPromiseResyncAfterACrash(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		w.SetDown("docs", sessiontest.ErrRefused)
		w.pass(time.Second)
		w.wantState("docs", event.Backoff)
		docs.SetQuietly("file:///b.md", "two")
		docs.SetQuietly("file:///new.md", "one")
		w.SetDown("docs", nil)
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		w.wantUpdates("file:///b.md resync")
		if n := len(w.published(event.TypeResourceAdded)); n != 1 {
			w.Errorf("the new resource was not published:\n%s", w.log())
		}
		docs.Set("file:///a.md", "two")
		w.pass(time.Second)
		w.wantUpdates("file:///b.md resync", "file:///a.md notify")
	})
}

// A change between the listing of a reconnect and its subscription is not lost:
// subscribing comes first.
func TestPromiseChangeWhileConnecting(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Disconnect()
		// The read of the resync is answered with what was there before; the change
		// comes right after, and only a subscription announces it.
		docs.Fail(sessiontest.Fault{Method: "resources/list", Times: 1, Delay: time.Second})
		for range 40 {
			w.pass(50 * time.Millisecond)
			if docs.Count("resources/list") > 1 {
				break
			}
		}
		docs.Set("file:///a.md", "two")
		w.pass(10 * time.Second)
		if n := len(w.updates()); n != 1 {
			w.Fatalf("updates %q, want one:\n%s", w.updates(), w.log())
		}
		if docs.Count("resources/read") > 4 {
			w.Errorf("%d reads", docs.Count("resources/read"))
		}
		assertOrder(w.T, docs)
	})
}

// assertOrder: in every connection the known resources are subscribed to before
// anything is listed or read.
func assertOrder(t *testing.T, docs *sessiontest.Fake) {
	t.Helper()
	connections, subscribed, discovering := 0, false, false
	for _, m := range docs.Wire() {
		switch m.Method {
		case "initialize", "server/discover":
			if !discovering { // else the server turned the modern era down
				connections++
			}
			subscribed = false
		case "resources/subscribe", "subscriptions/listen":
			subscribed = true
		case "resources/list", "resources/read":
			if connections > 1 && !subscribed {
				t.Errorf("%s before a subscription in connection %d", m.Method, connections)
				return
			}
		}
		discovering = m.Method == "server/discover"
	}
}

// The waits double from 0.5 s and never exceed 30 s: with the jitter of core/backoff the
// longest are 25 s, ± 20 %. There is one state and one count for every failure; a success
// that lasts resets the waits (B6).
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		w.SetDown("docs", sessiontest.ErrRefused)
		w.start(sessiontest.Entry("docs"))
		w.pass(2 * time.Minute)
		dials := w.Dialled("docs")
		want := []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 25000, 25000}
		for i, ms := range want {
			d := ms * time.Millisecond
			if got := dials[i+1].Sub(dials[i]); got < d*7/10 || got > min(d*13/10, 30*time.Second) {
				w.Errorf("wait %d is %v, want about %v", i+1, got, d)
			}
		}
		backoffs := 0
		for _, e := range w.published(event.TypeServerState) {
			if p := e.Payload.(event.ServerState); p.State == event.Backoff {
				backoffs++
				if p.Attempt != backoffs || p.RetryIn == 0 || p.Error == "" {
					w.Errorf("attempt %d: %+v", backoffs, p)
				}
			}
		}
		st, _ := w.tracker.Snapshot().Server("docs")
		if backoffs != len(dials) || st.Counts.Failures != uint64(backoffs) {
			w.Errorf("%d dials, %d Backoff events, %d failures", len(dials), backoffs, st.Counts.Failures)
		}
		w.SetDown("docs", nil)
		w.pass(2 * time.Minute)
		w.wantState("docs", event.Ready)
		before := len(w.Dialled("docs"))
		docs.Disconnect()
		w.pass(700 * time.Millisecond)
		if n := len(w.Dialled("docs")) - before; n != 1 {
			w.Errorf("%d attempts within 0.7 s of the end of a long session, want 1", n)
		}
	})
}

// A server that dies again and again is named (and tried ever more slowly).
func TestCrashLoop(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		for range 60 {
			docs.Disconnect()
			w.pass(time.Second)
		}
		named := 0
		for _, e := range w.published(event.TypeServerState) {
			if e.Payload.(event.ServerState).Reason == "crashloop" {
				named++
			}
		}
		if named == 0 {
			w.Errorf("nobody named the crash loop:\n%s", w.log())
		}
		if n := len(w.Dialled("docs")); n > 12 {
			w.Errorf("dialled %d times in a minute", n)
		}
	})
}

// A server that dies without a word is found within 30 s, and so is its return.
func TestSilentDeath(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Silent: true}) // every request
		docs.Mute(true)
		w.pass(30 * time.Second)
		if got := w.state("docs"); got == event.Ready {
			w.Fatalf("a dead server is %s", got)
		}
		docs.SetQuietly("file:///a.md", "two")
		docs.Heal()
		docs.Mute(false)
		w.pass(60 * time.Second)
		w.wantState("docs", event.Ready)
		w.wantUpdates("file:///a.md resync")
	})
}

// A change that the server does not announce is found by a safety read.
func TestUnannouncedChangeIsFound(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.SetQuietly("file:///b.md", "two")
		w.pass(6*time.Minute + time.Second)
		w.wantUpdates("file:///b.md poll")
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
	})
}

// A listen that the server ends, politely or not, is opened again, and a change
// in the gap is one event (F6, F7).
func TestListenEnds(t *testing.T) {
	for name, end := range map[string]func(*sessiontest.Fake){
		"with its result":   func(s *sessiontest.Fake) { s.EndListens(true) },
		"with a cancelling": (*sessiontest.Fake).CancelListens,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				docs := w.Serve("docs", session.EraModern)
				settledOn(w, docs, "file:///a.md", "file:///b.md")
				docs.SetQuietly("file:///a.md", "two") // first: what follows reads it at once
				end(docs)                              // it lived for 3 s
				w.pass(500 * time.Millisecond)
				if docs.Listens() != 1 {
					w.Errorf("%d listens, want one at once", docs.Listens())
				}
				w.wantUpdates("file:///a.md resync")
				docs.SetQuietly("file:///b.md", "two")
				end(docs) // it lived for half a second
				w.pass(500 * time.Millisecond)
				if docs.Listens() != 0 {
					w.Error("listening again within 1 s")
				}
				w.pass(5 * time.Second)
				if docs.Listens() != 1 {
					w.Errorf("%d listens", docs.Listens())
				}
				w.wantUpdates("file:///a.md resync", "file:///b.md resync")
			})
		})
	}
}

// Streams that a balancer ends every 25 s are replaced at once, however often: no change
// waits for a backoff.
func TestStreamsThatEndRegularlyAreReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraModern)
		settledOn(w, docs, "file:///a.md")
		for i := range 30 {
			w.pass(25 * time.Second)
			docs.SetQuietly("file:///a.md", fmt.Sprint("version ", i)) // first: what follows reads it at once
			docs.EndListens(true)
			w.pass(200 * time.Millisecond)
			if n := len(w.updates()); n != i+1 {
				w.Fatalf("%d updates after %d changes:\n%s", n, i+1, w.log())
			}
		}
	})
}

// What the server does not honour is polled, and published once (F4).
func TestNarrowAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraModern)
		docs.FailAck(sessiontest.AckFault{Hide: []string{"file:///b.md"}})
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		active := w.published(event.TypeSubscriptionActive)
		if len(active) != 1 || fmt.Sprint(active[0].Payload.(event.SubscriptionActive).Missing) != "[file:///b.md]" {
			w.Fatalf("want one subscription.active that misses b:\n%s", w.log())
		}
		docs.SetQuietly("file:///b.md", "two")
		w.pass(40 * time.Second)
		w.wantUpdates("file:///b.md poll")
	})
}

// One server never answers, another floods: the third does not notice (B9).
func TestIsolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.Serve("hung", session.EraLegacy).Fail(sessiontest.Fault{Silent: true})
		loud := w.Serve("loud", session.EraLegacy)
		loud.SetQuietly("file:///noise", "one")
		docs := w.Serve("docs", session.EraModern)
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("hung"), sessiontest.Entry("loud"), sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		w.wantState("docs", event.Ready)
		w.forget()
		for i := range 10 {
			loud.Flood("file:///noise", 5000)
			docs.Set("file:///a.md", fmt.Sprint("version ", i))
			began := time.Now()
			w.pass(100 * time.Millisecond)
			published := w.published(event.TypeResourceUpdated)
			last := published[len(published)-1]
			if last.ServerID != "docs" && published[max(0, len(published)-2)].ServerID != "docs" {
				w.Fatalf("round %d: docs was not heard:\n%s", i, w.log())
			}
			if d := last.Timestamp.Sub(began); d > 50*time.Millisecond {
				w.Errorf("round %d: %v late", i, d)
			}
			w.pass(3 * time.Second)
		}
		st, _ := w.tracker.Snapshot().Server("loud")
		if st.Counts.Signals < 50_000 {
			w.Errorf("only %d of 50,000 notifications flowed", st.Counts.Signals)
		}
	})
}
