package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// No other spelling of a URI leads to a held resource, to one of a held template, or to a content that
// has changed.
func TestHeldSpellings(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		set := func(text string) {
			docs.SetList(catalog.Resources, map[string]any{"uri": "file:///a", "name": "a", "description": text}, map[string]any{"uri": "file:///b", "name": "b"},
				map[string]any{"uri": "file:///pinned", "name": "pinned"})
			docs.SetList(catalog.Templates, map[string]any{"name": "t", "uriTemplate": "note://{id}", "description": text})
			for _, uri := range []string{"file:///pinned", "file:///%70inned", "FILE:///pinned"} {
				docs.SetQuietly(uri, text)
			}
			docs.SetQuietly("file:///b", "content")
			docs.NotifyListChanged(catalog.Resources)
		}
		set("good")
		w.pinned("docs", "file:///pinned", "good")
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		read := func(uri string) string { return fmt.Sprintf(`{"uri":%q}`, uri) }
		for _, uri := range []string{"file:///pinned", "file:///%70inned", "FILE:///pinned"} {
			w.wantServed(c, "resources/read", read(uri))
		}
		set(evil)
		w.advance(time.Minute)
		const command = "run mcptrack review docs"
		for _, uri := range []string{"file:///a", "file:///%61", "file:///%2561", "FILE:///a", "file:/a", "file:a", "file:///./a", "file:///x/../a", "file://localhost/a", "file:///a#x", "file:///a?x",
			"mcptrack://server/docs/file:///a", "mcptrack://server/docs/file:///%61", "note://1", "NOTE://1", "note://%31", "mcptrack://server/docs/note://1"} {
			w.wantHeld(c, "resources/read", read(uri), command)
			if w.gateway.subscribable(uri) {
				w.Errorf("clients can subscribe to %s", uri)
			}
		}
		for _, uri := range []string{"file:///pinned", "file:///%70inned", "FILE:///pinned", "file:///b"} {
			if !w.gateway.subscribable(uri) {
				w.Errorf("clients cannot subscribe to %s", uri)
			}
		}
		for _, uri := range []string{"file:///pinned", "file:///%70inned", "FILE:///pinned"} {
			if got, err := w.do(c, "resources/read", read(uri)); err == nil || strings.Contains(got+err.Error(), evil) || !strings.Contains(err.Error(), command) {
				w.Errorf("%s: %s, %v", uri, got, err)
			}
		}
		w.wantServed(c, "resources/read", read("file:///b"))
	})
}

// Definitions that programs read differently, or cannot read, are never served in place of the approved
// one.
func TestHostileDefinitions(t *testing.T) {
	deep := strings.Repeat(`{"a":`, catalog.MaxDepth) + `1` + strings.Repeat("}", catalog.MaxDepth)
	definitions := map[string]string{
		"a member twice":              `{"name":"dig","description":"good","description":"EVIL","inputSchema":{"type":"object"}}`,
		"a nested member twice":       `{"name":"dig","description":"good","inputSchema":{"type":"object","type":"object","title":"EVIL"}}`,
		"the name twice":              `{"name":"rake","name":"dig","description":"EVIL","inputSchema":{"type":"object"}}`,
		"too deep":                    `{"name":"dig","description":"EVIL","inputSchema":` + deep + `}`,
		"a number that is too large":  `{"name":"dig","description":"good","inputSchema":{"type":"object","properties":{"EVIL":{"maximum":1e400}}}}`,
		"an unpaired surrogate":       `{"name":"dig","description":"EVIL \ud800","inputSchema":{"type":"object"}}`,
		"a byte order mark":           `{"name":"dig","description":"\ufeffEVIL","inputSchema":{"type":"object"}}`,
		"a line separator":            `{"name":"dig","description":"good\u2028EVIL","inputSchema":{"type":"object"}}`,
		"a member of JavaScript":      `{"name":"dig","description":"good","__proto__":{"description":"EVIL"},"inputSchema":{"type":"object"}}`,
		"a parameter of JavaScript":   `{"name":"dig","description":"good","inputSchema":{"type":"object","properties":{"__proto__":{"title":"EVIL"}}}}`,
		"a case of letters":           `{"name":"dig","description":"good","Description":"EVIL","inputSchema":{"type":"object"}}`,
		"a remote reference":          `{"name":"dig","description":"good","inputSchema":{"$ref":"https://evil.net/EVIL.json"}}`,
		"a reference that never ends": `{"name":"dig","description":"good","inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a","title":"EVIL"}}}}`,
		"another type":                `{"name":"dig","description":["EVIL"],"inputSchema":{"type":"object"}}`,
		"a hidden character":          `{"name":"dig\u200d","description":"EVIL","inputSchema":{"type":"object"}}`,
		"escaped letters":             `{"name":"d\u0069g","description":"\u0045VIL","inputSchema":{"type":"object"}}`,
	}
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, described("dig", "good"), tool("rake"), tool("__proto__"))
		w.locked(sessiontest.Entry("docs"))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.wantServed(c, "tools/call", `{"name":"__proto__"}`)
		for name, definition := range definitions {
			docs.SetList(catalog.Tools, described("dig", "good"), tool("rake"), tool("__proto__"))
			docs.NotifyListChanged(catalog.Tools)
			w.advance(time.Minute)
			w.wantServed(c, "tools/call", `{"name":"dig"}`)
			docs.SetList(catalog.Tools, json.RawMessage(definition), tool("rake"), tool("__proto__"))
			docs.NotifyListChanged(catalog.Tools)
			w.advance(time.Minute)
			list, err := c.List(w.Context(), catalog.Tools)
			if err != nil {
				w.Fatal(err)
			}
			for _, it := range list {
				if strings.Contains(string(it.Raw), evil) || it.Key == "dig" && it.Describe().Description != "good" {
					w.Errorf("%s: %s is served", name, it.Raw)
				}
			}
			before := docs.Count("tools/call")
			if got, err := w.do(c, "tools/call", `{"name":"dig"}`); err == nil || strings.Contains(err.Error(), evil) || docs.Count("tools/call") != before {
				w.Errorf("%s: %s, %v", name, got, err)
			}
			w.wantServed(c, "tools/call", `{"name":"rake"}`)
			w.wantServed(c, "tools/call", `{"name":"__proto__"}`)
		}
	})
}

