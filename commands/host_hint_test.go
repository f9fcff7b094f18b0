package commands

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// A hint with a command repeats --host, so that the command reads the same config.
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
	b := clitest.New(t, Main, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))
	b.Server.SetQuietly("note:///a", "one")
	if code, _ := b.Run(t, "--host", "cursor", "read", "notes", "other://b"); code != cli.ExitRefused || !strings.Contains(b.Stderr.String(), "hint: mcptrack list --host cursor resources notes shows") {
		t.Errorf("read: exit %d\n%s", code, &b.Stderr)
	}
	b.Dial = nil
	if _, out := b.Run(t, "--host", "cursor", "list"); !strings.Contains(out, "run mcptrack login notes --host cursor") {
		t.Errorf("list: %s%s", out, &b.Stderr)
	}
}
