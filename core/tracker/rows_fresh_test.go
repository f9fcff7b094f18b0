package tracker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// An update that arrives while a resource is read never leaves the older content.
func TestUpdateDuringAReadIsNotLost(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		if err := p.client.Subscribe(p.ctx(), "note:///a"); err != nil {
			p.Fatal(err)
		}
		p.settled("note:///a")
		p.do("hold", map[string]any{"uri": "note:///a"})
		var reading sync.WaitGroup
		var got cache.Resource
		var err error
		reads := p.sent("resources/read", "note:///a")
		reading.Go(func() { got, err = p.client.ReadResource(context.Background(), "note:///a") })
		p.eventually("the read is under way", func() bool { return p.sent("resources/read", "note:///a") > reads })
		p.set("note:///a", "a two\n") // announced, and read by the tracker, while the old answer is held back
		p.await(func(e *event.Event) bool {
			u, ok := e.Payload.(event.ResourceUpdated)
			return ok && u.Changed != nil && *u.Changed
		}, "the update is published")
		p.do("release", nil)
		reading.Wait()
		if err != nil || textOf(got) != "a two\n" {
			p.Errorf("the read returned %q, %v", textOf(got), err)
		}
		if kept, ok := p.client.Cache().Resource("note:///a"); !ok || textOf(kept) != "a two\n" || kept.Stale {
			p.Errorf("kept %+v, %q", kept, textOf(kept))
		}
	})
}

// ttlMs is respected where the caller asks for that, and only for the same request;
// an announced update ends it; without ttlMs nothing is fresh.
func TestFreshness(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		const uri = "note:///ttl"
		reads := func(uri string) int { return p.sent("resources/read", `"`+uri+`"`) }
		cached := func(uri, want string) {
			p.Helper()
			if r, err := p.client.CachedResource(p.ctx(), uri); err != nil || textOf(r) != want {
				p.Errorf("%s is %q, %v; want %q", uri, textOf(r), err, want)
			}
		}
		cached(uri, "fresh for a minute\n")
		cached(uri, "fresh for a minute\n")
		if n := reads(uri); n != 1 {
			p.Errorf("%d requests for what is fresh", n)
		}
		if r, _ := p.client.Cache().Resource(uri); r.Private || r.Expires.Sub(r.Time) != time.Minute {
			p.Errorf("kept %+v", r)
		}
		p.read(uri)
		if n := reads(uri); n != 2 {
			p.Errorf("%d requests after a read that must be fresh", n)
		}
		cached("note:///a", "a one\n") // no ttlMs
		cached("note:///a", "a one\n")
		if n := reads("note:///a"); n != 2 {
			p.Errorf("%d requests for what is never fresh", n)
		}

		if err := p.client.Subscribe(p.ctx(), uri); err != nil {
			p.Fatal(err)
		}
		p.settled(uri)
		p.do("hold", map[string]any{"uri": uri}) // so that the tracker does not renew it yet
		before := reads(uri)
		p.set(uri, "new\n")
		p.eventually("the update is noticed", func() bool { r, _ := p.client.Cache().Resource(uri); return r.Stale && reads(uri) > before })
		before = reads(uri)
		cached(uri, "new\n")
		if n := reads(uri); n != before+1 {
			p.Errorf("%d requests for what was updated", n-before)
		}
		p.do("release", nil)

		const template = "note:///{year}/{name}"
		for _, name := range []string{"plan", "list"} { // other parameters never share
			r, err := p.client.CachedTemplate(p.ctx(), template, map[string]string{"year": "2026", "name": name})
			if err != nil || textOf(r) != name+" of 2026\n" {
				p.Errorf("%s: %q, %v", name, textOf(r), err)
			}
		}
	})
}
