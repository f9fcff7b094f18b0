package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/peertest"
)

type oddItem struct {
	kind      catalog.Kind
	raw, want string
	silent    bool // nothing is lost, so there is no warning
}

// oddItems returns items of published servers for which clients reject a whole list.
func oddItems() []oddItem {
	const start = `{"name":"a","inputSchema":{"type":"object"`
	const skill = `{"uri":"skill://docs/a/SKILL.md","frontmatter":{"name":"a","description":"d"},"resources":"dynamic"`
	tool := func(in, out string) oddItem { return oddItem{catalog.Tools, start + in, start + out, false} }
	silently := func(o oddItem) oddItem { o.silent = true; return o }
	resource := func(in, out string) oddItem {
		return oddItem{catalog.Resources, `{"uri":"x:y","name":"n"` + in + `}`, `{"uri":"x:y","name":"n"` + out + `}`, false}
	}
	return []oddItem{
		silently(tool(`,"properties":{},"required":null}}`, `,"properties":{}}}`)),
		tool(`,"required":true}}`, `}}`),
		tool(`,"required":["b",7]}}`, `,"required":["b"]}}`),
		tool(`,"properties":[]}}`, `}}`),
		silently(tool(`,"properties":{"raw":true,"no":false,"nil":null,"is":{"type":"string"}}}}`, `,"properties":{"raw":{},"no":{"not":{}},"nil":{},"is":{"type":"string"}}}}`)),
		silently(tool(`},"title":null,"description":null,"annotations":null,"icons":null,"execution":null,"outputSchema":null,"_meta":null}`, `}}`)),
		silently(tool(`},"outputSchema":{"type":"object","required":null}}`, `},"outputSchema":{"type":"object"}}`)),
		tool(`},"outputSchema":[]}`, `}}`),
		tool(`},"execution":{"taskSupport":5}}`, `},"execution":{}}`),
		tool(`},"icons":[{"src":"https://x.test/y.png","sizes":"48x48","theme":"blue","mimeType":7}]}`, `},"icons":[{"src":"https://x.test/y.png"}]}`),
		tool(`},"icons":[{"mimeType":"image/png"},"x"]}`, `},"icons":[]}`),
		tool(`},"icons":{}}`, `}}`),
		tool(`},"annotations":{"readOnlyHint":"yes","title":1}}`, `},"annotations":{}}`),
		tool(`},"annotations":"none","description":["d"],"_meta":[]}`, `}}`),
		tool(`},"icons":[{"src":"https://x.test/y.png","mimeType":"image/\u200bpng"}],"_meta":{"a":{"b\u3164":1},"c":1}}`, `},"icons":[],"_meta":{"c":1}}`),
		tool(`},"icons":[{"src":"https://x.test/y.png","sizes":["1x1\u200b"]}]}`, `},"icons":[]}`),
		{catalog.Prompts, `{"name":"p","arguments":[{"name":"a","required":"yes"},{}],"title":3}`, `{"name":"p","arguments":[{"name":"a"}]}`, false},
		{catalog.Prompts, `{"name":"p","arguments":null}`, `{"name":"p"}`, true},
		resource(`,"annotations":{"lastModified":"2025-01-12","priority":2,"audience":["user","model"]}`, `,"annotations":{"audience":["user"]}`),
		silently(resource(`,"size":null,"mimeType":null,"annotations":{"priority":null,"lastModified":"2025-01-12T15:00:58Z"}`, `,"annotations":{"lastModified":"2025-01-12T15:00:58Z"}`)),
		resource(`,"size":"12 KB","mimeType":{}`, ``),
		{catalog.Skills, skill + `,"_meta":null}`, skill + `}`, true},
		{catalog.Skills, skill + `,"_meta":"m"}`, skill + `}`, false},
		{catalog.Templates, `{"uriTemplate":"x:{y}","name":"n","title":false}`, `{"uriTemplate":"x:{y}","name":"n"}`, false},
	}
}

func (o oddItem) check(t *testing.T) item {
	t.Helper()
	it, err := catalog.NewItem(o.kind, json.RawMessage(o.raw))
	if err != nil {
		t.Fatal(err)
	}
	got, err := newItem(o.kind, it)
	if err != nil {
		t.Fatalf("%s: %v", o.raw, err)
	}
	return got
}

// A member that clients reject is left out of an item, and the user is told; one that is null is
// absent.
func TestWrongMembersAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, o := range oddItems() {
		got := o.check(t)
		if string(got.raw) != o.want || (got.suspicion == "") != o.silent {
			t.Errorf("%s is listed as %s, want %s: %q", o.raw, got.raw, o.want, got.suspicion)
		}
	}
	for _, raw := range []string{`{"name":"a"}`, `{"name":"a","inputSchema":null}`, `{"name":"a","inputSchema":true}`, `{"name":"a","inputSchema":{"type":"array"}}`} {
		it, err := catalog.NewItem(catalog.Tools, json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := newItem(catalog.Tools, it); err == nil || !strings.Contains(err.Error(), "inputSchema") {
			t.Errorf("%s is listed as %s: %v", raw, got.raw, err)
		}
	}
}

