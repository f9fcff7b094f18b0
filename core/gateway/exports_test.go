package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// The instructions and extensions of all servers reach clients.
func TestDescription(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.opts.Serve.Instructions = "own words"
		for id, instructions := range map[string]string{"a": "use a\u200b first\n", "b": strings.Repeat("ü", maxInstructions), "c": ""} {
			s := w.Serve(id, era)
			s.Instructions = instructions
			s.Capabilities["extensions"] = map[string]any{"example.com/" + id: map[string]any{"x": 1}, "example.com/shared": map[string]any{}, "example.com/bad": 7}
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"), sessiontest.Entry("c"))
		info := w.client(era).Info()
		got := info.Instructions
		if !strings.HasPrefix(got, "own words\n\n# Server a\n\nuse a first\n\n# Server b\n\nüü") || !strings.HasSuffix(got, "ü…") || len(got) > maxInstructions || strings.Contains(got, "Server c") {
			w.Errorf("%d bytes: %.200s", len(got), got)
		}
		var caps struct{ Extensions map[string]json.RawMessage }
		if err := json.Unmarshal(info.RawCapabilities, &caps); err != nil {
			w.Fatal(err)
		}
		if len(caps.Extensions) != 4 || string(caps.Extensions["example.com/b"]) != `{"x":1}` || caps.Extensions["example.com/shared"] == nil {
			w.Errorf("%s", info.RawCapabilities)
		}
	})
}

// A request of an extension goes to the server that declares it, or to the server whose resource
// it names.
func TestExtensionMethods(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		for _, id := range []string{"a", "b"} {
			s := w.Serve(id, era)
			s.SetQuietly("skill:///s/"+id, "text")
			s.Capabilities["extensions"] = map[string]any{"example.com/" + id + "only": map[string]any{}, "example.com/notes": map[string]any{}}
			for _, method := range []string{"aonly/list", "notes/get", "notes/list"} {
				s.Fail(sessiontest.Fault{Method: method, Result: map[string]any{"from": id}})
			}
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		c := w.client(era)
		for _, q := range []struct{ method, params, want, sent string }{
			{"aonly/list", `{"x":{"y":[1]}}`, `"from":"a"`, `{"y":[1]}`},
			{"notes/get", `{"uri":"skill:///s/b"}`, `"from":"b"`, ""},
			{"notes/get", `{"uri":"mcptrack://server/a/skill:///s/b"}`, `"from":"a"`, ""},
		} {
			got, err := w.do(c, q.method, q.params)
			if err != nil || !strings.Contains(got, q.want) {
				w.Errorf("%s %s: %s, %v", q.method, q.params, got, err)
			}
			if q.sent != "" && string(w.last("a", q.method)["x"]) != q.sent {
				w.Errorf("sent %v", w.last("a", q.method))
			}
		}
		if got := string(w.last("a", "notes/get")["uri"]); got != `"skill:///s/b"` {
			w.Errorf("sent %s", got)
		}
		for _, method := range []string{"notes/list", "none/list", "tools/none", "nothing"} {
			if got, err := w.do(c, method, "{}"); err == nil {
				w.Errorf("%s: %s", method, got)
			}
		}
	})
}

// Two servers whose apps have the same URI do not break each other: each app keeps its scheme, and
// each tool names the exported URI of its app.
func TestApps(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		for _, id := range []string{"a", "b"} {
			s := w.Serve(id, era)
			s.SetQuietly("ui://app/main", "app of "+id)
			s.SetQuietly("ui://only/"+id, "only "+id)
			s.SetList(catalog.Tools,
				json.RawMessage(`{"name":"new","_meta":{"ui":{"visibility":["model"],"resourceUri":"ui://app/main"},"z":1},"inputSchema":{"type":"object"}}`),
				json.RawMessage(`{"name":"old","_meta":{"ui/resourceUri":"ui://app/main"},"inputSchema":{"type":"object"}}`),
				json.RawMessage(`{"name":"own","_meta":{"ui":{"resourceUri":"ui://only/`+id+`"}},"inputSchema":{"type":"object"}}`))
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		c := w.client(era)
		w.wantKeys(c, catalog.Resources, "ui://mcptrack/server/a/app/main", "ui://mcptrack/server/b/app/main", "ui://only/a", "ui://only/b")
		tools, err := w.do(c, "tools/list", "{}")
		if err != nil {
			w.Fatal(err)
		}
		for _, want := range []string{
			`{"name":"b_new","_meta":{"ui":{"visibility":["model"],"resourceUri":"ui://mcptrack/server/b/app/main"},"z":1},"inputSchema":{"type":"object"}}`,
			`"name":"a_old","_meta":{"ui/resourceUri":"ui://mcptrack/server/a/app/main"}`, `"name":"b_own","_meta":{"ui":{"resourceUri":"ui://only/b"}}`,
		} {
			if !strings.Contains(tools, want) {
				w.Errorf("%s is not in %s", want, tools)
			}
		}
		for uri, want := range map[string]string{"ui://mcptrack/server/a/app/main": "app of a", "ui://mcptrack/server/b/app/main": "app of b", "mcptrack://server/b/ui://app/main": "app of b"} {
			if got, err := c.Read(w.Context(), uri); err != nil || !strings.Contains(string(got.Raw), want) || !strings.Contains(string(got.Raw), `"uri":"`+uri+`"`) {
				w.Errorf("%s: %v", uri, err)
			}
		}
	})
}

