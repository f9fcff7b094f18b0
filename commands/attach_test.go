//go:build unix

package commands

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// shortSocket returns the path of a socket in a new folder. That of t.TempDir may be too long.
func shortSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "attach")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// daemonFor runs a daemon until the end of the test. serve is called for each client.
func daemonFor(t *testing.T, socket string, serve func(context.Context, *ipc.Conn)) {
	t.Helper()
	l, err := ipc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			clients.Go(func() {
				defer conn.Close()
				if c, err := ipc.Accept(context.Background(), conn, ipc.ThisBuild("test")); err == nil {
					serve(t.Context(), c)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		clients.Wait()
	})
}

const twoMessages = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`

func TestAttach(t *testing.T) {
	t.Parallel()
	socket := shortSocket(t)
	hellos := make(chan ipc.Hello, 1) // one client
	daemonFor(t, socket, func(ctx context.Context, c *ipc.Conn) {
		hellos <- c.Hello
		if c.OK() != nil {
			return
		}
		srv := mcpserver.New(mcpserver.Options{CallTool: func(context.Context, *mcpserver.Request) (json.RawMessage, error) { return nil, mcpserver.ErrNotFound }})
		defer srv.Close()
		srv.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{json.RawMessage(`{"name":"create_issue","inputSchema":{"type":"object"}}`)}})
		_ = srv.ServeIO(ctx, c, c)
	})
	b := clitest.New(t, Main, "MCPTRACK_SOCKET="+socket, "PATH=/some/bin")
	b.In = strings.NewReader(twoMessages)
	code, out := b.Run(t, "attach", "notes")
	if code != cli.ExitOK || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"create_issue"`) || b.Stderr.String() != "" {
		t.Errorf("exit code %d: %s; %s", code, out, b.Stderr.String())
	}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	config, _ := b.LookupEnv("MCPTRACK_CONFIG")
	hello := <-hellos
	if hello.Purpose != ipc.Attach || hello.Server != "notes" || hello.Folder != folder || hello.Path != "/some/bin" || hello.Config != config || hello.Client == "" {
		t.Errorf("the daemon received %+v", hello)
	}
}

func TestAttachIsRefused(t *testing.T) {
	t.Parallel()
	socket := shortSocket(t)
	daemonFor(t, socket, func(_ context.Context, c *ipc.Conn) {
		_ = c.Refuse(&ipc.Refused{Code: "unknown_server", Message: `the config has no server "note"`, Hint: "did you mean notes?", Exit: cli.ExitUsage})
	})
	b := clitest.New(t, Main, "MCPTRACK_SOCKET="+socket)
	b.In = strings.NewReader(twoMessages)
	code, out := b.Run(t, "attach", "note")
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, `"id":1`) || !strings.Contains(out, "did you mean notes?") {
		t.Errorf("the client received %q", out)
	}
	if want := "mcptrack: the config has no server \"note\"\nhint: did you mean notes?\n"; code != cli.ExitUsage || b.Stderr.String() != want {
		t.Errorf("exit code %d: %q, %q; want %q", code, out, b.Stderr.String(), want)
	}
}

// Without a program that could be the daemon, attach serves the client by itself.
func TestAttachWithoutADaemon(t *testing.T) {
	t.Parallel()
	b := clitest.New(t, Main, "MCPTRACK_SOCKET="+shortSocket(t))
	b.Server.SetList(catalog.Tools, map[string]any{"name": "create_issue", "inputSchema": map[string]any{"type": "object"}})
	b.In = strings.NewReader(twoMessages)
	code, out := b.Run(t, "attach", "notes")
	if code != cli.ExitOK || !strings.Contains(out, `"create_issue"`) {
		t.Errorf("exit code %d: %s", code, out)
	}
	if got := b.Stderr.String(); strings.Count(got, "the mcptrack daemon cannot be used") != 1 {
		t.Errorf("stderr: %s", got)
	}
}