type oddResult struct {
	method, version string
	raw, want       string // want is empty if the content is replaced with a text
}

func oddResults() []oddResult {
	call := func(version, in, out string) oddResult {
		if out != "" {
			out = `{"content":[` + out + `]}`
		}
		return oddResult{mcp.MethodCallTool, version, `{"content":[` + in + `]}`, out}
	}
	const now = mcp.LatestLegacy
	return []oddResult{
		{mcp.MethodCallTool, now, `{"content":[],"isError":null,"structuredContent":null,"_meta":null}`, `{"content":[]}`},
		{mcp.MethodCallTool, now, `{"content":[],"structuredContent":[1]}`, `{"content":[]}`},
		{mcp.MethodCallTool, mcp.ModernVersion, `{"content":[],"structuredContent":[1]}`, `{"content":[],"structuredContent":[1]}`},
		call(now, `{"type":"text","text":"a","annotations":null,"_meta":null},{"type":"image","data":"_-8","mimeType":"image/png","annotations":{"priority":"high"}}`,
			`{"type":"text","text":"a"},{"type":"image","data":"/+8=","mimeType":"image/png","annotations":{}}`),
		call(now, `{"type":"resource","resource":{"uri":"x:y","mimeType":null,"text":"t","blob":null}}`, `{"type":"resource","resource":{"uri":"x:y","text":"t"}}`),
		call(now, `{"type":"resource","resource":{"uri":"x:y","text":null,"blob":"AA"}}`, `{"type":"resource","resource":{"uri":"x:y","blob":"AA"}}`),
		call(now, `{"type":"resource_link","uri":"x:y","name":"n","size":null,"icons":[{"src":"https://x.test/i","sizes":"any"}]}`,
			`{"type":"resource_link","uri":"x:y","name":"n","icons":[{"src":"https://x.test/i"}]}`),
		call(now, `{"type":"image","data":"%%","mimeType":"image/png"}`, ""),
		call(now, `{"type":"text","text":5}`, ""),
		call(now, `{"type":"json","json":{}}`, ""),
		call(now, `5`, ""),
		call(now, `"text"`, `{"text":"text","type":"text"}`),
		{mcp.MethodCallTool, now, `{"content":"text","isError":true}`, `{"content":[{"text":"text","type":"text"}],"isError":true}`},
		{mcp.MethodCallTool, now, `{"content":{"type":"text","text":"a"}}`, `{"content":[{"type":"text","text":"a"}]}`},
		call("2025-03-26", `{"type":"resource_link","uri":"x:y","name":"n"}`, ""),
		call("2024-11-05", `{"type":"audio","data":"AA==","mimeType":"audio/wav"}`, ""),
		{mcp.MethodGetPrompt, now, `{"description":null,"messages":[{"role":"user","content":{"type":"text","text":"t","annotations":null}}]}`, `{"messages":[{"role":"user","content":{"type":"text","text":"t"}}]}`},
		{mcp.MethodGetPrompt, now, `{"messages":[{"role":"user","content":{"type":"video"}}]}`, ""},
		{mcp.MethodReadResource, now, `{"contents":[{"uri":"x:y","text":"t","mimeType":null,"blob":null,"_meta":null}]}`, `{"contents":[{"uri":"x:y","text":"t"}]}`},
	}
}

// get returns the result as a client of the version gets it.
func (o oddResult) get(t *testing.T) (got string) {
	t.Helper()
	handle := func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		return forClient(r, json.RawMessage(o.raw)), nil
	}
	c := newStrictClient(t, o.version, mcpserver.Options{CallTool: handle, GetPrompt: handle, ReadResource: handle})
	params := `{"name":"a"}`
	if o.method == mcp.MethodReadResource {
		params = `{"uri":"x:y"}`
	}
	return c.do(t, o.method, params)
}

// What a client would reject of a result is left out or replaced.
func TestWrongResultsAreMended(t *testing.T) {
	t.Parallel()
	for _, o := range oddResults() {
		got := o.get(t)
		if o.version == mcp.ModernVersion {
			got, _, _ = strings.Cut(got, `,"resultType"`)
			got += "}"
		}
		if want := o.want; want != "" && got != want || want == "" && !strings.Contains(got, "[mcptrack left out content") {
			t.Errorf("%s %s is %s, want %s", o.version, o.raw, got, want)
		}
	}
}

