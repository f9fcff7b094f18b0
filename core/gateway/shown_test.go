package gateway

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A tool has the name and the description that the config gives it; calls reach the server under its own name.
func TestRenamedTools(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		s := w.Serve("a", era)
		s.SetList(catalog.Tools, tool("create"), map[string]any{"name": "swap", "description": "old", "inputSchema": map[string]any{"type": "object"}}, tool("other"), tool("make"))
		entry := sessiontest.Entry("a")
		entry.Tools = map[string]config.Tool{"create": {Name: "make"}, "swap": {Name: "other", Description: "new\u202e\u200b text"}, "other": {Name: "swap"}, "absent": {Name: "x"}}
		w.start(entry)
		c := w.client(era)
		w.wantKeys(c, catalog.Tools, "make", "other", "swap", hashed("a", "make\x00"))
		if list, err := w.do(c, "tools/list", `{}`); err != nil || strings.Contains(list, "\u202e") || strings.Contains(list, "\u200b") || strings.Contains(list, "old") || !strings.Contains(list, "new") {
			w.Errorf("%s, %v", list, err)
		}
		for exported, own := range map[string]string{"make": "create", "other": "swap", "swap": "other", hashed("a", "make\x00"): "make"} {
			if _, err := w.do(c, "tools/call", `{"name":"`+exported+`"}`); err != nil || string(w.last("a", "tools/call")["name"]) != `"`+own+`"` {
				w.Errorf("%s: %s, %v", exported, w.last("a", "tools/call")["name"], err)
			}
		}
		if _, err := w.do(c, "tools/call", `{"name":"create"}`); err == nil {
			w.Error("a tool has two names")
		}
		names := w.gateway.names.Exported(&event.Event{ServerID: "a", Payload: event.ListChanged{List: catalog.Tools, Added: []string{"create", "make"}}})
		if names["create"] != "make" || names["make"] != hashed("a", "make\x00") {
			w.Errorf("events: %v", names)
		}
		before, _ := w.gateway.Capabilities().Servers[0].Lists[catalog.Tools].Get("other")
		entry.Tools = map[string]config.Tool{"swap": {Name: "other", Description: "newest"}}
		w.apply(entry)
		if err := w.gateway.Settled(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.wantKeys(c, catalog.Tools, "create", "make", "other", hashed("a", "other\x00"))
		if after, ok := w.gateway.Capabilities().Servers[0].Lists[catalog.Tools].Get("other"); !ok || after.Digest == before.Digest || !strings.Contains(string(after.Raw), "newest") {
			w.Errorf("%s", after.Raw)
		}
		if err := w.gateway.Filter(nil, []string{"swap"}); err != nil { // the server's own name
			w.Fatal(err)
		}
		w.advance(time.Second)
		w.wantKeys(c, catalog.Tools, "create", "make", hashed("a", "other\x00"))
	})
}

// With several servers, the new name has the prefix of its server, and keeps it from the server's own tools also if
// the prefix needs a hash.
func TestRenamedToolsOfSeveralServers(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		entries := []config.Server{sessiontest.Entry("a"), sessiontest.Entry("b"), sessiontest.Entry("c d")}
		for i := range entries {
			w.Serve(entries[i].ID, era).SetList(catalog.Tools, tool("create"), tool("make"), tool("zip"))
		}
		entries[0].Tools = map[string]config.Tool{"create": {Name: "dig"}}
		entries[2].Tools = map[string]config.Tool{"zip": {Name: "make"}}
		w.start(entries...)
		c := w.client(era)
		w.wantKeys(c, catalog.Tools, "a_dig", "a_make", "a_zip", "b_create", "b_make", "b_zip", hashed("c d", "create"), hashed("c d", "make"), hashed("c d", "make\x00"))
		if _, err := w.do(c, "tools/call", `{"name":"`+hashed("c d", "make")+`"}`); err != nil || string(w.last("c d", "tools/call")["name"]) != `"zip"` {
			w.Errorf("%v", err)
		}
	})
}

