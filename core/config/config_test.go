package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/lock"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// workspace is a folder with vars.env and home, which only the user can change, whatever the modes in
// this checkout are.
var workspace string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "config")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		workspace = filepath.Join(dir, "workspace")
		vars, err := os.ReadFile(filepath.Join("testdata", "vars.env"))
		if err := errors.Join(err, os.MkdirAll(filepath.Join(workspace, "home"), 0o700), os.WriteFile(filepath.Join(workspace, "vars.env"), vars, 0o600)); err != nil {
			panic(err)
		}
		for _, name := range []string{"go", "gofmt", "npx", "docker", "codex-tasks", "docs-server", "uvx", "sh"} {
			if err := errors.Join(os.MkdirAll(filepath.Join(workspace, "bin"), 0o700), os.WriteFile(filepath.Join(workspace, "bin", name), nil, 0o700)); err != nil {
				panic(err)
			}
		}
		return m.Run()
	}())
}

// surroundings are options that are the same on every machine: a few variables and commands, and the
// workspace.
func surroundings(_ testing.TB, variables map[string]string) Options {
	return Options{
		Getenv: func(name string) (string, bool) {
			if v, ok := variables[name]; ok || name != "PATH" {
				return v, ok
			}
			return filepath.Join(workspace, "bin"), true
		},
		Workspace: workspace,
		UserHome:  filepath.Join(workspace, "home"),
	}
}

// parsed returns the only server of a valid text.
func parsed(t testing.TB, text string, variables map[string]string) Server {
	t.Helper()
	c, problems := Parse([]byte(text), "test.json", surroundings(t, variables))
	if err := problems.Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if len(c.Servers) != 1 {
		t.Fatalf("%s: %d servers, want 1", text, len(c.Servers))
	}
	return c.Servers[0]
}