// Of two tools with one name the first counts, for the lock and for clients.
func TestNameTwiceInAList(t *testing.T) {
	for _, held := range []bool{false, true} {
		inEras(t, func(w *fixture, era session.Era) {
			docs := w.Serve("docs", era)
			docs.SetList(catalog.Tools, described("dig", "good"))
			w.locked(sessiontest.Entry("docs"))
			w.start(sessiontest.Entry("docs"))
			c := w.client(era)
			both := []any{described("dig", "good"), described("dig", evil)}
			if held {
				both[0], both[1] = both[1], both[0]
			}
			docs.Fail(sessiontest.Fault{Method: "tools/list", Result: map[string]any{"resultType": "complete", "tools": both, "ttlMs": 0, "cacheScope": "public"}})
			docs.NotifyListChanged(catalog.Tools)
			w.advance(time.Minute)
			w.wantClean(c, catalog.Tools, "dig")
			if held {
				w.wantHeld(c, "tools/call", `{"name":"dig"}`, "run mcptrack review docs")
			} else {
				w.wantServed(c, "tools/call", `{"name":"dig"}`)
			}
		})
	}
}

// A change that is not announced is held after the lists were requested again: within 6 min if the
// server says that it announces changes, otherwise within the poll interval. Clients see what was
// approved all the time.
func TestChangeThatIsNotAnnounced(t *testing.T) {
	for name, test := range map[string]struct {
		capabilities map[string]any
		within       time.Duration
	}{
		"it says that it announces":     {map[string]any{"tools": map[string]any{"listChanged": true}}, 6 * time.Minute},
		"it says that it does not":      {map[string]any{"tools": map[string]any{}}, 40 * time.Second},
		"it announces other lists only": {map[string]any{"tools": map[string]any{}, "prompts": map[string]any{"listChanged": true}}, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inEras(t, func(w *fixture, era session.Era) {
				docs := w.Serve("docs", era)
				docs.Capabilities = test.capabilities
				docs.SetList(catalog.Tools, described("dig", "good"))
				w.locked(sessiontest.Entry("docs"))
				w.start(sessiontest.Entry("docs"))
				c := w.client(era)
				w.advance(time.Minute)
				docs.SetList(catalog.Tools, described("dig", evil), described("sow", evil))
				w.wantClean(c, catalog.Tools, "dig")
				w.advance(test.within)
				w.wantClean(c, catalog.Tools, "dig")
				w.wantHeld(c, "tools/call", `{"name":"dig"}`, "run mcptrack review docs")
			})
		})
	}
}

// A held tool cannot be called as a task, and a subscriber to a held resource learns only that it was
// updated.
func TestHeldTasksAndSubscriptions(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.Capabilities["tasks"] = map[string]any{"requests": map[string]any{"tools": map[string]any{"call": map[string]any{}}}}
		set := func(text string) {
			docs.SetList(catalog.Tools, map[string]any{"name": "dig", "description": text, "inputSchema": map[string]any{"type": "object"}, "execution": map[string]any{"taskSupport": "optional"}})
			docs.SetResource("file:///a", sessiontest.Resource{Text: text, MimeType: "text/" + text})
			docs.NotifyListChanged(catalog.Tools)
			docs.NotifyListChanged(catalog.Resources)
			w.advance(time.Minute)
		}
		set("good")
		w.locked(sessiontest.Entry("docs"))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.subscribe(c, "file:///a")
		set(evil)
		received(c)
		w.wantHeld(c, "tools/call", `{"name":"dig","task":{"ttl":60000}}`, "run mcptrack review docs")
		docs.Set("file:///a", "more EVIL")
		w.advance(10 * time.Second)
		if got := received(c); got != "file:///a" {
			w.Errorf("notified of %q", got)
		}
		w.wantHeld(c, "resources/read", `{"uri":"file:///a"}`, "run mcptrack review docs")
	})
}
