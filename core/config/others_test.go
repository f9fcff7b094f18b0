package config

import (
	"slices"
	"testing"
)

// Files as people have them: what concerns one server hurts no other, and what a host
// keeps elsewhere in the file is found.
func TestFilesOfOthers(t *testing.T) {
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
		{"x.code-workspace", `{"folders": [], "settings": {"mcp": {"servers": {` + other + `}}}}`, []string{"b stdio cmd=go"}, 1},
		{"devcontainer.json", `{"image": "x", "customizations": {"vscode": {"mcp": {"servers": {` + other + `}}}}}`, []string{"b stdio cmd=go"}, 1},
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
		opts.LookPath = func(string) (string, error) { return "", nil }
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

// What is not a config says what to do.
func TestHintsForWhatIsNoConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"command": "go", "args": []}`:              `give the server a name: {"mcpServers": {"NAME": {…}}}`,
		`{"x": {"command": "go"}, "y": 1}`:           `wrap the servers: {"mcpServers": {…}}`,
		`"mcpServers": {}`:                           "put { before the first key and } after the last one",
		"```json\n{\"mcpServers\": {}}\n```":         "remove the Markdown around the JSON, such as ```json",
		`{"mcpServer": {"a": {"command": "go"}}}`:    `did you mean "mcpServers"?`,
		`{"mcpServers": {"a": {"workDir": "/tmp"}}}`: `did you mean "cwd"?`,
	} {
		_, problems := Parse([]byte(text), "f.json", surroundings(t, nil))
		if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Hint == want }) {
			t.Errorf("%s: %#v, want %s", text, problems, want)
		}
	}
}
