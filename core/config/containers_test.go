package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// brief returns a server in one line: how it is reached, with every value revealed.
func brief(s Server) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	pairs := func(m map[string]Secret) string {
		var out []string
		for _, name := range slices.Sorted(maps.Keys(m)) {
			out = append(out, name+":"+m[name].Reveal())
		}
		return strings.Join(out, ",")
	}
	transport := string(s.Transport)
	if s.Fallback {
		transport += "?"
	}
	parts = append(parts, s.ID, transport)
	add("cmd", strings.Join(append([]string{s.Command}, s.Args...), " "))
	add("env", pairs(s.Env))
	add("url", s.URL.Reveal())
	add("headers", pairs(s.Headers))
	if !s.Enabled {
		parts = append(parts, "disabled")
	}
	if s.TrackResources && !s.Unasked {
		parts = append(parts, "tracked")
	}
	return strings.Join(parts, " ")
}

// Every host's own format is read, with our keys beside the host's.
func TestHostFormats(t *testing.T) {
	variables := map[string]string{"KEY": "k", "HOST_KEY": "h"}
	for name, test := range map[string]struct {
		file, text string
		want       []string
		problems   int
	}{
		"claude code": {".mcp.json", `{"mcpServers": {"docs": {"type": "stdio", "command": "docs-server", "args": ["mcp"], "env": {"K": "${KEY}"}, "trackResources": true},
			"web": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${KEY:-none}"}}}}`,
			[]string{"docs stdio cmd=docs-server mcp env=K:k tracked", "web http url=https://h/mcp headers=Authorization:Bearer k"}, 0},
		"claude code plugin": {".mcp.json", `{"$schema": "x", "_note": "y", "docs": {"command": "docs-server"}, "web": {"type": "sse", "url": "https://h/sse"}}`,
			[]string{"docs stdio cmd=docs-server", "web sse url=https://h/sse"}, 0},
		"claude code projects": {".claude.json", `{"numStartups": 3, "mcpServers": {"both": {"command": "go"}, "user": {"command": "go"}},
			"projects": {"/elsewhere": {"mcpServers": {"other": {"command": "go"}}}, "` + workspace + `": {"allowedTools": [], "mcpServers": {"both": {"command": "npx"}}}}}`,
			[]string{"both stdio cmd=npx", "user stdio cmd=go"}, 0},
		"claude desktop": {"claude_desktop_config.json", `{"globalShortcut": "x", "mcpServers": {"docs": {"command": "docs-server"}}}`,
			[]string{"docs stdio cmd=docs-server"}, 1},
		"cursor": {".cursor/mcp.json", `{"mcpServers": {"docs": {"command": "docs-server", "env": {"K": "${env:KEY}"}, "args": ["${workspaceFolderBasename}${/}x"]}, "web": {"url": "https://h/mcp"}}}`,
			[]string{"docs stdio cmd=docs-server workspace" + string(filepath.Separator) + "x env=K:k", "web http? url=https://h/mcp"}, 0},
		"vscode": {".vscode/mcp.json", `{"inputs": [{"id": "key", "type": "promptString"}], "servers": {"web": {"type": "http", "url": "https://h/mcp"}, "docs": {"type": "stdio", "command": "docs-server", "cwd": "${workspaceFolder}"}}}`,
			[]string{"web http url=https://h/mcp", "docs stdio cmd=docs-server"}, 0},
		"vscode settings": {".vscode/settings.json", `{"editor.fontSize": 12, "files.exclude": {}, "mcp": {"inputs": [], "servers": {"docs": {"command": "docs-server"}}}}`,
			[]string{"docs stdio cmd=docs-server"}, 0},
		"windsurf": {"mcp_config.json", `{"mcpServers": {"web": {"serverUrl": "https://h/mcp"}}}`, []string{"web http? url=https://h/mcp"}, 0},
		"roo":      {".roo/mcp.json", `{"mcpServers": {"web": {"type": "streamable-http", "url": "https://h/mcp", "alwaysAllow": ["a"], "disabled": true}}}`, []string{"web http url=https://h/mcp disabled"}, 0},
		"cline":    {"cline_mcp_settings.json", `{"mcpServers": {"web": {"type": "streamableHttp", "url": "https://h/mcp", "autoApprove": [], "timeout": 60}}}`, []string{"web http url=https://h/mcp"}, 0},
		"kiro":     {".kiro/settings/mcp.json", `{"mcpServers": {"docs": {"command": "uvx", "args": ["x@latest"], "disabled": false, "autoApprove": []}}}`, []string{"docs stdio cmd=uvx x@latest"}, 0},
		"gemini":   {".gemini/settings.json", `{"theme": "x", "mcp": {"allowed": ["docs", "web"]}, "mcpServers": {"docs": {"command": "docs-server", "trust": true}, "web": {"httpUrl": "https://h/mcp"}}}`, []string{"docs stdio cmd=docs-server", "web http? url=https://h/mcp"}, 0},
		"copilot":  {"mcp-config.json", `{"mcpServers": {"docs": {"type": "local", "command": "docs-server", "args": [], "tools": ["*"]}}}`, []string{"docs stdio cmd=docs-server"}, 0},
		"zed": {".zed/settings.json", "{\n// comment\n\"theme\": \"x\", \"context_servers\": {\"docs\": {\"source\": \"custom\", \"command\": \"docs-server\", \"args\": [\"a\"], \"env\": {}}," +
			"\"old\": {\"command\": {\"path\": \"docs-server\", \"args\": [\"b\"], \"env\": {\"A\": \"1\"}}, \"settings\": {}}, \"ext\": {\"source\": \"extension\", \"settings\": {}}, \"web\": {\"url\": \"https://h/mcp\"}}}",
			[]string{"docs stdio cmd=docs-server a", "old stdio cmd=docs-server b env=A:1", "web http? url=https://h/mcp"}, 0},
		"opencode": {"opencode.json", `{"$schema": "https://opencode.ai/config.json", "model": "x", "mcp": {"docs": {"type": "local", "command": ["docs-server", "mcp"], "environment": {"K": "{env:KEY}"}, "enabled": true},
			"web": {"type": "remote", "url": "https://h/mcp", "headers": {"X": "{env:KEY}"}, "enabled": false}}}`,
			[]string{"docs stdio cmd=docs-server mcp env=K:k", "web http? url=https://h/mcp headers=X:k disabled"}, 0},
		"crush": {"crush.json", `{"lsp": {}, "mcp": {"docs": {"type": "stdio", "command": "docs-server"}, "web": {"type": "http", "url": "https://h/mcp", "disabled": true}}}`,
			[]string{"docs stdio cmd=docs-server", "web http url=https://h/mcp disabled"}, 0},
		"amp": {".amp/settings.json", `{"amp.permissions": [], "amp.mcpServers": {"docs": {"command": "docs-server", "env": {"K": "${KEY}"}}}}`, []string{"docs stdio cmd=docs-server env=K:k"}, 0},
		"amp in vscode": {".vscode/settings.json", `{"mcp": {"servers": {"docs": {"command": "docs-server"}}}, "amp.mcpServers": {"web": {"url": "https://h/mcp"}}}`,
			[]string{"docs stdio cmd=docs-server"}, 0},
		"kimi": {".kimi-code/mcp.json", `{"mcpServers": {"web": {"url": "https://h/mcp", "bearerTokenEnvVar": "KEY", "enabled": false}}}`,
			[]string{"web http? url=https://h/mcp headers=Authorization:Bearer k disabled"}, 0},
		"mistral vibe": {"config.toml", `[[mcp_servers]]
name = "docs"
transport = "stdio"
command = "docs-server"

[mcp_servers.env]
A = "1"

[[mcp_servers]]
name = "web"
transport = "streamable-http"
url = "https://h/mcp"
headers = { X-Key = "${KEY}" }
api_key_env = "HOST_KEY"
api_key_header = "x-key"

[[mcp_servers]]
name = "key"
transport = "http"
url = "https://h/mcp"
auth = { type = "static", headers = { X-A = "b" }, api_key_env = "KEY", api_key_header = "X-Key", api_key_format = "Key {token}" }
`, []string{"docs stdio cmd=docs-server env=A:1", "web http url=https://h/mcp headers=X-Key:k", "key http url=https://h/mcp headers=X-A:b,X-Key:Key k"}, 0},
		"codex": {"config.toml", `model = "x"

[mcp_servers.docs]
command = "docs-server"
args = ["mcp"]
env_vars = ["KEY", "UNSET", {name = "HOST_KEY", source = "local"}]
startup_timeout_sec = 20
trackResources = true

[mcp_servers.docs.env]
A = "1"

[mcp_servers."my web"]
url = "https://h/mcp"
bearer_token_env_var = "KEY"
http_headers = { X-A = "b" }
env_http_headers = { X-B = "HOST_KEY" }
enabled = false
`, []string{"docs stdio cmd=docs-server mcp env=A:1,HOST_KEY:h,KEY:k tracked", "my web http? url=https://h/mcp headers=Authorization:Bearer k,X-A:b,X-B:h disabled"}, 0},
		"goose": {"config.yaml", `GOOSE_MODEL: x
extensions:
  developer:
    type: builtin
    enabled: true
  docs:
    type: stdio
    cmd: docs-server
    args: [mcp]
    envs: {A: "1"}
    env_keys: [KEY]
    enabled: true
    timeout: 300
    trackResources: true
  web:
    type: streamable_http
    uri: https://h/mcp
    enabled: false
`, []string{"docs stdio cmd=docs-server mcp env=A:1,KEY:k tracked", "web http url=https://h/mcp disabled"}, 0},
		"continue": {"servers.yaml", `name: mine
version: 0.0.1
schema: v1
mcpServers:
  - name: docs
    command: docs-server
    args:
      - mcp
    env:
      K: ${{ secrets.KEY }}
  - name: web
    type: streamable-http
    url: https://h/mcp
    requestOptions:
      headers: {X: "1"}
`, []string{"docs stdio cmd=docs-server mcp env=K:k", "web http url=https://h/mcp headers=X:1"}, 0},
	} {
		c, problems := Parse([]byte(test.text), test.file, surroundings(t, variables))
		if c == nil || len(problems) != test.problems {
			t.Errorf("%s: %d problems, want %d: %v", name, len(problems), test.problems, problems)
			continue
		}
		var got []string
		for _, s := range c.Servers {
			got = append(got, brief(s))
		}
		if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s:\n got %q\nwant %q", name, got, test.want)
		}
	}
}

