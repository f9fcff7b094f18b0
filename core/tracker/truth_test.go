package tracker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// chaos does one random thing to a server.
type chaos struct {
	w      *world
	rng    *rand.Rand
	docs   *sessiontest.Server
	next   int
	did    []string
	modern bool
}

func (c *chaos) uri() string { return fmt.Sprintf("file:///%d.md", c.rng.IntN(8)) }

func (c *chaos) text() string { c.next++; return fmt.Sprint("version ", c.next) }

func (c *chaos) step() {
	note := func(format string, args ...any) {
		c.did = append(c.did, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
	}
	switch n := c.rng.IntN(100); {
	case n < 45:
		uri, text := c.uri(), c.text()
		note("set %s = %s", uri, text)
		c.docs.Set(uri, text)
	case n < 50: // back to what it was
		uri := c.uri()
		note("flip %s", uri)
		c.docs.Set(uri, "other")
		c.docs.Set(uri, "version 0")
	case n < 56:
		uri := c.uri()
		note("remove %s", uri)
		c.docs.Remove(uri)
	case n < 62:
		uri := c.uri()
		note("announce %s for nothing", uri)
		c.docs.NotifyUpdated(uri)
	case n < 68:
		note("list changed")
		c.docs.NotifyListChanged(catalog.Resources)
	case n < 73:
		note("disconnect")
		c.docs.Disconnect()
	case n < 77:
		note("change while away")
		c.w.setDown("docs", errRefused)
		c.w.pass(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
		c.docs.SetQuietly(c.uri(), c.text())
		c.w.setDown("docs", nil)
	case n < 82:
		note("slow reads")
		c.docs.Fail(sessiontest.Fault{Method: "resources/read", Times: 1 + c.rng.IntN(3), Delay: time.Duration(c.rng.IntN(4000)) * time.Millisecond})
	case n < 86:
		note("failing reads")
		c.docs.Fail(sessiontest.Fault{Method: "resources/read", Times: 1 + c.rng.IntN(3), Code: -32603, Message: "disk on fire"})
	case n < 90:
		note("failing list")
		c.docs.Fail(sessiontest.Fault{Method: "resources/list", Times: 1, Code: -32603, Message: "disk on fire"})
	case n < 93:
		note("slow subscribe")
		for _, m := range []string{"resources/subscribe", "subscriptions/listen"} {
			c.docs.Fail(sessiontest.Fault{Method: m, Times: 1, Delay: time.Duration(c.rng.IntN(2000)) * time.Millisecond})
		}
	case n < 96:
		note("flood")
		c.docs.Flood(c.uri(), 200)
	case c.modern:
		note("the listen ends")
		if c.rng.IntN(2) == 0 {
			c.docs.EndListens(true)
		} else {
			c.docs.CancelListens()
		}
	}
}

// TestPromiseLastEventTellsTheTruth does random things to a server, lets it come
// to rest, and compares the last event of every resource with what the server
// knows to be true. A resource without an event must be as it was at the start.
func TestPromiseLastEventTellsTheTruth(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 30
	}
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			for seed := range seeds {
				synctest.Test(t, func(t *testing.T) { truth(t, era, uint64(seed)) })
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func truth(t *testing.T, era session.Era, seed uint64) {
	w := newWorld(t, Options{})
	docs := w.serve("docs", era)
	docs.PageSize = 3
	for i := range 6 {
		docs.SetQuietly(fmt.Sprintf("file:///%d.md", i), "version 0")
	}
	w.start(entry("docs"))
	w.pass(3 * time.Second)
	atStart := digests(w)
	c := &chaos{w: w, rng: rand.New(rand.NewPCG(seed, 1)), docs: docs, modern: era == session.EraModern}
	for range 40 {
		c.step()
		w.pass(time.Duration(c.rng.ExpFloat64() * float64(400*time.Millisecond)))
	}
	docs.Heal()
	w.pass(2 * time.Minute) // backed off, connected, compared, quiet
	wrong := 0
	for uri, want := range trueDigests(docs) {
		got := atStart[uri]
		gone := got.IsZero() // what nobody saw come and go needs no telling
		for _, e := range w.told() {
			if e.ResourceURI != uri {
				continue
			}
			switch p := e.Payload.(type) {
			case event.ResourceUpdated:
				got, gone = p.Digest, false
			case event.ResourceRemoved:
				gone = true
			case event.ResourceAdded:
				gone = false
				got = statusDigest(w, uri) // the baseline of what was added
			}
		}
		if gone != want.IsZero() || !gone && got != want {
			wrong++
			w.Errorf("%s: told %s (gone: %t), true is %s", uri, got, gone, want)
		}
	}
	if wrong > 0 {
		w.Errorf("keys whose last event differs from the truth: %d", wrong)
		for _, d := range c.did {
			w.Log(d)
		}
		for _, e := range w.told() {
			b, _ := e.AppendJSON(nil)
			w.Logf("%s", b)
		}
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

func statusDigest(w *world, uri string) catalog.Digest { return digests(w)[uri] }

// trueDigests reads every resource that ever was with a session of its own; the
// zero digest is for those that are gone.
func trueDigests(docs *sessiontest.Server) map[string]catalog.Digest {
	out := map[string]catalog.Digest{}
	gone := map[string]bool{}
	for _, c := range docs.Truth() {
		gone[c.URI] = c.Gone
	}
	r, w, wait := docs.Pipe()
	s, err := session.OverIO(context.Background(), r, w, entry("truth"), session.Options{})
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
