package tracker_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Each of these tests runs in both eras, against a server that is made with a real SDK.

// trackAll makes an entry track everything.
func trackAll(s *config.Server) { s.TrackResources, s.TrackTools, s.TrackPrompts = true, true, true }

func (p *peer) read(uri string) cache.Resource {
	p.Helper()
	r, err := p.client.ReadResource(p.ctx(), uri)
	if err != nil {
		p.Fatal(err)
	}
	return r
}

func textOf(r cache.Resource) string {
	s, _ := r.Text()
	return s
}

// A read always fetches, and its result is cached and published. Getters report missing entries,
// and readers cannot write.
func TestRealReadIsCachedAndPublished(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		if _, ok := p.client.Cache().Resource("note:///a"); ok {
			p.Error("something is cached before anything was read")
		}
		before := time.Now()
		r := p.read("note:///a")
		e, _ := p.awaitType(event.TypeResourceContent, "note:///a")
		published := e.Payload.(event.ResourceContent)
		if textOf(r) != "a one\n" || textOf(*published.Content) != "a one\n" || published.Content.URI != "note:///a" ||
			published.Content.Time.Before(before) || published.Changed != nil || published.Digest != r.Digest {
			p.Errorf("read %+v, published %+v", r, published)
		}
		p.set("note:///a", "a two\n") // without a subscription
		if kept, ok := p.client.Cache().Resource("note:///a"); !ok || textOf(kept) != "a one\n" || !kept.Time.Equal(r.Time) {
			p.Errorf("cached %+v", kept)
		}
		if again := p.read("note:///a"); textOf(again) != "a two\n" {
			p.Errorf("read %q", textOf(again))
		}
		e, _ = p.awaitType(event.TypeResourceContent, "note:///a")
		if published = e.Payload.(event.ResourceContent); published.Changed == nil || !*published.Changed || textOf(*published.Previous) != "a one\n" {
			p.Errorf("published %+v", published)
		}
		kept, _ := p.client.Cache().Resource("note:///a")
		copy(kept.Raw(), strings.Repeat("X", 20))
		if again, _ := p.client.Cache().Resource("note:///a"); textOf(again) != "a two\n" {
			p.Error("a reader has written")
		}
		if n := p.sent("resources/read", "note:///a"); n != 2 {
			p.Errorf("%d requests for two reads", n)
		}
		if _, err := p.client.ReadResource(p.ctx(), "note:///nowhere"); !errors.Is(err, session.ErrNotFound) {
			p.Errorf("a missing resource gives %v", err)
		}
	})
}

// ClearAll removes resources, templates, prompts and results; the lists stay.
func TestRealClearAllEmptiesTheCache(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, trackAll, func(p *peer) {
		p.readAll()
		view := p.client.Cache()
		kinds := slices.DeleteFunc(catalog.Kinds(), func(k catalog.Kind) bool { return k == catalog.Skills }) // whose files are resources
		for _, k := range kinds {
			if len(view.Keys(k)) == 0 {
				p.Fatalf("nothing is cached of the %s", k)
			}
		}
		before := map[catalog.Kind]int{}
		for _, k := range kinds {
			before[k] = len(p.client.List(k))
		}
		view.ClearAll()
		for _, k := range kinds {
			if keys := view.Keys(k); len(keys) != 0 {
				p.Errorf("%s: %q are still cached", k, keys)
			}
			if n := len(p.client.List(k)); n == 0 || n != before[k] {
				p.Errorf("%s: %d descriptors, %d before", k, n, before[k])
			}
		}
	})
}

// readAll caches one entry of every kind.
func (p *peer) readAll() {
	p.Helper()
	p.read("note:///a")
	_, err := p.client.ReadTemplate(p.ctx(), "note:///{year}/{name}", map[string]string{"year": "2026", "name": "plan"})
	_, perr := p.client.GetPrompt(p.ctx(), "greet", map[string]string{"who": "you"})
	_, terr := p.client.CallTool(p.ctx(), "shape", nil)
	if err := errors.Join(err, perr, terr); err != nil {
		p.Fatal(err)
	}
}

