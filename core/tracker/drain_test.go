package tracker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/status"
)

// stopped ends the tracker and says how long that took.
func (w *world) stopped() time.Duration {
	began := time.Now()
	w.end(nil)
	w.running.Wait()
	return time.Since(began)
}

// A shutdown in the middle of a window publishes the newest content, also if the
// change came while the last one was being read.
func TestDrainPublishesTheNewestContent(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Set("file:///a.md", "two")
		w.pass(time.Second)
		docs.Set("file:///a.md", "three")
		w.pass(900 * time.Millisecond)
		docs.Fail(sessiontest.Fault{Method: "resources/read", Times: 1, Delay: 300 * time.Millisecond, Result: content1("file:///a.md", "three")})
		w.pass(200 * time.Millisecond) // the trailing read is out
		docs.Set("file:///a.md", "four")
		w.pass(0)
		if d := w.stopped(); d > 2*time.Second {
			w.Errorf("the shutdown took %v", d)
		}
		updates := w.published(event.TypeResourceUpdated)
		last := updates[len(updates)-1].Payload.(event.ResourceUpdated)
		if want := trueDigests(docs)["file:///a.md"]; last.Digest != want {
			w.Errorf("the last event says %s, true is %s:\n%s", last.Digest, want, w.log())
		}
	})
}

// Reads that fail during a shutdown are not tried for ever: a server that answers
// every read with an error at once must not be asked again and again.
func TestDrainOfFailingReads(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Code: -32603, Message: "disk on fire"})
		docs.Set("file:///a.md", "two")
		docs.Set("file:///b.md", "two")
		w.pass(100 * time.Millisecond)
		docs.Set("file:///a.md", "three")
		w.pass(0)
		reads := docs.Count("resources/read")
		if d := w.stopped(); d > 2*time.Second {
			w.Errorf("the shutdown took %v", d)
		}
		if n := docs.Count("resources/read") - reads; n > 4 {
			w.Errorf("%d reads during the shutdown", n)
		}
		if n := len(docs.Subscribed()); n != 0 {
			w.Errorf("%d subscriptions are left", n)
		}
	})
}

// A server that has stopped to answer holds up a shutdown for at most the drain
// and the goodbye, in whatever state it is found.
func TestShutdownOfAHungServer(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 17 * time.Second, 40 * time.Second} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			inWorld(t, func(w *world, docs *sessiontest.Fake) {
				settledOn(w, docs, "file:///a.md")
				docs.Fail(sessiontest.Fault{Silent: true})
				docs.Set("file:///a.md", "two")
				w.pass(after)
				if d := w.stopped(); d > 5*time.Second {
					w.Errorf("the shutdown took %v", d)
				}
				if got := w.updates(); len(got) == 0 || got[0] != "file:///a.md notify" {
					w.Errorf("updates %q: the announced change was not published", got)
				}
			})
		})
	}
}

// The end is orderly also before the beginning is over.
func TestShutdownWhileConnecting(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		for i := range 50 {
			docs.SetQuietly(fmt.Sprintf("file:///%d.md", i), "one")
		}
		docs.Fail(sessiontest.Fault{Delay: 100 * time.Millisecond})
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Duration(len(w.Name())) * 10 * time.Millisecond)
		if d := w.stopped(); d > 5*time.Second {
			w.Errorf("the shutdown took %v", d)
		}
		w.wantState("docs", event.Stopping)
		w.wantUpdates()
	})
}

// A snapshot and the events after it join without a gap and without overlap,
// wherever a consumer joins.
func TestSnapshotAndStreamJoin(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		type view struct {
			snap   *status.Snapshot
			events []*event.Event
		}
		var views []*view
		for i := range 30 {
			v := &view{}
			snap, sub := w.tracker.Subscribe(context.Background())
			v.snap = snap
			views = append(views, v)
			w.running.Go(func() {
				for e := range sub.Events() {
					v.events = append(v.events, e)
				}
			})
			docs.Set("file:///a.md", fmt.Sprint("version ", i))
			if i%10 == 3 {
				docs.Disconnect()
			}
			if i%10 == 6 {
				w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackTools = i%20 == 6 }))
			}
			w.pass(time.Duration(i*53%700) * time.Millisecond)
		}
		w.pass(10 * time.Second)
		final := w.tracker.Snapshot()
		w.stopped()
		for i, v := range views {
			digests := map[string]string{}
			st, _ := v.snap.Server("docs")
			for _, r := range st.Resources {
				digests[r.URI] = r.Digest.String()
			}
			seq := v.snap.Seq
			for _, e := range v.events {
				if seq++; e.Seq != seq {
					t.Fatalf("consumer %d: event %d after %d", i, e.Seq, seq-1)
				}
				if e.Seq > final.Seq {
					break
				}
				if u, ok := e.Payload.(event.ResourceUpdated); ok && !u.Digest.IsZero() {
					if was := digests[e.ResourceURI]; u.PreviousDigest.String() != was {
						t.Errorf("consumer %d: event %d follows on %s, known is %s", i, e.Seq, u.PreviousDigest, was)
					}
					digests[e.ResourceURI] = u.Digest.String()
				}
			}
			end, _ := final.Server("docs")
			for _, r := range end.Resources {
				if digests[r.URI] != r.Digest.String() {
					t.Errorf("consumer %d: %s is %s by the events, %s in the end", i, r.URI, digests[r.URI], r.Digest)
				}
			}
		}
	})
}

// An update that is announced while the resource is being read for another reason
// is read and published before the end.
func TestDrainDuringAComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Times: 1, Delay: 300 * time.Millisecond})
		docs.SetResource("file:///a.md", sessiontest.Resource{Text: "one", MimeType: "text/markdown"})
		docs.NotifyListChanged("resources") // another descriptor: it is compared
		w.pass(120 * time.Millisecond)
		w.forget()
		docs.SetResource("file:///a.md", sessiontest.Resource{Text: "two", MimeType: "text/markdown"})
		docs.NotifyUpdated("file:///a.md")
		w.pass(10 * time.Millisecond)
		w.stopped()
		updates := w.published(event.TypeResourceUpdated)
		if len(updates) == 0 {
			w.Fatal("nothing was published: this test tests nothing")
		}
		last := updates[len(updates)-1].Payload.(event.ResourceUpdated)
		if want := trueDigests(docs)["file:///a.md"]; last.Digest != want {
			w.Errorf("the last event says %s, true is %s:\n%s", last.Digest, want, w.log())
		}
	})
}
