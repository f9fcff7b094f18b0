//go:build unix

package commands

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// hostConfig writes a config of a host: by id, the arguments of mcptrack-attach.
func hostConfig(t *testing.T, entries map[string]string) (file string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "mcptrack-attach")
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	servers := map[string]any{}
	for id, of := range entries {
		servers[id] = map[string]any{"command": program, "args": strings.Fields(of)}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "host.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Commands show the server behind an entry that runs mcptrack attach as if its own config was used.
func TestCommandsLookThroughAttachedEntries(t *testing.T) {
	t.Parallel()
	b := clitest.New(t, Main)
	dial := b.Dial
	b.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		if srv.Attaches() {
			t.Errorf("the command connects to the entry %s", srv.ID)
		}
		return dial(ctx, srv, opts)
	}
	b.Server.Fail(sessiontest.Fault{Code: -32603, Message: "out of order"})
	own := filepath.Join(t.TempDir(), "own.json")
	if err := os.WriteFile(own, []byte(`{"mcpServers": {"fails": {"url": "http://127.0.0.1:1/mcp"}, "unset": {"url": "http://127.0.0.1:1/mcp", "headers": {"X": "${UNSET}"}},
		"off": {"url": "http://127.0.0.1:1/mcp", "enabled": false}, "loop": {"command": "mcptrack", "args": ["attach", "loop"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := hostConfig(t, map[string]string{"a": "fails --config " + own, "b": "unset --config=" + own, "c": "off --config " + own, "d": "nosuch --config " + own, "e": "loop --config " + own})
	code, out := b.Run(t, "list", "--config", file, "--json")
	var rows []serverRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != cli.ExitUnreachable || len(rows) != 5 {
		t.Fatalf("exit code %d: %s%s", code, out, b.Stderr.String())
	}
	for i, want := range []struct {
		state event.State
		why   string
	}{{event.Failed, "out of order"}, {event.Unconfigured, "UNSET"}, {event.Unconfigured, "disabled"}, {event.Unconfigured, "no server"}, {event.Unconfigured, "runs mcptrack attach"}} {
		if rows[i].State != want.state || !strings.Contains(rows[i].Error, want.why) {
			t.Errorf("%s: %s: %s", rows[i].ID, rows[i].State, rows[i].Error)
		}
	}
	if code, out := b.Run(t, "lock", "--config", file); code != cli.ExitUnreachable || !strings.Contains(out, "out of order") || !strings.Contains(out, "UNSET") {
		t.Errorf("lock: exit code %d: %s%s", code, out, b.Stderr.String())
	}
}

// A daemon that follows the config behind all entries is asked.
func TestCommandsAskTheDaemonBehindAttachedEntries(t *testing.T) {
	b, socket := benchAt(t)
	startDaemon(t, b, socket, sessiontest.New())
	own, _ := b.LookupEnv("MCPTRACK_CONFIG")
	file := hostConfig(t, map[string]string{"notes": "notes --config " + own})
	for _, command := range []string{"list", "status"} {
		if code, out := b.Run(t, command, "--config", file, "-v"); code != cli.ExitOK || !strings.Contains(out, "ready") || !strings.Contains(b.Stderr.String(), "using the daemon") {
			t.Errorf("%s: exit code %d: %s%s", command, code, out, b.Stderr.String())
		}
	}
}
