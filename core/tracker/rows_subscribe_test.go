package tracker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Changes of lists are followed unless they are ignored: then they are not asked for
// on the wire, and what is announced all the same is not acted on.
func TestIgnoredListChanges(t *testing.T) {
	t.Parallel()
	for name, ignored := range map[string][]catalog.Kind{"default": nil, "ignored": {catalog.Tools}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEra(t, tracker.Options{IgnoreListChanges: ignored}, trackAll, func(p *peer) {
				want := ignored == nil
				if bit := p.sent("subscriptions/listen", `"toolsListChanged":true`) > 0; p.era == session.EraModern && bit != want {
					p.Errorf("asked for changes of tools: %t", bit)
				}
				if p.era == session.EraModern && p.sent("subscriptions/listen", `"promptsListChanged":true`) == 0 {
					p.Error("changes of prompts are not asked for")
				}
				lists := p.sent("tools/list", "")
				p.do("describe", map[string]any{"text": "another"})
				p.do("remove", map[string]any{"kind": "prompts", "name": "farewell"})
				_, before := p.awaitType(event.TypePromptsListChanged, "")
				if want && !has(before, event.TypeToolsListChanged, "") {
					p.awaitType(event.TypeToolsListChanged, "")
				}
				if published := has(before, event.TypeToolsListChanged, ""); !want && published {
					p.Error("an ignored change is published")
				}
				if again := p.sent("tools/list", "") > lists; again != want {
					p.Errorf("the tools were listed again: %t", again)
				}
			})
		})
	}
}

// A change of a list says which fields of a descriptor differ, and for tools where
// in the schema.
func TestListChangeDetails(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, trackAll, func(p *peer) {
		p.do("describe", map[string]any{"text": "another"})
		e, _ := p.awaitType(event.TypeToolsListChanged, "")
		l := e.Payload.(event.ListChanged)
		want := []catalog.Change{
			{Op: catalog.Changed, Path: "/description"},
			{Op: catalog.Changed, Path: "/inputSchema/properties/a/type"},
			{Op: catalog.Added, Path: "/inputSchema/properties/b"},
			{Op: catalog.Added, Path: "/inputSchema/required"},
		}
		if !slices.Equal(l.Changed, []string{"shape"}) || len(l.Details) != 1 || l.Details[0].Key != "shape" ||
			!slices.Equal(l.Details[0].Fields, []string{"description", "inputSchema"}) || !slices.Equal(l.Details[0].Changes, want) {
			p.Errorf("published %+v", l)
		}
	})
}

// An update of a subscribed and cached resource is read and published; of one that is not cached
// only the update; of what is not subscribed to nothing.
func TestUpdatesOfSubscribedResources(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]config.ReadMode{"digest": config.ReadDigest, "none": config.ReadNone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEra(t, tracker.Options{}, func(s *config.Server) { s.Read = mode }, func(p *peer) {
				for _, uri := range []string{"note:///a", "note:///b"} {
					if err := p.client.Subscribe(p.ctx(), uri); err != nil {
						p.Fatal(err)
					}
					if mode == config.ReadDigest {
						p.settled(uri)
					}
				}
				p.read("note:///a") // b is not cached
				p.read("note:///c") // is kept, but not subscribed to
				p.awaitType(event.TypeResourceContent, "note:///c")

				p.set("note:///c", "c two\n")
				p.set("note:///b", "b two\n")
				p.set("note:///a", "a two\n")
				e, before := p.awaitType(event.TypeResourceContent, "note:///a")
				published := e.Payload.(event.ResourceContent)
				if textOf(*published.Content) != "a two\n" || textOf(*published.Previous) != "a one\n" || !*published.Changed || e.Cause != event.CauseNotify {
					p.Errorf("published %+v, cause %q", published, e.Cause)
				}
				if kept, _ := p.client.Cache().Resource("note:///a"); textOf(kept) != "a two\n" || kept.Stale {
					p.Errorf("kept %q", textOf(kept))
				}
				if !has(before, event.TypeResourceUpdated, "note:///b") {
					_, more := p.awaitType(event.TypeResourceUpdated, "note:///b")
					before = append(before, more...)
				}
				if has(before, event.TypeResourceContent, "note:///b") {
					p.Error("what is not cached was published as content")
				}
				for _, typ := range []event.Type{event.TypeResourceUpdated, event.TypeResourceContent} {
					if has(before, typ, "note:///c") {
						p.Errorf("%s of what is not subscribed to", typ)
					}
				}
			})
		})
	}
}