// A changed list drops the entries of removed items and keeps the others. The list of resources
// does not affect contents that were read by a template.
func TestRealListChangeDropsRemovedEntries(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, trackAll, func(p *peer) {
		p.readAll()
		p.read("note:///b")
		_, err := p.client.GetPrompt(p.ctx(), "farewell", nil)
		_, terr := p.client.CallTool(p.ctx(), "fail", nil)
		if err := errors.Join(err, terr); err != nil {
			p.Fatal(err)
		}
		view := p.client.Cache()
		for kind, c := range map[catalog.Kind]struct{ removed, stays string }{
			catalog.Resources: {"note:///b", "note:///a"}, catalog.Prompts: {"farewell", "greet"}, catalog.Tools: {"fail", "shape"},
		} {
			if keys := view.Keys(kind); !slices.Contains(keys, c.removed) {
				p.Fatalf("%s: %q are cached", kind, keys)
			}
			p.do("remove", map[string]any{"kind": kind, "name": c.removed})
			p.await(func(e *event.Event) bool {
				l, ok := e.Payload.(event.ListChanged)
				return ok && l.List == kind && slices.Contains(l.Removed, c.removed)
			}, string(kind)+" without "+c.removed)
			if keys := view.Keys(kind); slices.Contains(keys, c.removed) || !slices.Contains(keys, c.stays) {
				p.Errorf("%s: %q are cached without %s", kind, keys, c.removed)
			}
		}
		if keys := view.Keys(catalog.Templates); len(keys) != 1 {
			p.Errorf("templates %q", keys)
		}
		p.do("remove", map[string]any{"kind": "templates", "name": "note:///{year}/{name}"})
		p.awaitType(event.TypeTemplatesListChanged, "")
		if keys := view.Keys(catalog.Templates); len(keys) != 0 {
			p.Errorf("a template that is gone is cached: %q", keys)
		}
	})
}

// Reads by template are cached under the template; the last parameters win.
func TestRealTemplateReadsAreCached(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, trackAll, func(p *peer) {
		const template = "note:///{year}/{name}"
		for _, name := range []string{"plan", "a b/ü"} {
			params := map[string]string{"year": "2026", "name": name}
			r, err := p.client.ReadTemplate(p.ctx(), template, params)
			if err != nil {
				p.Fatal(err)
			}
			kept, ok := p.client.Cache().Template(template)
			if !ok || !maps.Equal(kept.Params, params) || kept.URI != r.URI || kept.Template != template || textOf(kept) != textOf(r) {
				p.Errorf("cached %+v of %+v", kept, r)
			}
			if _, ok := p.client.Cache().Resource(r.URI); ok {
				p.Error("also cached by its URI")
			}
			e, _ := p.awaitType(event.TypeResourceContent, r.URI)
			if c := e.Payload.(event.ResourceContent); c.Template != template || c.Changed != nil {
				p.Errorf("published %+v", c)
			}
		}
		if kept, _ := p.client.Cache().Template(template); kept.URI != "note:///2026/a%20b%2F%C3%BC" {
			p.Errorf("expanded to %q", kept.URI)
		}
		if _, err := p.client.ReadTemplate(p.ctx(), template, map[string]string{"month": "1"}); err == nil || !strings.Contains(err.Error(), "year, name") {
			p.Errorf("an unknown variable gives %v", err)
		}
		if _, err := p.client.ReadTemplate(p.ctx(), "note:///{else}", nil); !errors.Is(err, session.ErrNotFound) {
			p.Errorf("a template that is not listed gives %v", err)
		}
	})
}

// Prompts are cached by name with their last arguments.
func TestRealPromptsAreCached(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		for _, who := range []string{"you", "me"} {
			if _, err := p.client.GetPrompt(p.ctx(), "greet", map[string]string{"who": who}); err != nil {
				p.Fatal(err)
			}
			e, _ := p.awaitType(event.TypePromptContent, "")
			published := e.Payload.(event.PromptContent)
			kept, ok := p.client.Cache().Prompt("greet")
			for _, got := range []cache.Prompt{kept, *published.Prompt} {
				if !ok || got.Arguments["who"] != who || !strings.Contains(string(got.Raw()), "greet "+who) || got.Time.IsZero() {
					p.Errorf("%s: %+v %s", who, got, got.Raw())
				}
			}
		}
		if _, ok := p.client.Cache().Prompt("farewell"); ok {
			p.Error("a prompt that nobody requested is cached")
		}
	})
}

