package commands

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHintsNameHost: a command that a hint gives reads the config of the same --host.
func TestHintsNameHost(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refuses.Close()
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := `{"mcpServers": {"notes": {"url": "` + refuses.URL + `/mcp"}}}`
	if err := os.WriteFile(filepath.Join(home, ".cursor", "mcp.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	b := newBench(t, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))
	b.server.SetQuietly("note:///a", "one")
	if code, _ := b.run(t, "--host", "cursor", "read", "notes", "other://b"); code != exitRefused || !strings.Contains(b.err.String(), "hint: mcptrack list --host cursor resources notes shows") {
		t.Errorf("read: exit %d\n%s", code, &b.err)
	}
	b.Dial = nil
	if _, out := b.run(t, "--host", "cursor", "list"); !strings.Contains(out, "run mcptrack login notes --host cursor") {
		t.Errorf("list: %s%s", out, &b.err)
	}
}
