package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func TestItemsAreCleaned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      catalog.Kind
		raw, want string
	}{
		{catalog.Tools, `{"name":"a","inputSchema":{"type":"object"},"_meta":{"mcptrack/down":true,"x/y":1,"MCPtrack/z":2}}`,
			`{"name":"a","inputSchema":{"type":"object"},"_meta":{"x/y":1}}`},
		{catalog.Tools, `{"name":"a","inputSchema":{"type":"object"},"_meta":{"mcp\u0074rack\/down":true}}`,
			`{"name":"a","inputSchema":{"type":"object"},"_meta":{}}`},
		{catalog.Tools, `{"icons":[{"src":"javascript:alert(1)"},{"src":"https://x/i.png","sizes":["1x1"]},{"src":"data:image/png;base64,AA=="},{"src":" javascript:x"},
			{"src":"JAVASCRIPT:x"},{"src":"data:text/html,<script>"},{"src":"file:///etc/passwd"},{"src":"java\nscript:x"},{"src":"https://x/\u202e"}],"name":"a","inputSchema":{"type":"object"}}`,
			`{"icons":[{"src":"https://x/i.png","sizes":["1x1"]},{"src":"data:image/png;base64,AA=="}],"name":"a","inputSchema":{"type":"object"}}`},
		{catalog.Tools, `{"description":"do\u200b it\n\u202e now \udb40\udc41x","name":"a","inputSchema":{"type":"object","properties":{"p":{"type":"string","description":"hid\u2060den","default":"a\tb"}}},"annotations":{"title":"t\u0007"}}`,
			`{"description":"do it\n now x","name":"a","inputSchema":{"type":"object","properties":{"p":{"type":"string","description":"hidden","default":"a\tb"}}},"annotations":{"title":"t"}}`},
		{catalog.Resources, `{"uri":"x:y","name":"n\u200b"}`, `{"uri":"x:y","name":"n"}`},
		{catalog.Prompts, `{"name":"p","arguments":[{"name":"a","description":"d\u200b"}]}`, `{"name":"p","arguments":[{"name":"a","description":"d"}]}`},
		{catalog.Tools, `{"name":"a","description":"x\u034f\u3164\u115f\uffa0\u17b4\u2800\ufe00\udb40\udd00y\u200c\u200dz","inputSchema":{"type":"object","$comment":"c\u3164",
			"properties":{"title":{"type":"string","title":"t\u3164"},"default":{"description":"d\u3164"},"properties":{"items":{"anyOf":[{"description":"e\u3164"}]}}},"$defs":{"d":{"description":"f\u3164"}}},
			"outputSchema":{"type":"object","description":"g\u3164"}}`,
			`{"name":"a","description":"xyz","inputSchema":{"type":"object","$comment":"c","properties":{"title":{"type":"string","title":"t"},"default":{"description":"d"},"properties":{"items":{"anyOf":[{"description":"e"}]}}},"$defs":{"d":{"description":"f"}}},"outputSchema":{"type":"object","description":"g"}}`},
		{catalog.Tools, `{"name":"a","inputSchema":{"type":"object"},"description":"line\r\nline\tüñ 👩\u200d💻"}`, ""},
	} {
		it, err := catalog.NewItem(c.kind, json.RawMessage(c.raw))
		if err != nil {
			t.Fatal(err)
		}
		got, err := newItem(c.kind, it)
		if err != nil {
			t.Fatal(err)
		}
		if want := c.want; want == "" {
			if string(got.raw) != c.raw || got.suspicion != "" {
				t.Errorf("%s is listed as %s: %s", c.raw, got.raw, got.suspicion)
			}
			continue
		}
		if string(got.raw) != c.want || got.suspicion == "" {
			t.Errorf("%s is listed as %s: %q", c.raw, got.raw, got.suspicion)
		}
		if key := string(got.raw[got.at:got.end]); key != string(quote(it.Key)) {
			t.Errorf("the key is %s", key)
		}
	}
}

