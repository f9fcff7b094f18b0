package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	for text, want := range map[string]Events{
		`"auto"`: {}, `"off"`: {Off: true}, `"all"`: {All: true}, `"${EVENTS}"`: {All: true}, `[]`: {}, `{}`: {}, `null`: {},
		`{"delivery":"poll"}`:               {Delivery: DeliveryPoll},
		`{"types":"all","delivery":"auto"}`: {All: true},
		`{"types":["a"],"delivery":"push"}`: {Types: []EventType{{Name: "a"}}, Delivery: DeliveryPush},
		`{"delivery":"webhook"}`:            {Delivery: DeliveryWebhook},
		`["build.done",{"name":"page.changed","arguments":{"space":"${SPACE}","big":12345678901234567890},"uri":"/url"},{"name":"n","uri":"wiki://{id}"}]`: {Types: []EventType{
			{Name: "build.done"}, {Name: "page.changed", Arguments: json.RawMessage(`{"big":12345678901234567890,"space":"s3cret"}`), URI: "/url"}, {Name: "n", URI: "wiki://{id}"}}},
	} {
		got := parsed(t, `{"servers":[{"id":"a","command":"go","events":`+text+`}]}`, map[string]string{"EVENTS": "all", "SPACE": "s3cret"})
		if diff := cmp.Diff(want, got.Events); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if strings.Contains(text, "SPACE") && (len(got.Secrets) != 1 || got.Secrets[0].Reveal() != "s3cret") {
			t.Errorf("%s: %d secrets", text, len(got.Secrets))
		}
	}
}

func TestEventProblems(t *testing.T) {
	for text, want := range map[string]Code{
		`"some"`: CodeValue, `7`: CodeType, `true`: CodeType, `[7]`: CodeType, `[""]`: CodeValue, `[{}]`: CodeMissing, `[{"name":7}]`: CodeType,
		`[{"name":""}]`: CodeValue, `[{"name":"a","arguments":[]}]`: CodeType, `[{"name":"a","uri":7}]`: CodeType, `[{"name":"a","uri":"url"}]`: CodeValue,
		`{"delivery":"pigeon"}`: CodeValue, `{"delivery":7}`: CodeType, `{"types":7}`: CodeType, `{"type":"all"}`: CodeUnknownKey, `[{"name":"a","url":"/x"}]`: CodeUnknownKey,
		`[` + strings.Repeat(`"a",`, 100) + `"a"]`: CodeRange,
	} {
		_, problems := Parse([]byte(`{"servers":[{"id":"a","command":"go","events":`+text+`}]}`), "f", surroundings(t, nil))
		if len(problems) != 1 || problems[0].Code != want || !strings.HasPrefix(problems[0].Path, "/servers/0/events") {
			t.Errorf("%.60s: %v, want %s", text, problems, want)
		}
	}
}