// An entry for an extension of Zed has only settings. It is skipped with a warning, and the other
// servers are read.
func TestZedExtensions(t *testing.T) {
	for _, keys := range []string{`"settings":{"a":1}`, `"source":"custom","settings":{}`, `"enabled":true`, ``} {
		text := `{"context_servers":{"ext":{` + keys + `},"docs":{"command":"go"}}}`
		c, problems := Parse([]byte(text), ".zed/settings.json", surroundings(t, nil))
		if c == nil || len(c.Servers) != 1 || c.Servers[0].ID != "docs" || len(problems) != 1 || problems[0].Code != CodeUnsupported {
			t.Errorf("%s: %v", keys, problems)
		}
	}
	if c, _ := Parse([]byte(`{"mcpServers":{"ext":{"settings":{}}}}`), "f", surroundings(t, nil)); c != nil {
		t.Error("accepted in a file that is not Zed's")
	}
	if c, _ := Parse([]byte(`{"context_servers":{"ext":{"command":1}}}`), "f", surroundings(t, nil)); c.Servers[0].Unconfigured() == nil {
		t.Error("a command that is a number is accepted")
	}
}

// A host's settings file may have no servers; any other file must have a place for them.
func TestSettingsWithoutServers(t *testing.T) {
	for file, want := range map[string]bool{".gemini/settings.json": true, "/home/me/.codex/config.toml": true, "mcp.json": false, "settings.json": false} {
		text := `{"theme": "dark"}`
		if strings.HasSuffix(file, ".toml") {
			text = `model = "x"`
		}
		if c, problems := Parse([]byte(text), file, surroundings(t, nil)); (c != nil) != want {
			t.Errorf("%s: %v", file, problems)
		}
	}
}