// A large result is cut where a character begins, and says where the whole is, which only its owner can read for a while.
func TestMaxResult(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		s := w.Serve("a", era)
		s.SetList(catalog.Tools, map[string]any{"name": "dig", "inputSchema": map[string]any{"type": "object"}, "outputSchema": map[string]any{"type": "object"}})
		entry := sessiontest.Entry("a")
		entry.MaxResult = 1 << 10
		w.opts.Transparent = true
		w.start(entry)
		c := w.client(era)
		if list, err := w.do(c, "tools/list", `{}`); err != nil || strings.Contains(list, "outputSchema") {
			w.Errorf("%s, %v", list, err)
		}
		if !c.Info().Capabilities.Resources {
			w.Error("the whole results are not declared")
		}
		call := func(result map[string]any) (string, []map[string]any) {
			w.Helper()
			s.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Result: result})
			raw, err := w.do(c, "tools/call", `{"name":"dig"}`)
			var got struct{ Content []map[string]any }
			if err != nil || json.Unmarshal([]byte(raw), &got) != nil {
				w.Fatalf("%s, %v", raw, err)
			}
			return raw, got.Content
		}
		text := func(s string) map[string]any { return map[string]any{"type": "text", "text": s} }
		fits := map[string]any{"content": []any{text(strings.Repeat("<", 900))}, "structuredContent": map[string]any{"n": 1}}
		if raw, content := call(fits); len(content) != 1 || !strings.Contains(raw, `"structuredContent":{"n":1}`) {
			w.Errorf("%s", raw)
		}
		long := strings.Repeat("ü", 600)
		raw, content := call(map[string]any{"isError": true, "content": []any{text("head"), text("x" + long), text("tail")}, "structuredContent": map[string]any{"n": 1}})
		if len(content) != 4 || content[0]["text"] != "head" || content[1]["text"] != "x"+long[:972] || content[3]["type"] != "resource_link" || !strings.Contains(raw, `"isError":true`) || strings.Contains(raw, "structuredContent") {
			w.Fatalf("%d: %s", len(content), raw)
		}
		uri, _ := content[3]["uri"].(string)
		if note, _ := content[2]["text"].(string); !strings.Contains(note, uri) {
			w.Errorf("%s", note)
		}
		read := func() string {
			raw, err := w.do(c, "resources/read", `{"uri":"`+uri+`"}`)
			if err != nil {
				return err.Error()
			}
			return raw
		}
		if whole := read(); !strings.Contains(whole, `"x`+long+`"`) || !strings.Contains(whole, "tail") || !strings.Contains(whole, `{\"n\":1}`) {
			w.Errorf("%s", whole)
		}
		if other := w.gateway.large.read(uri, "name other"); other != nil {
			w.Errorf("%s", other)
		}
		asked := s.Count("resources/read")
		w.advance(largeLife + time.Minute)
		if late := read(); strings.Contains(late, long) {
			w.Errorf("%s", late)
		}
		if len(w.gateway.large.all) != 0 || s.Count("resources/read") > asked+1 {
			w.Errorf("%d results are kept", len(w.gateway.large.all))
		}
		if _, content := call(map[string]any{"content": slices.Repeat([]any{text("")}, 1000)}); len(content) > 100 {
			w.Errorf("%d empty texts", len(content))
		}
		if raw, content := call(map[string]any{"content": []any{}, "structuredContent": map[string]any{"n": long}}); len(content) != 2 || strings.Contains(raw, long) {
			w.Errorf("%s", raw)
		}
	})
}

// The principal with the most bytes loses its oldest results.
func TestLargeResultsAreBounded(t *testing.T) {
	t.Parallel()
	var l largeResults
	first := l.keep("small", json.RawMessage(`{"content":[]}`))
	var last string
	for range 10 {
		last = l.keep("big", make(json.RawMessage, maxLarge/4))
	}
	if l.read(first, "small") == nil || len(l.all) > 5 || !l.has(last) {
		t.Errorf("%d are kept", len(l.all))
	}
	if uri := l.keep("big", make(json.RawMessage, maxLarge+1)); uri != "" || !l.has(last) {
		t.Error("a result that is too large is kept")
	}
}

func (l *largeResults) has(uri string) bool {
	for _, r := range l.all {
		if r.uri == uri {
			return true
		}
	}
	return false
}

// A filter that changes takes effect for connected clients: in lists, reads, calls, skills and updates.
func TestFilterChanges(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		s := w.Serve("a", era)
		s.SetList(catalog.Tools, tool("read"), tool("write"), tool("other"))
		s.SetQuietly("file:///pub/a", "1")
		s.SetQuietly("file:///secret/a", "1")
		w.opts.Allow = []string{"read", "write", "file:///**"}
		w.start(sessiontest.Entry("a"))
		c := w.client(era)
		if _, err := c.Subscribe(w.Context(), session.Filter{URIs: []string{"file:///pub/a", "file:///secret/a"}, Tools: true, Resources: true}); err != nil {
			w.Fatal(err)
		}
		w.wantKeys(c, catalog.Tools, "read", "write")
		c.Signals().Take() // signals of the subscription itself
		if err := w.gateway.Filter(nil, []string{"{"}); err == nil {
			w.Error("an invalid glob is accepted")
		}
		if err := w.gateway.Filter([]string{"read", "other", "file:///**"}, []string{"file:///secret/**"}); err != nil {
			w.Fatal(err)
		}
		w.advance(time.Second)
		w.wantKeys(c, catalog.Tools, "read")
		w.wantKeys(c, catalog.Resources, "file:///pub/a")
		if _, err := w.do(c, "tools/call", `{"name":"write"}`); err == nil {
			w.Error("a denied tool was called")
		}
		if _, err := c.Read(w.Context(), "file:///secret/a"); err == nil {
			w.Error("a denied resource was read")
		}
		s.Set("file:///secret/a", "2")
		s.Set("file:///pub/a", "2")
		w.advance(5 * time.Second)
		if got := c.Signals().Take(); got.URIs["file:///pub/a"].Count == 0 || got.URIs["file:///secret/a"].Count > 0 {
			w.Errorf("updates: %v", got.URIs)
		}
	})
}