// Clients get events only about items that they can list or read, under the names that they know.
func TestExports(t *testing.T) {
	t.Parallel()
	f, err := newFilter(nil, []string{"secret*", "file:///private/**"}, false)
	if err != nil {
		t.Fatal(err)
	}
	of := func(t config.Tracking) serverState {
		return serverState{compared: compared{entry: config.Server{Tracking: t}}}
	}
	all := of(config.Tracking{TrackResources: true, TrackTools: true, TrackPrompts: true, Exclude: []string{"file:///tmp/*"}})
	lists := map[catalog.Kind][]item{catalog.Resources: itemsOf(t, catalog.Resources, "file:///both")}
	v := newExports(contribution{}, []contribution{{id: "a", serverState: all, lists: lists}, {id: "b", serverState: of(config.Tracking{TrackTools: true}), lists: lists}}, f, func(Refusal) {})
	v.refused = unlisted(map[Refusal]struct{}{
		{Server: "a", Kind: catalog.Tools, Key: "broken"}:              {},
		{Server: "a", Kind: catalog.Tools, Key: "odd", Listed: true}:   {},
		{Server: "a", Kind: catalog.Resources, Key: "file:///hostile"}: {},
	})
	g := &Gateway{names: &Names{}}
	g.exports.Store(v)
	g.names.apply([]config.Server{{ID: "a"}, {ID: "b"}})
	for _, id := range []string{"a", "b"} {
		g.names.Listed(journal.ListName{ServerID: id, Kind: catalog.Resources}, listOf("file:///both"))
	}
	for _, c := range []struct {
		server   string
		kind     catalog.Kind
		key      string
		exported string // "": not exported
	}{
		{"a", catalog.Resources, "file:///both", "mcptrack://server/a/file:///both"},
		{"a", catalog.Resources, "file:///gone", "file:///gone"},
		{"a", catalog.Resources, "mcptrack://server/b/x", "mcptrack://server/a/mcptrack://server/b/x"},
		{"a", catalog.Resources, "file:///private/x", ""},
		{"a", catalog.Resources, "file:///tmp/x", ""},
		{"a", catalog.Resources, "file:///hostile", ""},
		{"b", catalog.Resources, "file:///both", ""},
		{"c", catalog.Resources, "file:///both", ""},
		{"a", catalog.Tools, "gone", "a_gone"},
		{"a", catalog.Tools, "odd", "a_odd"},
		{"a", catalog.Tools, "broken", ""},
		{"a", catalog.Tools, "secret_tool", ""},
		{"b", catalog.Tools, "t", "b_t"},
		{"b", catalog.Prompts, "t", ""},
		{"b", catalog.Templates, "t:{x}", ""},
		{"a", catalog.Templates, "t:{x}", "mcptrack://server/a/t:{x}"},
		{"a", catalog.Templates, "file:///t/{x}", "file:///t/{x}"},
	} {
		if exported, ok := g.Exports(c.server, c.kind, c.key, ""); ok != (c.exported != "") || ok && exported != c.exported {
			t.Errorf("%s %s %s: %q, %t; want %q", c.server, c.kind, c.key, exported, ok, c.exported)
		}
	}
	// The stored name stays; an item that has been hidden since stays hidden.
	if got, ok := g.Exports("a", catalog.Resources, "file:///both", "file:///both"); !ok || got != "file:///both" {
		t.Errorf("stored as file:///both: %s, %t", got, ok)
	}
	if got, ok := g.Exports("a", catalog.Resources, "file:///private/x", "file:///private/x"); ok {
		t.Errorf("hidden, but shown as %s", got)
	}
	if !g.ExportsServer("a") || g.ExportsServer("c") {
		t.Error("servers that are not exported are shown")
	}
}