// Results are cached by tool, whether the call succeeded or failed.
func TestRealToolResultsAreCached(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		for _, c := range []struct {
			tool, failure string
			refused       bool
		}{{"shape", "", false}, {"fail", "this tool always fails", false}, {"nonsense", "no tool nonsense", true}} {
			before := time.Now()
			r, err := p.client.CallTool(p.ctx(), c.tool, map[string]any{"n": 1})
			if (err != nil) != c.refused {
				p.Fatalf("%s: %v", c.tool, err)
			}
			e, _ := p.awaitType(event.TypeToolResult, "")
			published := e.Payload.(event.ToolResult)
			kept, ok := p.client.Cache().ToolResult(c.tool)
			for _, got := range []cache.ToolResult{r, kept, *published.Result} {
				if !ok || got.Name != c.tool || got.Success != (c.failure == "") || !strings.Contains(got.Error, c.failure) ||
					string(got.Arguments()) != `{"n":1}` || got.Time.Before(before) || (got.Raw() == nil) != c.refused {
					p.Errorf("%s: %+v %s", c.tool, got, got.Raw())
				}
			}
			if published.Name != c.tool || published.Success != kept.Success || published.Error != kept.Error {
				p.Errorf("%s: published %+v", c.tool, published)
			}
		}
	})
}

// An update that arrives while a resource is read never leaves the older content in the cache.
func TestRealUpdateDuringAReadIsNotLost(t *testing.T) {
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
		p.set("note:///a", "a two\n") // announced and read by the tracker while the old answer is held back
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
			p.Errorf("cached %+v, %q", kept, textOf(kept))
		}
	})
}

// The server is asked to announce changes of lists, and a list that changed is loaded again.
func TestRealListChanges(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, trackAll, func(p *peer) {
		for _, bit := range []string{`"toolsListChanged":true`, `"promptsListChanged":true`} {
			if p.era == session.EraModern && p.sent("subscriptions/listen", bit) == 0 {
				p.Errorf("the server was not asked for %s", bit)
			}
		}
		p.do("describe", map[string]any{"text": "another"})
		p.do("remove", map[string]any{"kind": "prompts", "name": "farewell"})
		_, before := p.awaitType(event.TypePromptsListChanged, "")
		if !has(before, event.TypeToolsListChanged, "") {
			p.awaitType(event.TypeToolsListChanged, "")
		}
	})
}

// A list change names the fields of a descriptor that differ, and for tools the place in the
// schema.
func TestRealListChangeDetails(t *testing.T) {
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

// After an update of a subscribed and cached resource, its content is read and published. If it is
// not cached, only the update is published; if it is not subscribed to, nothing is.
func TestRealUpdatesOfSubscribedResources(t *testing.T) {
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
					p.Errorf("cached %q", textOf(kept))
				}
				if !has(before, event.TypeResourceUpdated, "note:///b") {
					_, more := p.awaitType(event.TypeResourceUpdated, "note:///b")
					before = append(before, more...)
				}
				if has(before, event.TypeResourceContent, "note:///b") {
					p.Error("content that is not cached was published")
				}
				for _, typ := range []event.Type{event.TypeResourceUpdated, event.TypeResourceContent} {
					if has(before, typ, "note:///c") {
						p.Errorf("%s about a resource that is not subscribed to", typ)
					}
				}
			})
		})
	}
}

