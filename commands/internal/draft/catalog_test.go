package draft

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
)

// A catalog has nothing to follow; servers do. What cannot be read is named.
func TestHostsServers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".cursor", "mcp.json")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"mcpServers":{"api":{"type":"catalog","url":"https://h/"},"web":{"url":"https://h/mcp"},"bad":{"command":5}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := New()
	d.AddHosts(config.Options{Workspace: dir, UserHome: dir, Getenv: func(string) (string, bool) { return "", false }}, "", "cursor")
	text, err := d.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), `{"servers":[{"id":"api","type":"catalog","url":"https://h/"},{"id":"web","url":"https://h/mcp","trackResources":true}]}`; got != want {
		t.Errorf("%s", got)
	}
	if s := d.Sources[0]; s.Valid || strings.Join(s.Servers, " ") != "api web" || len(s.Refused) != 1 || !strings.Contains(s.Refused[0], `Server "bad"`) {
		t.Errorf("%+v", s)
	}
}