// Data is not changed, but a model reads it: an item with hidden characters in its data is not
// listed.
func TestHiddenDataIsNotListed(t *testing.T) {
	t.Parallel()
	schema := func(s string) string { return `{"name":"a","inputSchema":{"type":"object",` + s + `}}` }
	for raw, k := range map[string]catalog.Kind{
		schema(`"properties":{"a\u3164":{}}`): catalog.Tools, schema(`"required":["a\u200b"]`): catalog.Tools, schema(`"properties":{"a":{"enum":["b\udb40\udc41"]}}`): catalog.Tools,
		schema(`"properties":{"a":{"const":{"description":"b\u034f"}}}`): catalog.Tools, schema(`"properties":{"a":{"default":"\u2800"}}`): catalog.Tools, schema(`"properties":{"a":{"pattern":"[\u200b]"}}`): catalog.Tools,
		schema(`"x\u3164":1`): catalog.Tools, schema(`"examples":[{"title":"\ufe0f"}]`): catalog.Tools, `{"name":"p","arguments":[{"name":"a\u200b"}]}`: catalog.Prompts,
		`{"name":"p","uri":"x:y","mimeType":"text/\u200bplain"}`: catalog.Resources,
	} {
		it, err := catalog.NewItem(k, json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := newItem(k, it); err == nil || !strings.Contains(err.Error(), "hidden characters") {
			t.Errorf("%s is listed as %s", raw, got.raw)
		}
	}
	for _, raw := range []string{
		schema(`"properties":{"a":{"enum":["\t","\r\n","\r","\u0000"],"default":"می\u200cخواهم"}}`), schema(`"properties":{"👩\u200d💻":{"const":"⚠\ufe0f"}},"_x":"\\u200b"`),
	} {
		it, err := catalog.NewItem(catalog.Tools, json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := newItem(catalog.Tools, it); err != nil || string(got.raw) != raw || got.suspicion != "" {
			t.Errorf("%s is listed as %s: %v %s", raw, got.raw, err, got.suspicion)
		}
	}
}

// A server cannot declare itself up or down.
func TestSpoofedMeta(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.Serve("docs", era).SetList(catalog.Tools, json.RawMessage(`{"name":"a","inputSchema":{"type":"object"},"_meta":{"mcptrack/down":"no"}}`))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		list := func() string {
			got, err := c.List(w.Context(), catalog.Tools)
			if err != nil || len(got) != 1 {
				w.Fatalf("%v %v", got, err)
			}
			return string(got[0].Raw)
		}
		if got := list(); strings.Contains(got, downMember) {
			w.Error(got)
		}
		w.SetDown("docs", sessiontest.ErrRefused)
		w.advance(10e9)
		if got := list(); !strings.Contains(got, `"`+downMember+`":true`) {
			w.Error(got)
		}
	})
}

// The bytes of lists stay the same over reconnects, even if a server lists its items, or their
// members, in another order: clients cache by these bytes.
func TestListBytesAreStable(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		raw := func(s string) json.RawMessage { return json.RawMessage(s) }
		docs.SetList(catalog.Tools, raw(`{"title":"t","name":"a","inputSchema":{"type":"object","properties":{"z":{},"b":{}}}}`), tool("b"))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		list := func() string {
			got, err := w.do(c, "tools/list", "{}")
			if err != nil {
				w.Fatal(err)
			}
			return got
		}
		before := list()
		received(c)
		w.SetDown("docs", sessiontest.ErrRefused)
		w.advance(10e9)
		if got := list(); strings.ReplaceAll(got, `,"_meta":{"mcptrack/down":true}`, "") != before {
			w.Errorf("down: %s, before %s", got, before)
		}
		received(c)
		docs.SetList(catalog.Tools, tool("b"), raw(`{"inputSchema":{"properties":{"b":{},"z":{}},"type":"object"},"name":"a","title":"t"}`))
		w.SetDown("docs", nil)
		w.advance(60e9)
		if got := list(); got != before {
			w.Errorf("after a restart: %s, before %s", got, before)
		}
		docs.NotifyListChanged(catalog.Tools)
		received(c)
		w.advance(5e9)
		if got := received(c); got != "" {
			w.Errorf("received %q", got)
		}
	})
}
