package config

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
)

// What init writes for the servers of a host causes no warning about a key or a value.
func TestImportedKeysCauseNoWarnings(t *testing.T) {
	dir := t.TempDir()
	odd := write(t, filepath.Join(dir, ".cursor", "mcp.json"), `{"mcpServers": {
		"url": {"url": "https://h/", "args": ["x"], "env": {"A": "b"}, "cwd": ".", "envFile": ".env", "protocol": "http", "type": "proxy"},
		"program": {"command": "go", "oauth": {"clientId": "c"}, "scopes": ["a"], "catalogInterval": "5s", "mode": "server", "type": ""},
		"catalog": {"type": "catalog", "url": "https://h/", "include": ["a"], "read": "none"}}}`)
	files := hostFiles(t)
	files["odd"] = []string{odd}
	for host, paths := range files {
		for _, path := range paths {
			opts := ofHost(t, host)
			imported, problems := Import(path, opts, new(Names))
			if len(imported) == 0 {
				t.Errorf("%s: %v", path, problems)
			}
			var servers []Keys
			for _, srv := range imported {
				servers = append(servers, append(Keys{{"id", srv.ID}}, srv.Keys...))
			}
			text, err := json.Marshal(Keys{{"servers", servers}})
			if err != nil {
				t.Fatal(err)
			}
			cfg, problems := Parse(text, "f", opts)
			for _, p := range problems {
				if !slices.Contains([]Code{CodeUnset, CodeUnsetInput, CodeInsecureURL, CodeTransport}, p.Code) && filepath.Base(p.Path) != "redirectUri" {
					t.Errorf("%s: %v\n%s", path, p, text)
				}
			}
			if cfg == nil || len(cfg.Servers) != len(imported) {
				t.Errorf("%s: %s", path, text)
			}
		}
	}
}
