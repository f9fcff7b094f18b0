package tracker_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// The tests of the client are named by their rows in the acceptance list, E1 to E13.
// Each runs against a server that is made with a real SDK, in both eras.

// trackAll follows everything.
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

// A read always fetches, is cached and published; getters report what is missing, and
// readers cannot write.
func TestReadIsCachedAndPublished(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		if _, ok := p.client.Cache().Resource("note:///a"); ok {
			p.Error("something is kept before anything was read")
		}
		before := time.Now()
		r := p.read("note:///a")
		e, _ := p.awaitType(event.TypeResourceContent, "note:///a")
		published := e.Payload.(event.ResourceContent)
		if textOf(r) != "a one\n" || textOf(*published.Content) != "a one\n" || published.Content.URI != "note:///a" ||
			published.Content.Time.Before(before) || published.Changed != nil || published.Digest != r.Digest {
			p.Errorf("read %+v, published %+v", r, published)
		}
		p.set("note:///a", "a two\n") // nobody is subscribed
		if kept, ok := p.client.Cache().Resource("note:///a"); !ok || textOf(kept) != "a one\n" || !kept.Time.Equal(r.Time) {
			p.Errorf("kept %+v", kept)
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

// Clearing all empties resources, templates, prompts and results; descriptors stay.
func TestClearAllEmptiesTheCache(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, trackAll, func(p *peer) {
		p.readAll()
		view := p.client.Cache()
		for _, k := range catalog.Kinds() {
			if len(view.Keys(k)) == 0 {
				p.Fatalf("nothing is kept of the %s", k)
			}
		}
		before := map[catalog.Kind]int{}
		for _, k := range catalog.Kinds() {
			before[k] = len(p.client.List(k))
		}
		view.ClearAll()
		for _, k := range catalog.Kinds() {
			if keys := view.Keys(k); len(keys) != 0 {
				p.Errorf("%s: %q are still kept", k, keys)
			}
			if n := len(p.client.List(k)); n == 0 || n != before[k] {
				p.Errorf("%s: %d descriptors, %d before", k, n, before[k])
			}
		}
	})
}

// readAll keeps one of everything.
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

// A changed list keeps what survives and drops what was removed; what was read by a
// template is untouched by the list of resources.
func TestListChangeDropsRemovedEntries(t *testing.T) {
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
				p.Fatalf("%s: %q are kept", kind, keys)
			}
			p.do("remove", map[string]any{"kind": kind, "name": c.removed})
			p.await(func(e *event.Event) bool {
				l, ok := e.Payload.(event.ListChanged)
				return ok && l.List == kind && slices.Contains(l.Removed, c.removed)
			}, string(kind)+" without "+c.removed)
			if keys := view.Keys(kind); slices.Contains(keys, c.removed) || !slices.Contains(keys, c.stays) {
				p.Errorf("%s: %q are kept without %s", kind, keys, c.removed)
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
func TestTemplateReadsAreCached(t *testing.T) {
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
				p.Errorf("kept %+v of %+v", kept, r)
			}
			if _, ok := p.client.Cache().Resource(r.URI); ok {
				p.Error("kept by its URI, too")
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
			p.Errorf("a variable that is none gives %v", err)
		}
		if _, err := p.client.ReadTemplate(p.ctx(), "note:///{else}", nil); !errors.Is(err, session.ErrNotFound) {
			p.Errorf("a template that is not listed gives %v", err)
		}
	})
}

// Prompts are cached by name with their last arguments.
func TestPromptsAreCached(t *testing.T) {
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

// Results are cached by tool, of success and of failure.
func TestToolResultsAreCached(t *testing.T) {
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
