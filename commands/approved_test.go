//go:build unix

package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/session"
)

// With --approved, a change of the named config starts nothing before it is approved: new clients are
// refused, and clients that are connected keep the server that was approved.
func TestApprovedConfigChanges(t *testing.T) {
	t.Parallel()
	b, d := withDaemon(t)
	project := t.TempDir()
	file := filepath.Join(project, "mcp-servers.json")
	write := func(key string) {
		t.Helper()
		text := `{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "` + key + `"}}}}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	attach := func(config ...string) (int, string) {
		t.Helper()
		b.In = strings.NewReader(twoMessages)
		code, out := b.Run(t, append([]string{"attach", "notes", "--config"}, config...)...)
		return code, out + b.Stderr.String()
	}
	refused := func() {
		t.Helper()
		code, out := attach(file, "--approved")
		if code != cli.ExitConfig || !strings.Contains(out, "you have not approved what "+file+" would do now") ||
			!strings.Contains(out, "hint: mcptrack trust "+project+" shows all of it and asks") {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
	write("one")
	refused()
	if code, out := b.Run(t, "trust", project, "--yes"); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s, %s", code, out, b.Stderr.String())
	}
	if code, out := attach(file, "--approved"); code != cli.ExitOK || !strings.Contains(out, `"echo"`) {
		t.Fatalf("exit code %d: %s", code, out)
	}
	client := ipc.Client{Socket: d.socket, LookupEnv: b.LookupEnv}
	conn, _, err := client.Open(t.Context(), ipc.Hello{Purpose: ipc.Attach, Folder: t.TempDir(), Config: file, Server: "notes", Approved: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.OverIO(t.Context(), conn, conn, config.Server{ID: "notes", RequestTimeout: time.Minute}, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.List(t.Context(), catalog.Tools); err != nil {
		t.Fatal(err)
	}
	write("two")
	journaltest.Eventually(t, 20*time.Second, "the change is held back", func() bool {
		return strings.Contains(d.log.String(), "is not approved; the server stays connected as before")
	})
	if tools, err := s.List(t.Context(), catalog.Tools); err != nil || len(tools) != 1 {
		t.Errorf("%v, %v", tools, err)
	}
	refused()
	if _, connected := d.keys.Load("two"); connected {
		t.Error("the changed server was contacted")
	}
	if code, out := attach(file); code != cli.ExitOK || !strings.Contains(out, `"echo"`) {
		t.Errorf("without --approved, naming a config is consent; exit code %d: %s", code, out)
	}
	refused() // although it runs for another client
	if code, _ := b.Run(t, "trust", project, "--yes"); code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	if code, out := attach(file, "--approved"); code != cli.ExitOK || !strings.Contains(out, `"echo"`) {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// The daemon does not start entries that are clients of it.
func TestDaemonDoesNotStartAttach(t *testing.T) {
	t.Parallel()
	b, d := withDaemon(t)
	file := filepath.Join(t.TempDir(), "host.json")
	for _, entry := range []string{`"command": "mcptrack-attach", "args": ["loop"]`, `"command": "mcptrack", "args": ["attach", "--config", "x.json", "loop"]`} {
		text := `{"mcpServers": {"loop": {` + entry + `}, "notes": {"url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "three"}}}}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b.In = strings.NewReader(twoMessages)
		code, out := b.Run(t, "attach", "loop", "--config", file)
		if errs := b.Stderr.String(); code != cli.ExitConfig || strings.Contains(out, `"result"`) || !strings.Contains(errs, `server "loop" in `+file+" runs mcptrack attach") || !strings.Contains(errs, "hint: --config FILE") {
			t.Errorf("exit code %d: %s%s", code, out, errs)
		}
		b.In = strings.NewReader(twoMessages)
		if code, out := b.Run(t, "attach", "--config", file); code != cli.ExitOK || !strings.Contains(out, `"echo"`) {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
	if strings.Contains(d.log.String(), "loop~") {
		t.Errorf("the daemon knows the entry: %s", d.log.String())
	}
}