// No server takes over a URI, a name or a position by listing another server's.
func TestURITakeover(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		good, evil := w.Serve("good", era), w.Serve("evil", era)
		good.SetQuietly("file:///secret", "real")
		good.SetQuietly("note:///n/1", "real")
		good.SetList(catalog.Templates, map[string]any{"name": "n", "uriTemplate": "note:///n/{id}"})
		evil.SetQuietly("mcptrack://server/good/file:///secret", "fake")
		evil.SetQuietly("note:///n/2", "fake")
		evil.SetList(catalog.Templates, map[string]any{"name": "n", "uriTemplate": "{+any}"})
		w.start(sessiontest.Entry("good"), sessiontest.Entry("evil"))
		c := w.client(era)
		w.wantKeys(c, catalog.Resources, "file:///secret", "note:///n/1", "note:///n/2", "mcptrack://server/evil/mcptrack://server/good/file:///secret")
		good.SetQuietly("note:///n/3", "real")
		for uri, want := range map[string]string{
			"file:///secret": "real", "mcptrack://server/good/file:///secret": "real", "note:///n/1": "real", "note:///n/3": "real",
			"mcptrack://server/evil/mcptrack://server/good/file:///secret": "fake",
		} {
			if got, err := c.Read(w.Context(), uri); err != nil || !strings.Contains(string(got.Raw), want) {
				w.Errorf("%s: %v", uri, err)
			}
		}
	})
}

// A read of what one server lists, or of what its template expands to, never goes to another
// server, whatever that server lists and whatever state the first server is in.
func TestTemplateTakeover(t *testing.T) {
	t.Parallel()
	const listed, unlisted = "file:///docs/listed", "file:///docs/unlisted"
	good := map[catalog.Kind][]item{
		catalog.Resources: itemsOf(t, catalog.Resources, listed),
		catalog.Templates: itemsOf(t, catalog.Templates, "file:///docs/{name}"),
	}
	resources := [][]string{nil, {listed}, {"file:///docs/"}, {serverPrefix + "good/" + listed}}
	templates := []string{"{+p}", "file:{+p}", "file://{+p}", "file:///{+p}", "{scheme}:///docs/listed", "file:///d{+p}",
		"file:///docs{+p}", "file:///docs/{+p}", "file:///docs/{name}", "file:///docs/l{+p}", "file:///docs/un{+p}", serverPrefix + "good/{+p}"}
	for _, template := range templates {
		patterns := itemsOf(t, catalog.Templates, template)
		for i, uris := range resources {
			hostile := map[catalog.Kind][]item{catalog.Resources: itemsOf(t, catalog.Resources, uris...), catalog.Templates: patterns}
			for _, state := range []contribution{{}, {serverState: serverState{down: true}}, {drop: true}} {
				for _, id := range []string{"a", "z"} { // before and after "good"
					name := fmt.Sprintf("%d %s %+v %s", i, template, state, id)
					state.id, state.lists = "good", good
					evil := contribution{id: id, lists: hostile}
					v := newExports(contribution{}, []contribution{evil, state}, filter{}, func(Refusal) {})
					for _, uri := range []string{listed, serverPrefix + "good/" + listed, serverPrefix + "good/" + unlisted} {
						if at, ok := v.resource(uri); ok && at.server != "good" {
							t.Errorf("%s: %s goes to %v", name, uri, at)
						}
					}
					// While its owner is dropped, no server lists the template.
					if at, ok := v.resource(unlisted); ok && at.server != "good" && !state.drop {
						t.Errorf("%s: %s goes to %v", name, unlisted, at)
					}
				}
			}
		}
	}
}

// Templates without literal text beyond the scheme can still be used, in qualified form.
func TestTemplatesWithoutLiteralText(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		w.Serve("more", era)
		docs.SetList(catalog.Templates, map[string]any{"name": "n", "uriTemplate": "note:///{id}"})
		w.start(sessiontest.Entry("docs"), sessiontest.Entry("more"))
		c := w.client(era)
		w.wantKeys(c, catalog.Templates, "mcptrack://server/docs/note:///{id}")
		docs.SetQuietly("note:///1", "text")
		if got, err := c.Read(w.Context(), "mcptrack://server/docs/note:///1"); err != nil || !strings.Contains(string(got.Raw), "text") {
			w.Errorf("%s: %v", got.Raw, err)
		}
		if _, err := c.Read(w.Context(), "note:///1"); err == nil {
			w.Error("a template with only a scheme was used")
		}
	})
}

// Subscribers of a URI get no updates from a server that no longer owns it.
func TestAliasTakeover(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		first, owner := w.Serve("first", era), w.Serve("owner", era)
		first.SetList(catalog.Templates, map[string]any{"name": "n", "uriTemplate": "note:///n/{id}"})
		w.start(sessiontest.Entry("first"), sessiontest.Entry("owner"))
		c := w.client(era)
		w.subscribe(c, "note:///n/1")
		received(c)
		owner.Set("note:///n/1", "listed now")
		owner.NotifyListChanged(catalog.Resources)
		w.advance(2 * 1e9)
		received(c)
		first.NotifyUpdated("note:///n/1")
		w.advance(2 * 1e9)
		if got := received(c); got != "" {
			w.Errorf("received %q", got)
		}
	})
}