// Problems are the same in every format.
func TestProblemsInEveryFormat(t *testing.T) {
	for file, text := range map[string]string{
		"f.json": "{\"mcpServers\": {\n  \"docs\": {\"command\": \"go\",\n    \"trackResources\": \"yes\"}}}",
		"f.toml": "[mcpServers.docs]\ncommand = \"go\"\ntrackResources = \"yes\"\n",
		"f.yaml": "mcpServers:\n  docs: {command: go,\n    trackResources: \"yes\"}\n",
	} {
		_, problems := Parse([]byte(text), file, surroundings(t, nil))
		if len(problems) != 1 || problems[0].Line != 3 || problems[0].Path != "/mcpServers/docs/trackResources" ||
			problems[0].Message != `Server "docs" has invalid "trackResources"; expected boolean` {
			t.Errorf("%s: %+v", file, problems)
		}
	}
}

func TestTypeNames(t *testing.T) {
	for name, want := range map[string]Transport{"STDIO": TransportStdio, "Local": TransportStdio} {
		if got := parsed(t, `{"servers":{"a":{"type":"`+name+`","command":"go"}}}`, nil); got.Transport != want {
			t.Errorf("%s: %s", name, got.Transport)
		}
	}
	for name, want := range map[string]Transport{"HTTP": TransportHTTP, "remote": TransportHTTP, "streamable_http": TransportHTTP,
		"streamablehttp": TransportHTTP, "StreamableHTTP": TransportHTTP, "SSE": TransportSSE} {
		got := parsed(t, `{"servers":{"a":{"type":"`+name+`","url":"https://h/"}}}`, nil)
		if got.Transport != want || got.Fallback != (name == "remote") {
			t.Errorf("%s: %s, fallback %t", name, got.Transport, got.Fallback)
		}
	}
	c, problems := Parse([]byte(`{"servers":{"a":{"type":"ws","url":"wss://h/"},"b":{"command":"go"}}}`), "f", surroundings(t, nil))
	if c == nil || c.Servers[0].Unconfigured() == nil {
		t.Errorf("websocket refuses the file: %v", problems)
	}
}