// TestGolden checks every problem of each file in testdata, with its position.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			must(t, err)
			c, problems := Parse(data, filepath.Base(file), surroundings(t, map[string]string{"TOKEN": "value"}))
			if (c == nil) != (problems.Errors() > 0) {
				t.Errorf("config %v with %d errors", c, problems.Errors())
			}
			var out strings.Builder
			for _, p := range problems {
				fmt.Fprintf(&out, "%s\n    %s %s\n", p, p.Code, p.Path)
				if p.Hint != "" {
					fmt.Fprintf(&out, "    hint: %s\n", p.Hint)
				}
			}
			for _, s := range c.Summaries() {
				fmt.Fprintf(&out, "%+v\n", s)
			}
			golden := strings.TrimSuffix(file, ".json") + ".golden"
			if *update {
				must(t, os.WriteFile(golden, []byte(out.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVibeChat loads the file of VibeChat unchanged.
func TestVibeChat(t *testing.T) {
	dir := t.TempDir()
	got := parsed(t, `{ "servers": [ { "id": "codex-tasks", "command": "codex-tasks", "args": ["mcp"],
	  "workingDirectory": "`+dir+`", "description": "Codex Tasks workflow", "enabled": true, "trackResources": true } ] }`, nil)
	want := Server{ID: "codex-tasks", Description: "Codex Tasks workflow", Enabled: true, Transport: TransportStdio,
		Program: Program{Command: "codex-tasks", Args: []string{"mcp"}, Dir: dir}, Tracking: Tracking{TrackResources: true, TrackTools: true, TrackPrompts: true, TrackSkills: true, Read: ReadDigest, Mode: ModeAuto, PollInterval: 30 * time.Second, SafetyInterval: 5 * time.Minute},
		Protocol: ProtocolAuto, RequestTimeout: 30 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	got := parsed(t, `{"servers":[{"id":"a","command":" go "}]}`, nil)
	want := Server{ID: "a", Enabled: true, Transport: TransportStdio, Program: Program{Command: "go", Dir: workspace},
		Tracking: Tracking{Read: ReadDigest, Mode: ModeAuto, PollInterval: DefaultPollInterval, SafetyInterval: DefaultSafetyInterval}, Protocol: ProtocolAuto, RequestTimeout: DefaultRequestTimeout}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryKey(t *testing.T) {
	stdio := parsed(t, `{"mcpServers":{"a":{"type":"stdio","command":"${CMD}","args":["-y","${env:PKG}@${V:-1}"],
	  "env":{"A":"${TOKEN}","N":8080,"B":"own","GONE":null},"envFile":"vars.env","cwd":"${workspaceFolder}/home",
	  "description":"d","enabled":false,"trackResources":true,"trackTools":false,"trackPrompts":true,"trackSkills":false,
	  "include":["file:///**"],"exclude":["**/*.tmp"],"protocol":"legacy","read":"none","mode":"poll","pollInterval":"1m30s","safetyInterval":"0",
	  "connectTimeout":"5s","requestTimeout":"250ms","shared":false,"lock":{"wording":"allow","L005":"block"},"pinContent":["file:///a/**"],
	  "onConnect":[{"tool":"login","arguments":{"key":"${TOKEN}","big":12345678901234567890,"deep":[{"x":true},null]}},{"tool":"b"}]}}}`,
		map[string]string{"CMD": "npx", "PKG": "pkg", "TOKEN": "s3cret"})
	if got := len(stdio.OnConnect); got != 2 {
		t.Fatalf("%d calls, want 2", got)
	}
	if got := fmt.Sprint(stdio.OnConnect[0].Arguments); got != "map[big:12345678901234567890 deep:[map[x:true] <nil>] key:s3cret]" {
		t.Errorf("arguments %s", got)
	}
	stdio.OnConnect = nil
	want := Server{ID: "a", Description: "d", Transport: TransportStdio, Program: Program{Command: "npx", Args: []string{"-y", "pkg@1"}, Env: map[string]Secret{"A": NewSecret("s3cret"), "N": NewSecret("8080"), "B": NewSecret("own"),
		"FROM_FILE": NewSecret("pa$$word ${TOKEN}")}, Dir: filepath.Join(workspace, "home")},

		Secrets:  []Secret{NewSecret("npx"), NewSecret("pkg"), NewSecret("s3cret")},
		Tracking: Tracking{TrackResources: true, TrackPrompts: true, Include: []string{"file:///**"}, Exclude: []string{"**/*.tmp"}, Read: ReadNone, Mode: ModePoll, PollInterval: 90 * time.Second, SafetyInterval: -1},

		Protocol: ProtocolLegacy, ConnectTimeout: 5 * time.Second, RequestTimeout: 250 * time.Millisecond, Sharing: NotShared,
		Locking: Locking{Lock: lock.Policy{"L002": lock.Allow, "L005": lock.Block}, PinContent: []string{"file:///a/**"}}}
	if diff := cmp.Diff(want, stdio); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTransports(t *testing.T) {
	for _, test := range []struct {
		keys     string
		want     Transport
		fallback bool
	}{
		{`"command":"go"`, TransportStdio, false},
		{`"url":"https://h/mcp"`, TransportHTTP, true},
		{`"serverUrl":"https://h/mcp"`, TransportHTTP, true},
		{`"httpUrl":"https://h/mcp"`, TransportHTTP, true},
		{`"url":"https://h/mcp","type":"http"`, TransportHTTP, false},
		{`"url":"https://h/mcp","type":"streamable-http"`, TransportHTTP, false},
		{`"url":"https://h/mcp","transport":"streamableHttp"`, TransportHTTP, false},
		{`"url":"https://h/sse","type":"sse"`, TransportSSE, false},
		{`"url":"https://h/mcp","serverUrl":"https://h/mcp"`, TransportHTTP, true},
	} {
		got := parsed(t, `{"servers":{"a":{`+test.keys+`}}}`, nil)
		if got.Transport != test.want || got.Fallback != test.fallback {
			t.Errorf("%s: %s, fallback %t", test.keys, got.Transport, got.Fallback)
		}
		if remote := got.Transport != TransportStdio; remote != (got.URL.Reveal() != "") || remote == (got.Dir != "") {
			t.Errorf("%s: url %q dir %q", test.keys, got.URL.Reveal(), got.Dir)
		}
	}
}

// The files of other clients cause no problem.
func TestForeignFilesAreQuiet(t *testing.T) {
	variables := map[string]string{"MCPTRACK_INPUT_API_KEY": "k"}
	for name, text := range map[string]string{
		"cursor": `{"mcpServers":{"a":{"command":"npx","args":["-y","x"],"autoApprove":["*"],"alwaysAllow":[],"disabled":false,"timeout":60}}}`,
		"gemini": `{"mcpServers":{"a":{"httpUrl":"https://h/mcp","trust":true,"includeTools":["a"],"excludeTools":[],"timeout":600000,"oauth":{"enabled":true}}}}`,
		"vscode": `{"inputs":[{"type":"promptString","id":"api-key","password":true}],
			"servers":{"a":{"type":"http","url":"https://h/mcp","headers":{"Authorization":"Bearer ${input:api-key}"},"gallery":true,"version":"1",},}, // done
		}`,
		"windsurf": `{"mcpServers":{"a":{"serverUrl":"https://h/mcp","disabledTools":["x"]}}}`,
		"bom":      "\ufeff{\"servers\":[]}",
		"comment":  "{\"servers\":[]} // no newline after this",
	} {
		if _, problems := Parse([]byte(text), name, surroundings(t, variables)); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestStrict(t *testing.T) {
	text := []byte(`{"servers":[{"id":"a","command":"go","argz":[]}]}`)
	opts := surroundings(t, nil)
	c, problems := Parse(text, "f", opts)
	if c == nil || problems.Warnings() != 1 || problems.Err() != nil {
		t.Errorf("lenient: %v, %v", c, problems)
	}
	opts.Strict = true
	c, problems = Parse(text, "f", opts)
	if c != nil || problems.Errors() != 1 || problems.Err() == nil || !problems.Has(CodeUnknownKey) {
		t.Errorf("strict: %v, %v", c, problems)
	}
}

func TestSelects(t *testing.T) {
	s := Server{Tracking: Tracking{Include: []string{"file:///docs/**", "note://*"}, Exclude: []string{"**/*.tmp"}}}
	for uri, want := range map[string]bool{"file:///docs/a/b.md": true, "file:///docs/a.tmp": false, "note://x": true, "note://x/y": false, "file:///etc": false} {
		if got := s.Selects(uri); got != want {
			t.Errorf("%s: %t", uri, got)
		}
	}
	if !(Server{}).Selects("any://thing") {
		t.Error("no globs must mean all")
	}
}

func TestEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:pw@h.example:8443/a%2Fb/mcp?key=1#frag": "https://h.example:8443/a%2Fb/mcp",
		"": "", "::": "", "http:opaque": "",
	} {
		if got := (Server{URL: NewSecret(in)}).Endpoint(); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	s := Server{URL: NewSecret("https://h.example/s/t%2Fk-1234/mcp"), Secrets: []Secret{NewSecret("t/k-1234"), NewSecret("mcp")}}
	if got := s.Endpoint(); got != "https://h.example/s/[secret]/mcp" {
		t.Errorf("%q", got)
	}
}

// TestEqualNoticesEveryField changes each field of a server in turn. A new field fails here until the
// map says whether it keeps the connection.
func TestEqualNoticesEveryField(t *testing.T) {
	keepsConnection := map[string]bool{
		"ID": false, "Description": true, "Enabled": false, "Transport": false, "Fallback": false,
		"Command": false, "Args": false, "Env": false, "Dir": false, "URL": false, "Headers": false, "OAuth": false, "Secrets": false, "Missing": false,
		"TrackResources": true, "TrackTools": true, "TrackPrompts": true, "TrackSkills": true, "Unasked": true, "Include": true, "Exclude": true,
		"Read": true, "Mode": true, "PollInterval": true, "SafetyInterval": true, "CatalogInterval": true, "OnConnect": false, "Events": true,
		"Lock": true, "PinContent": true,
		"Protocol": false, "ConnectTimeout": false, "RequestTimeout": true, "Sharing": true, "Idle": true, "Unapproved": false, "Superseded": true,
		"Tools": true, "MaxResult": true,
	}
	base := func() Server {
		return Server{ID: "a", Program: Program{Args: []string{"x"}, Env: map[string]Secret{"K": NewSecret("v")}}, URL: NewSecret("u"),
			Locking: Locking{Lock: lock.Policy{"L002": lock.Hold}, PinContent: []string{"p"}},
			Headers: map[string]Secret{"H": NewSecret("v")}, OAuth: OAuth{ClientID: "c"}, Secrets: []Secret{NewSecret("v")}, Missing: []string{"m"},
			Tracking: Tracking{Include: []string{"i"}, Exclude: []string{"e"}, PollInterval: time.Second, Events: Events{Types: []EventType{{Name: "t"}}},
				OnConnect: []ToolCall{{Tool: "t", Arguments: map[string]any{"k": []any{"v"}}}}}}
	}
	if !base().Equal(base()) || !base().SameConnection(base()) {
		t.Fatal("a server must equal itself")
	}
	fields := reflect.VisibleFields(reflect.TypeFor[Server]())
	fields = slices.DeleteFunc(fields, func(f reflect.StructField) bool { return f.Anonymous || f.Name == "Intent" }) // an Intent matters as far as other fields do
	if len(fields) != len(keepsConnection) {
		t.Errorf("Server has %d fields, %d are classified", len(fields), len(keepsConnection))
	}
	for _, field := range fields {
		name := field.Name
		keeps, classified := keepsConnection[name]
		if !classified {
			t.Errorf("%s: is a new connection needed when it changes?", name)
		}
		for what, value := range changes(t, reflect.ValueOf(base()).FieldByIndex(field.Index)) {
			changed := base()
			reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index).Set(value)
			if changed.Equal(base()) || base().Equal(changed) {
				t.Errorf("%s: Equal does not notice: %s", name, what)
			}
			if got := changed.SameConnection(base()); got != keeps {
				t.Errorf("%s: SameConnection is %t after: %s", name, got, what)
			}
		}
	}
}

// changes returns other values for a field.
func changes(t *testing.T, v reflect.Value) map[string]reflect.Value {
	t.Helper()
	out := map[string]reflect.Value{}
	add := func(what string, value any) { out[what] = reflect.ValueOf(value).Convert(v.Type()) }
	switch value := v.Interface().(type) {
	case bool:
		add("flip", !value)
	case int64:
		add("more", value+1)
	case map[string]Tool:
		add("another name", map[string]Tool{"a": {Name: "b"}})
	case Secret:
		add("other", NewSecret("changed"))
		add("emptied", Secret{})
	case string:
		add("other", value+"changed")
	case time.Duration:
		add("longer", value+1)
	case []Secret:
		add("other", []Secret{NewSecret("changed")})
		add("nil", []Secret(nil))
	case []string:
		add("element", []string{"changed"})
		add("longer", append(value, "more"))
		add("nil", []string(nil))
	case map[string]Secret:
		add("value", map[string]Secret{"K": NewSecret("changed"), "H": NewSecret("changed")})
		add("key", map[string]Secret{"changed": NewSecret("v")})
		add("nil", map[string]Secret(nil))
	case lock.Policy:
		add("weaker", lock.Policy{"L002": lock.Allow})
		add("longer", lock.Policy{"L002": lock.Hold, "L005": lock.Hold})
		add("nil", lock.Policy(nil))
	case OAuth:
		add("client", OAuth{ClientID: "changed"})
		add("secret", OAuth{ClientID: "c", ClientSecret: NewSecret("changed")})
		add("scopes", OAuth{ClientID: "c", Scopes: []string{"changed"}})
		add("nothing", OAuth{})
	case Events: // all but Off, which TestEventsOffNeedsAConnection has
		add("all", Events{All: true, Types: value.Types})
		add("type", Events{Types: []EventType{{Name: "changed"}}})
		add("nothing", Events{})
		add("delivery", Events{Types: value.Types, Delivery: DeliveryPoll})
	case []ToolCall:
		add("tool", []ToolCall{{Tool: "changed", Arguments: value[0].Arguments}})
		add("arguments", []ToolCall{{Tool: "t", Arguments: map[string]any{"k": []any{"w"}}}})
		add("no arguments", []ToolCall{{Tool: "t"}})
		add("nil", []ToolCall(nil))
	default:
		if v.Kind() != reflect.String {
			t.Fatalf("no change known for %s", v.Type())
		}
		add("text", fmt.Sprint(value)+"changed")
	}
	return out
}

// Whether events are followed is announced when the session begins.
func TestEventsOffNeedsAConnection(t *testing.T) {
	if off := (Server{Tracking: Tracking{Events: Events{Off: true}}}); off.SameConnection(Server{}) || off.Equal(Server{}) {
		t.Error("the connection stays")
	}
}

func TestNilAndEmptyAreEqual(t *testing.T) {
	full := Server{Program: Program{Args: []string{}, Env: map[string]Secret{}}, Headers: map[string]Secret{}, Tracking: Tracking{Include: []string{}, Exclude: []string{}, OnConnect: []ToolCall{}},
		Secrets: []Secret{}, Missing: []string{}}
	if !full.Equal(Server{}) {
		t.Error("nil and empty differ")
	}
	call := func(arguments map[string]any) Server {
		return Server{Tracking: Tracking{OnConnect: []ToolCall{{Tool: "t", Arguments: arguments}}}}
	}
	if !call(map[string]any{}).Equal(call(nil)) || !call(map[string]any{}).SameConnection(call(nil)) {
		t.Error("nil and empty arguments differ")
	}
}