// Each list and result, with one wrong member, is accepted by the official TypeScript SDKs.
func TestRealSchemasOfClients(t *testing.T) {
	t.Parallel()
	type check struct {
		Name   string          `json:"name"`
		Schema string          `json:"schema"`
		Value  json.RawMessage `json:"value"`
		Modern bool            `json:"modern"`
	}
	var all []check
	odd := append(oddItems(),
		oddItem{kind: catalog.Tools, raw: `{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{}}}`},
		oddItem{kind: catalog.Tools, raw: `{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"$ref":"#/$defs/A","$defs":{"A":{"type":"object"}}}}`})
	schemas := map[catalog.Kind]string{catalog.Tools: "ListToolsResult", catalog.Prompts: "ListPromptsResult", catalog.Resources: "ListResourcesResult", catalog.Templates: "ListResourceTemplatesResult", catalog.Skills: "ListSkillsResult"}
	for _, version := range []string{mcp.ModernVersion, mcp.LatestLegacy, "2025-06-18"} {
		unused := func(context.Context, *mcpserver.Request) (json.RawMessage, error) { return nil, mcpserver.ErrNotFound }
		c := newStrictClient(t, version, mcpserver.Options{CallTool: unused, GetPrompt: unused, ReadResource: unused, Extension: unused, Skills: true})
		c.Describe(mcpserver.Description{Extensions: map[string]json.RawMessage{mcp.ExtensionSkills: json.RawMessage(`{}`)}})
		for _, o := range odd {
			if o.kind == catalog.Skills && version != mcp.ModernVersion {
				continue // the SDK requires what only the modern era has
			}
			it := o.check(t)
			list := []json.RawMessage{it.as(it.key, "", false)}
			c.SetCatalog(map[catalog.Kind]mcpserver.Catalog{catalog.Tools: {Tools: list}, catalog.Prompts: {Prompts: list}, catalog.Resources: {Resources: list}, catalog.Templates: {Templates: list}, catalog.Skills: {Skills: list}}[o.kind])
			got := c.do(t, o.kind.Method(), "{}")
			if version < mcp.LatestLegacy && strings.Contains(got, `"sizes"`) {
				t.Errorf("%s: a client whose SDK requires that sizes are a string gets %s", version, got)
			}
			all = append(all, check{version + " " + o.raw, schemas[o.kind], json.RawMessage(got), version == mcp.ModernVersion})
		}
	}
	for _, o := range oddResults() {
		schema := map[string]string{mcp.MethodCallTool: "CallToolResult", mcp.MethodGetPrompt: "GetPromptResult", mcp.MethodReadResource: "ReadResourceResult"}[o.method]
		all = append(all, check{o.version + " " + o.raw, schema, json.RawMessage(o.get(t)), o.version == mcp.ModernVersion})
	}
	command := peertest.Script(t, "schemas.mjs")
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(encode(all))
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// strictClient is a client of one protocol version, without a connection.
type strictClient struct {
	*mcpserver.Server
	version, session string
}

func newStrictClient(t *testing.T, version string, opts mcpserver.Options) *strictClient {
	t.Helper()
	c := &strictClient{Server: mcpserver.New(opts), version: version}
	t.Cleanup(c.Close)
	if version != mcp.ModernVersion {
		c.session = c.post(t, mcp.MethodInitialize, `{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`).Header().Get(mcp.HeaderSession)
	}
	return c
}

func (c *strictClient) post(t *testing.T, method, params string) *httptest.ResponseRecorder {
	t.Helper()
	if c.version == mcp.ModernVersion {
		comma := ","
		if params == "{}" {
			comma = ""
		}
		params = strings.TrimSuffix(params, "}") + comma + `"_meta":{"` + mcp.MetaProtocolVersion + `":"` + c.version + `","` + mcp.MetaClientCapabilities + `":{}}}`
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	r.Header.Set("Content-Type", "application/json")
	if c.version == mcp.ModernVersion {
		r.Header.Set(mcp.HeaderProtocolVersion, c.version)
		r.Header.Set(mcp.HeaderMethod, method)
		r.Header.Set(mcp.HeaderName, map[bool]string{true: "x:y", false: "a"}[method == mcp.MethodReadResource])
	}
	if c.session != "" {
		r.Header.Set(mcp.HeaderSession, c.session)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// do returns the result of a request.
func (c *strictClient) do(t *testing.T, method, params string) string {
	t.Helper()
	body := c.post(t, method, params).Body.String()
	if _, data, ok := strings.Cut(body, "data: {"); ok { // the last event
		body, _, _ = strings.Cut("{"+data, "\n")
	}
	var answer struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Result == nil {
		t.Fatalf("%v: %s", err, body)
	}
	return string(answer.Result)
}
