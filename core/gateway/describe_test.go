package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
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

// A request of an extension goes to the server that declares it, or to the one whose
// resource it names.
func TestExtensionMethods(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		for _, id := range []string{"a", "b"} {
			s := w.Serve(id, era)
			s.SetQuietly("skill:///s/"+id, "text")
			s.Capabilities["extensions"] = map[string]any{"example.com/" + id + "only": map[string]any{}, "io.modelcontextprotocol/skills": map[string]any{}}
			for _, method := range []string{"aonly/list", "skills/get", "skills/list"} {
				s.Fail(sessiontest.Fault{Method: method, Result: map[string]any{"from": id}})
			}
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		c := w.client(era)
		for _, q := range []struct{ method, params, want, sent string }{
			{"aonly/list", `{"x":{"y":[1]}}`, `"from":"a"`, `{"y":[1]}`},
			{"skills/get", `{"uri":"skill:///s/b"}`, `"from":"b"`, ""},
			{"skills/get", `{"uri":"mcptrack://server/a/skill:///s/b"}`, `"from":"a"`, ""},
		} {
			got, err := w.do(c, q.method, q.params)
			if err != nil || !strings.Contains(got, q.want) {
				w.Errorf("%s %s: %s, %v", q.method, q.params, got, err)
			}
			if q.sent != "" && string(w.last("a", q.method)["x"]) != q.sent {
				w.Errorf("sent %v", w.last("a", q.method))
			}
		}
		if got := string(w.last("a", "skills/get")["uri"]); got != `"skill:///s/b"` {
			w.Errorf("sent %s", got)
		}
		for _, method := range []string{"skills/list", "none/list", "tools/none", "nothing"} {
			if got, err := w.do(c, method, "{}"); err == nil {
				w.Errorf("%s: %s", method, got)
			}
		}
	})
}

// Two servers whose apps have one URI do not break each other: each app keeps its scheme,
// and each tool names the resource under which its app is exported.
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
