package commands

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// TestLogNamesServer: a log line about a server, such as noise on its stdout, names the server.
func TestLogNamesServer(t *testing.T) {
	b := clitest.New(t, Main)
	dial := b.Dial
	b.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		opts.Logger.Warn("noise")
		return dial(ctx, srv, opts)
	}
	for _, args := range [][]string{{"list"}, {"read", "notes", "note://none"}} {
		b.Run(t, args...)
		if !strings.Contains(b.Stderr.String(), "msg=noise server=notes\n") {
			t.Errorf("%v logs:\n%s", args, &b.Stderr)
		}
	}
}

// A server that needs a login is NeedsAuth in JSON and "needs login" for people; the words and the
// names for one that cannot be reached differ from it.
func TestListNeedsAuth(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refusing.Close()
	file := filepath.Join(t.TempDir(), "servers.json")
	if err := os.WriteFile(file, []byte(`{"servers":[{"id":"gone","command":"`+file+`/none"},{"id":"private","url":"`+refusing.URL+`/mcp"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := clitest.New(t, Main)
	b.Dial = nil
	code, out := b.Run(t, "list", "--config", file, "-o", "template={{.id}} is {{.state}}")
	if code != cli.ExitUnreachable || out != "gone is Unconfigured\nprivate is NeedsAuth\n" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if _, out = b.Run(t, "list", "--config", file); !strings.Contains(out, "gone     not configured  ") || !strings.Contains(out, "private  needs login     ") {
		t.Errorf("the table is\n%s", out)
	}
}