func TestCatalog(t *testing.T) {
	got := parsed(t, `{"mcpServers":{"portal":{"type":"catalog","url":"https://h.example/base/","description":"d",
	  "headers":{"X-Key":"${KEY}"},"catalogInterval":"1m","requestTimeout":"5s"}}}`, map[string]string{"KEY": "s3cret"})
	want := Server{ID: "portal", Description: "d", Enabled: true, Transport: TransportCatalog,
		URL: NewSecret("https://h.example/base/"), Headers: map[string]Secret{"X-Key": NewSecret("s3cret")}, Secrets: []Secret{NewSecret("s3cret")},
		Tracking: Tracking{Read: ReadNone, Mode: ModeAuto}, CatalogInterval: time.Minute, Protocol: ProtocolAuto, RequestTimeout: 5 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parsed(t, `{"servers":[{"id":"p","transport":"catalog","url":"https://h/"}]}`, nil); got.CatalogInterval != DefaultCatalogInterval {
		t.Errorf("interval %s by default", got.CatalogInterval)
	}
	if got := parsed(t, `{"servers":[{"id":"p","url":"https://h/"}]}`, nil); got.CatalogInterval != 0 {
		t.Errorf("interval %s without a catalog", got.CatalogInterval)
	}
}

// In a host's file in which no server says what to track, all servers are tracked; in a file that
// may be mcptrack's own, none.
func TestTracksAll(t *testing.T) {
	const servers = `{"a": {"command": "go"}, "off": {"command": "go", "disabled": true}, "api": {"type": "catalog", "url": "https://h/"}}`
	const ours, list = `{"mcpServers": ` + servers + `}`, `{"servers": [{"id": "a", "command": "go"}]}`
	for _, test := range []struct {
		path, text string
		all        bool
	}{
		{".mcp.json", ours, true},
		{"sub/.cursor/mcp.json", ours, true},
		{".vscode/mcp.json", `{"servers": ` + servers + `}`, true},
		{"/home/u/.config/Claude/claude_desktop_config.json", ours, true},
		{"mcp-servers.json", ours, false},
		{"config/mcp-servers.json", list, false},
		{"cursor/mcp.json", ours, false},
		{"mcp.json", ours, false},
		{"", ours, false},
		// forms that only hosts write
		{"x.json", `{"context_servers": ` + servers + `}`, true},
		{"x.json", `{"mcp": {"servers": ` + servers + `}}`, true},
		{"x.json", servers, true},
		{"x.toml", "[mcp_servers.a]\ncommand = 'go'\n", true},
		{"x.yaml", "mcpServers:\n- {name: a, command: go}\n", true},
		// one key of one server, also with the value false, is a choice
		{".mcp.json", `{"mcpServers": {"a": {"command": "go", "trackResources": false}, "b": {"command": "go"}}}`, false},
		{".mcp.json", `{"mcpServers": {"a": {"command": "go"}, "b": {"command": "go", "trackPrompts": true}}}`, false},
		{".mcp.json", `{"mcpServers": {"a": {"command": "go"}, "b": {"command": "go", "disabled": true, "trackTools": true}}}`, false},
	} {
		c, problems := Parse([]byte(test.text), test.path, surroundings(t, nil))
		if err := problems.Err(); err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		a, _ := c.Server("a")
		if c.TracksAll != test.all || a.Unasked != test.all || a.TrackResources != test.all || a.TrackTools != test.all {
			t.Errorf("%s %s: all are tracked: %t, %+v", test.path, test.text, c.TracksAll, a.Tracking)
		}
		if api, _ := c.Server("api"); api.Tracked() || api.Unasked {
			t.Errorf("%s: a catalog is tracked", test.path)
		}
		if off, _ := c.Server("off"); off.Tracked() {
			t.Errorf("%s: a disabled server is tracked", test.path)
		}
	}
}

// A catalog is not tracked, whatever its entry says.
func TestCatalogIsNotTracked(t *testing.T) {
	c, problems := Parse([]byte(`{"servers":[{"id":"p","type":"catalog","url":"https://h/","trackResources":true,"trackTools":true,
	  "include":["a://*"],"onConnect":[{"tool":"x"}],"mode":"poll","pollInterval":"1s","safetyInterval":"0","protocol":"modern"}]}`), "f", surroundings(t, nil))
	must(t, problems.Err())
	if s := c.Servers[0]; s.Tracked() || c.Tracked() != 0 || len(s.OnConnect)+len(s.Include) != 0 {
		t.Errorf("%+v", s)
	}
	var paths []string
	for _, p := range problems {
		if p.Code != CodeIneffective {
			t.Errorf("%v", p)
		}
		paths = append(paths, strings.TrimPrefix(p.Path, "/servers/0/"))
	}
	if got := strings.Join(paths, " "); got != "trackResources trackTools include onConnect mode pollInterval safetyInterval protocol" {
		t.Errorf("warned of %s", got)
	}
}

func TestCatalogProblems(t *testing.T) {
	for keys, want := range map[string]Code{
		`"type":"catalog","url":"https://h"`:                                "",
		`"type":"catalog","url":"https://user:${V}@h/x","trackTools":false`: "",
		`"type":"catalog"`:                                                                 CodeMissing,
		`"type":"catalog","command":"go"`:                                                  CodeConflict,
		`"type":"catalog","url":"https://h/?key=${V}"`:                                     CodeURL,
		`"type":"catalog","url":"https://h/?"`:                                             CodeURL,
		`"type":"catalog","url":"https://h/#x"`:                                            CodeURL,
		`"type":"catalog","url":"https://h/","catalogInterval":"10ms"`:                     CodeRange,
		`"type":"catalog","url":"https://h/","catalogInterval":30`:                         CodeType,
		`"type":"catalog","url":"https://h/","catalogInterval":"30"`:                       CodeDuration,
		`"type":"catalog","url":"https://h/","args":["x"]`:                                 CodeIneffective,
		`"type":"http","url":"https://h/","catalogInterval":"30s"`:                         CodeIneffective,
		`"command":"go","catalogInterval":"30s"`:                                           CodeIneffective,
		`"type":"catalog","url":"http://h.example/"`:                                       CodeInsecureURL,
		`"type":"catalogue","url":"https://h/"`:                                            CodeForeign,
		`"type":"catalog","url":"https://h/","connectTimeout":"1s"`:                        CodeIneffective,
		`"type":"catalog","url":"https://h/","headers":{"Authorization":"Bearer hunter2"}`: CodeSecret,
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{`+keys+`}}}`), "f", surroundings(t, map[string]string{"V": "v"}))
		if want == "" && len(problems) > 0 || want != "" && !(len(problems) == 1 && problems[0].Code == want) {
			t.Errorf("%s: %v, want %q", keys, problems, want)
		}
	}
}
