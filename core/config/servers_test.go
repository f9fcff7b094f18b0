package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestServers: servers made by a program are those of a config file with trackResources.
func TestServers(t *testing.T) {
	t.Parallel()
	cfg, problems := Parse([]byte(`{"servers": [
		{"id": "docs", "command": "docs-server", "args": ["--all", "now"], "trackResources": true},
		{"id": "web", "url": "https://user:secret@docs.example/mcp", "trackResources": true}
	]}`), "mcp-servers.json", Options{LookPath: func(name string) (string, error) { return name, nil }})
	if cfg == nil {
		t.Fatal(problems)
	}
	for i, got := range []Server{Stdio("docs", "docs-server", "--all", "now"), HTTP("web", "https://user:secret@docs.example/mcp")} {
		want := cfg.Servers[i]
		want.Unasked = true                                // a server that offers no resources is no problem
		want.Intent, want.Secrets, want.Dir = nil, nil, "" // what only a file has
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s:\n%s", got.ID, diff)
		}
	}
}
