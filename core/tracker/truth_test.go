package tracker

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

var (
	truthSeeds = flag.Int("truth.seeds", 15, "how many random histories TestPromiseLastEventTellsTheTruth tries in every era")
	truthFirst = flag.Uint64("truth.first", 0, "the first of them")
)

// TestPromiseLastEventTellsTheTruth does random things to a server and to its
// config entry, lets it come to rest, and compares the last event of every
// resource with what the server knows to be true. A second server, to which
// nothing happens, must not notice. There is no routine comparison that would
// make up for what was missed.
func TestPromiseLastEventTellsTheTruth(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			for i := range *truthSeeds {
				seed := *truthFirst + uint64(i)
				synctest.Test(t, func(t *testing.T) { truth(t, era, seed) })
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func truth(t *testing.T, era session.Era, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	opts := Options{Resync: 1000 * time.Hour, Texts: rng.IntN(2) == 0, Reads: rng.IntN(4)}
	if rng.IntN(4) == 0 {
		opts.Session.Limits.MaxDirty = 1 + rng.IntN(4) // overflows, and says so
	}
	if rng.IntN(2) == 0 {
		opts.MaxTexts = 100
	}
	w := newWorld(t, opts)
	c := &chaos{w: w, rng: rng, docs: w.Serve("docs", era), era: era, push: true, read: true, base: func(s *config.Server) { s.SafetyInterval = -1 },
		exist: map[string]bool{}}
	switch rng.IntN(8) {
	case 0:
		c.push = false
		c.docs.Capabilities["resources"] = map[string]any{"listChanged": true}
	case 1:
		c.read = false
		c.base = func(s *config.Server) { s.Read, s.SafetyInterval = config.ReadNone, -1 }
	case 2:
		c.push = era == session.EraLegacy
		c.docs.FailAck(sessiontest.AckFault{Hide: []string{"file:///1.md", "file:///2.md"}, NoTools: true})
	}
	c.docs.PageSize = 1 + rng.IntN(5)
	for i := range 6 {
		c.exist[fmt.Sprintf("file:///%d.md", i)] = true
		c.docs.SetQuietly(fmt.Sprintf("file:///%d.md", i), "version 0")
	}
	quiet := &calm{w: w, server: w.Serve("calm", session.EraLegacy)}
	quiet.server.SetQuietly("file:///calm.md", "one")
	w.start(c.entry(true), sessiontest.Entry("calm"))
	w.pass(3 * time.Second)
	o := &observer{c: c, view: map[string]known{}, baseline: digests(w), begin: w.tracker.Snapshot()}
	for range 40 {
		c.step()
		quiet.change(o)
		w.pass(time.Duration(rng.ExpFloat64() * float64(400*time.Millisecond)))
	}
	c.note("healed")
	c.docs.Heal()
	excluded := c.exclude
	c.exclude = nil
	c.configure(true, excluded...)
	w.pass(2 * time.Minute) // backed off, connected, polled, compared, quiet
	o.check()
	if rng.IntN(2) == 0 && c.push && !w.Failed() { // the end in the middle of it all
		for range 5 {
			if uri := c.uri(); c.exist[uri] { // a new one costs a modern server its listen for a moment
				c.put(uri, c.text())
			}
			w.pass(c.upTo(1500 * time.Millisecond))
		}
		w.stopped()
		synctest.Wait()
		c.note("stopped")
		o.stopped = true
		o.check()
	}
	quiet.check(o)
	w.stopped()
	if n := w.tracker.texts.used.Load(); n != 0 {
		w.Errorf("%d bytes of text are still accounted for", n)
	}
	if w.Failed() {
		for _, d := range c.did {
			w.Log(d)
		}
		w.Logf("events of docs:\n%s", o.log())
	}
}

// calm is a server to which nothing happens but a change every now and then.
type calm struct {
	w       *world
	server  *sessiontest.Fake
	changes []time.Time
}

func (q *calm) change(*observer) {
	if n := len(q.changes); n == 0 || time.Since(q.changes[n-1]) > 5*time.Second {
		q.changes = append(q.changes, time.Now())
		q.server.Set("file:///calm.md", fmt.Sprint("version ", n))
	}
}

// check: every change was published at once.
func (q *calm) check(o *observer) {
	var published []time.Time
	for _, e := range q.w.published(event.TypeResourceUpdated) {
		if e.ServerID == "calm" {
			published = append(published, e.Timestamp)
		}
	}
	for i, at := range q.changes {
		if !slices.ContainsFunc(published, func(t time.Time) bool { return !t.Before(at) && t.Sub(at) < 50*time.Millisecond }) {
			q.w.Errorf("calm: change %d at %v was not published within 50 ms", i, at.Format("04:05.000"))
		}
	}
	if n := len(q.w.Dialled("calm")); n != 1 {
		q.w.Errorf("calm: dialled %d times", n)
	}
}

func digests(w *world) map[string]catalog.Digest {
	out := map[string]catalog.Digest{}
	st, _ := w.tracker.Snapshot().Server("docs")
	for _, r := range st.Resources {
		out[r.URI] = r.Digest
	}
	return out
}

// trueDigests reads every resource that ever was with a session of its own; the
// zero digest is for those that are gone.
func trueDigests(docs *sessiontest.Fake) map[string]catalog.Digest {
	out := map[string]catalog.Digest{}
	gone := map[string]bool{}
	for _, c := range docs.Truth() {
		gone[c.URI] = c.Gone
	}
	r, w, wait := docs.Pipe()
	s, err := session.OverIO(context.Background(), r, w, sessiontest.Entry("truth"), session.Options{})
	if err != nil {
		panic(err)
	}
	for uri, isGone := range gone {
		out[uri] = catalog.Digest{}
		if isGone {
			continue
		}
		if c, err := s.Read(context.Background(), uri); err == nil {
			out[uri] = c.Digest
		}
	}
	_ = s.Close()
	wait()
	return out
}