func TestUnsupportedKeys(t *testing.T) {
	_, problems := Parse([]byte(`{"servers":{"a":{"url":"https://h/","headersHelper":"./token.sh"}}}`), "f", surroundings(t, nil))
	if len(problems) != 1 || problems[0].Code != CodeUnsupported || !strings.Contains(problems[0].Message, `"headersHelper" is not supported`) {
		t.Errorf("%v", problems)
	}
}

// Unknown keys beside the servers cause a warning each, unless they are a host's.
func TestUnknownRootKeys(t *testing.T) {
	_, problems := Parse([]byte(`{"servers":[],"_a":1,"$schema":"x","theme":1,"model":2,"inputz":[]}`), "f", surroundings(t, nil))
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%s|%s", p.Message, p.Hint))
	}
	want := []string{`Config at f has unknown key "theme"|`, `Config at f has unknown key "model"|`, `Config at f has unknown key "inputz"|did you mean "inputs"?`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Files of other hosts: a problem of one server does not affect others, and servers are found
// wherever a host keeps them.
func TestFilesOfHosts(t *testing.T) {
	const other = `"b": {"command": "go"}`
	for _, test := range []struct {
		name, text string
		want       []string
		warnings   int
	}{
		// servers that only their host can reach
		{"f.json", `{"mcpServers": {"a": {"type": "sdk", "name": "a"}, ` + other + `}}`, []string{"b stdio cmd=go"}, 0},
		{"f.json", `{"mcpServers": {"a": {"type": "claudeai-proxy", "url": "https://h/", "id": "x"}, ` + other + `}}`, []string{"b stdio cmd=go"}, 0},
		{"f.json", `{"mcpServers": {"a": {"type": "inMemory", "baseUrl": ""}, ` + other + `}}`, []string{"b stdio cmd=go"}, 0},
		{"c.yaml", "mcpServers:\n  - uses: org/block\n  - {name: b, command: go}\n", []string{"b stdio cmd=go"}, 1},
		{"f.json", `{"mcpServers": {"a": {"tcp": "ws://h:1"}, ` + other + `}}`, []string{"a http?", "b stdio cmd=go"}, 1},
		// other words for the types
		{"f.json", `{"mcpServers": {"a": {"type": "command", "command": "go"}, "b": {"transport": "http_stream", "url": "https://h/"}}}`, []string{"a stdio cmd=go", "b http url=https://h/"}, 0},
		{"f.json", `{"mcpServers": {"a": {"type": "streamable", "url": "https://h/"}, "b": {"type": "http-sse", "url": "https://h/"}}}`, []string{"a http url=https://h/", "b sse url=https://h/"}, 0},
		// elsewhere in the file
		{"f.json", `{"mcp": {"mcpServers": {` + other + `}}}`, []string{"b stdio cmd=go"}, 0},
		{"x.code-workspace", `{"folders": [], "settings": {"mcp": {"servers": {` + other + `}}}}`, []string{"b stdio cmd=go"}, 0},
		{"devcontainer.json", `{"image": "x", "customizations": {"vscode": {"mcp": {"servers": {` + other + `}}}}}`, []string{"b stdio cmd=go"}, 0},
		// switched off
		{"opencode.json", `{"mcp": {"a": {"enabled": false}, "b": {"type": "local", "command": ["go"]}}}`, []string{"a stdio disabled", "b stdio cmd=go"}, 0},
		{".claude.json", `{"mcpServers": {"a": {"command": "go"}, ` + other + `}, "projects": {"/": {"disabledMcpServers": ["a"]}}}`, []string{"a stdio cmd=go disabled", "b stdio cmd=go"}, 0},
		{".gemini/settings.json", `{"mcpServers": {"a": {"command": "go"}, ` + other + `}, "mcp": {"excluded": ["a"]}}`, []string{"a stdio cmd=go disabled", "b stdio cmd=go"}, 0},
		{".gemini/settings.json", `{"mcpServers": {"a": {"command": "go"}, ` + other + `}, "mcp": {"allowed": ["b"]}}`, []string{"a stdio cmd=go disabled", "b stdio cmd=go"}, 0},
		// containers that read their standard input
		{"f.json", `{"mcpServers": {"a": {"command": "docker", "args": ["mcp", "gateway", "run"]}, "b": {"command": "docker", "args": ["compose", "run", "--rm", "x"]}}}`,
			[]string{"a stdio cmd=docker mcp gateway run", "b stdio cmd=docker compose run --rm x"}, 0},
		{"f.json", `{"mcpServers": {"a": {"command": "docker", "args": ["container", "run", "--rm", "x"]}}}`, []string{"a stdio cmd=docker container run --rm x"}, 1},
	} {
		opts := surroundings(t, nil)
		c, problems := Parse([]byte(test.text), test.name, opts)
		var got []string
		if c != nil {
			for _, s := range c.Servers {
				got = append(got, brief(s))
			}
		}
		if !slices.Equal(got, test.want) || problems.Warnings() != test.warnings {
			t.Errorf("%s\n got %q %v\nwant %q, %d warnings", test.text, got, problems, test.want, test.warnings)
		}
	}
}

// A file that is not a config has a hint.
func TestHintsForOtherFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{"command": "go", "args": []}`:              `give the server a name: {"mcpServers": {"NAME": {…}}}`,
		`{"x": {"command": "go"}, "y": 1}`:           `wrap the servers: {"mcpServers": {…}}`,
		`{"mcpServer": {"a": {"command": "go"}}}`:    `did you mean "mcpServers"?`,
		`{"mcpServers": {"a": {"workDir": "/tmp"}}}`: `did you mean "cwd"?`,
	} {
		_, problems := Parse([]byte(text), "f.json", surroundings(t, nil))
		if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Hint == want }) {
			t.Errorf("%s: %#v, want %s", text, problems, want)
		}
	}
}