// Subscribing twice is one request. Nothing is sent to a server that does not support
// subscriptions.
func TestRealSubscribingTwiceIsOneRequest(t *testing.T) {
	t.Parallel()
	t.Run("supported", func(t *testing.T) {
		t.Parallel()
		eachEra(t, tracker.Options{}, nil, func(p *peer) {
			if !p.client.SupportsSubscriptions() {
				p.Fatal("the client claims that the server does not support subscriptions")
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
				p.Error("published an update of a resource that is no longer subscribed to")
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

// The end of a session clears the cache and the subscriptions, which is published once. The tracker
// does not subscribe again, and clients continue to work.
func TestRealEndOfASessionEmptiesTheCache(t *testing.T) {
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
		for _, k := range catalog.Kinds() { // immediately, not only after its return
			if keys := p.client.Cache().Keys(k); len(keys) != 0 {
				p.Errorf("%s: %q are cached", k, keys)
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

// A list that cannot be loaded is published with the error. The old list stays, and so do the
// cached entries.
func TestRealFailedListReloadKeepsTheOldList(t *testing.T) {
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
			p.Error("the cached content is gone")
		}
		p.do("add", map[string]any{"kind": "resources", "name": "note:///e"})
		e, _ = p.awaitType(event.TypeResourcesListChanged, "")
		if l := e.Payload.(event.ListChanged); l.Error != "" || !slices.Equal(l.Added, []string{"note:///e"}) {
			p.Errorf("published %+v", l)
		}
	})
}

// A long call reports its progress, and stops on the server when it is cancelled.
func TestRealLongCall(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		var published []session.Progress
		ctx := session.WithProgress(p.ctx(), func(r session.Progress) { published = append(published, r) })
		r, err := p.client.CallTool(ctx, "work", map[string]any{"steps": 3, "ms": 10})
		want := []session.Progress{{Progress: 1, Total: 3, Message: "step 1"}, {Progress: 2, Total: 3, Message: "step 2"}, {Progress: 3, Total: 3, Message: "step 3"}}
		if err != nil || !r.Success || !slices.Equal(published, want) {
			p.Errorf("%+v, %v; published %+v", r, err, published)
		}
		p.awaitType(event.TypeToolResult, "")

		ctx, cancel := context.WithCancel(p.ctx())
		ctx = session.WithProgress(ctx, func(session.Progress) { cancel() })
		if _, err = p.client.CallTool(ctx, "work", map[string]any{"steps": 100, "ms": 300}); !errors.Is(err, context.Canceled) {
			p.Errorf("a cancelled call gives %v", err)
		}
		if kept, ok := p.client.Cache().ToolResult("work"); !ok || kept.Success || kept.Error != "cancelled" {
			p.Errorf("cached %+v", kept)
		}
		e, _ := p.awaitType(event.TypeToolResult, "")
		if published := e.Payload.(event.ToolResult); published.Success || published.Error != "cancelled" {
			p.Errorf("published %+v", published)
		}
		p.eventually("the server has stopped", func() bool {
			raw, err := p.tracker.CallTool(p.ctx(), "notes", "cancelled", nil)
			return err == nil && strings.Contains(string(raw), `"text":"1"`)
		})
	})
}

// Requests of a server to its client are declined immediately: nothing hangs.
func TestRealRequestsOfTheServerAreDeclined(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		for _, method := range []string{"elicitation/create", "sampling/createMessage", "roots/list"} {
			r, err := p.client.CallTool(p.ctx(), "ask", map[string]any{"method": method})
			if p.era == session.EraModern { // it does not ask, because it knows the answer
				if rpc, ok := errors.AsType[*session.RPCError](err); !ok || !strings.Contains(rpc.Message, "elicitation") {
					p.Errorf("%s: %v", method, err)
				}
				continue
			}
			if err != nil || !strings.Contains(string(r.Raw()), "-32601") {
				p.Errorf("%s: %s, %v", method, r.Raw(), err)
			}
		}
	})
}

// The server completes arguments of prompts and variables of templates.
func TestRealCompleteArguments(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		for _, c := range []struct {
			ref             session.Reference
			argument, value string
			want            []string
		}{
			{session.Reference{Prompt: "greet"}, "who", "wo", []string{"world", "wonderland"}},
			{session.Reference{Template: "note:///{year}/{name}"}, "year", "", []string{"2025", "2026"}},
			{session.Reference{Template: "note:///{year}/{name}"}, "name", "x", nil},
		} {
			got, err := p.client.Complete(p.ctx(), c.ref, c.argument, c.value, nil)
			if err != nil || !slices.Equal(got.Values, c.want) || got.Total != len(c.want) {
				p.Errorf("%+v %s=%s: %+v, %v", c.ref, c.argument, c.value, got, err)
			}
		}
	})
}