// Subscribing twice is one request, and nothing is sent to a server that cannot.
func TestSubscribingTwiceIsOneRequest(t *testing.T) {
	t.Parallel()
	t.Run("supported", func(t *testing.T) {
		t.Parallel()
		eachEra(t, tracker.Options{}, nil, func(p *peer) {
			if !p.client.SupportsSubscriptions() {
				p.Fatal("the server is said not to support subscriptions")
			}
			for range 2 {
				if err := p.client.Subscribe(p.ctx(), "note:///a"); err != nil {
					p.Fatal(err)
				}
			}
			if n := p.subscribes("note:///a"); n != 1 {
				p.Errorf("%d requests", n)
			}
			e, _ := p.awaitType(event.TypeSubscriptionsChanged, "")
			if got := e.Payload.(event.SubscriptionsChanged).URIs; !slices.Equal(got, []string{"note:///a"}) {
				p.Errorf("published %q", got)
			}
			if !p.client.Subscribed("note:///a") || p.client.Subscribed("note:///b") || !slices.Equal(p.client.Subscriptions(), []string{"note:///a"}) {
				p.Errorf("subscribed to %q", p.client.Subscriptions())
			}
			for range 2 {
				if err := p.client.Unsubscribe(p.ctx(), "note:///a"); err != nil {
					p.Fatal(err)
				}
			}
			if p.client.Subscribed("note:///a") || p.era == session.EraLegacy && p.sent("resources/unsubscribe", "note:///a") != 1 {
				p.Errorf("still subscribed to %q", p.client.Subscriptions())
			}
			p.set("note:///a", "a two\n")
			if err := p.client.Subscribe(p.ctx(), "note:///b"); err != nil {
				p.Fatal(err)
			}
			p.set("note:///b", "b two\n")
			if _, before := p.awaitType(event.TypeResourceUpdated, "note:///b"); has(before, event.TypeResourceUpdated, "note:///a") {
				p.Error("published of what is not subscribed to any more")
			}
		})
	})
	t.Run("unsupported", func(t *testing.T) {
		t.Parallel()
		eachEra(t, tracker.Options{}, nil, func(p *peer) {
			err := p.client.Subscribe(p.ctx(), "note:///a")
			if err == nil || err.Error() != "Server does not support resource subscriptions" || !errors.Is(err, session.ErrUnsupported) {
				p.Errorf("subscribe gives %v", err)
			}
			if p.client.SupportsSubscriptions() || p.subscribes("note:///a") != 0 {
				p.Errorf("%d requests", p.subscribes("note:///a"))
			}
			if _, err := p.client.ReadResource(p.ctx(), "note:///a"); err != nil {
				p.Errorf("reads do not work: %v", err)
			}
		}, "--no-subscribe")
	})
}

// The end of a session empties what is cached and subscribed to, published once; the
// library does not subscribe again, and goes on to work.
func TestEndOfASessionEmptiesTheCache(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		p.readAll()
		for _, uri := range []string{"note:///a", "note:///b"} {
			if err := p.client.Subscribe(p.ctx(), uri); err != nil {
				p.Fatal(err)
			}
		}
		subscribed := p.subscribes("note:///b")
		p.pending()
		p.mu.Lock()
		child := p.child
		p.mu.Unlock()
		if err := child.Process.Kill(); err != nil {
			p.Fatal(err)
		}
		none, _ := p.awaitType(event.TypeSubscriptionsChanged, "")
		for _, k := range catalog.Kinds() { // at once, not when it is back
			if keys := p.client.Cache().Keys(k); len(keys) != 0 {
				p.Errorf("%s: %q are kept", k, keys)
			}
		}
		_, before := p.await(func(e *event.Event) bool {
			s, ok := e.Payload.(event.ServerState)
			return ok && s.State == event.Ready
		}, "the server is back")
		var published [][]string
		for _, e := range append(before, none) {
			if s, ok := e.Payload.(event.SubscriptionsChanged); ok {
				published = append(published, s.URIs)
			}
		}
		if len(published) != 1 || len(published[0]) != 0 {
			p.Errorf("published %q", published)
		}
		if subs := p.client.Subscriptions(); len(subs) != 0 {
			p.Errorf("subscribed to %q", subs)
		}
		if r := p.read("note:///a"); textOf(r) != "a one\n" {
			p.Errorf("read %q", textOf(r))
		}
		if n := p.subscribes("note:///b"); n != subscribed {
			p.Errorf("subscribed again: %d requests, %d before", n, subscribed)
		}
	})
}

// A list that cannot be loaded again is announced with the error; the old one stays,
// and what is cached with it.
func TestFailedListReloadKeepsTheOldList(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, trackAll, func(p *peer) {
		p.read("note:///a")
		before := p.client.List(catalog.Resources).Keys()
		p.do("failLists", map[string]any{"times": 1})
		e, _ := p.awaitType(event.TypeResourcesListChanged, "")
		if l := e.Payload.(event.ListChanged); !strings.Contains(l.Error, "being rebuilt") || len(l.Removed) != 0 {
			p.Errorf("published %+v", l)
		}
		if now := p.client.List(catalog.Resources).Keys(); len(now) == 0 || !slices.Equal(now, before) {
			p.Errorf("the list is %q, was %q", now, before)
		}
		if _, ok := p.client.Cache().Resource("note:///a"); !ok {
			p.Error("what was kept is gone")
		}
		p.do("add", map[string]any{"kind": "resources", "name": "note:///e"})
		e, _ = p.awaitType(event.TypeResourcesListChanged, "")
		if l := e.Payload.(event.ListChanged); l.Error != "" || !slices.Equal(l.Added, []string{"note:///e"}) {
			p.Errorf("published %+v", l)
		}
	})
}
