package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// aDaemon is a daemon in the test process, which another session uses. It follows the config of a
// bench; the server in that config is a fake.
type aDaemon struct {
	socket, config string
	server         *sessiontest.Fake
	dials          atomic.Int64
	keys           sync.Map // the values of the header X-Key of all connections
	ended          atomic.Bool
	log            clitest.Buffer
	hold           net.Conn // of the other session
	stop           func()
}

// startDaemon starts a daemon that follows the config of the bench.
func startDaemon(t *testing.T, b *clitest.Bench, socket string, server *sessiontest.Fake) *aDaemon {
	t.Helper()
	file, _ := b.LookupEnv("MCPTRACK_CONFIG")
	d := &aDaemon{socket: socket, config: file, server: server}
	env := cli.Env{Out: io.Discard, Err: &d.log, Version: "test", LookupEnv: b.LookupEnv}
	var running sync.WaitGroup
	env.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		d.dials.Add(1)
		key := srv.Headers["X-Key"]
		d.keys.Store(key.Reveal(), true)
		r, w, wait := d.server.Pipe()
		running.Go(wait)
		return session.OverIO(ctx, r, w, srv, opts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() {
		Main(ctx, &env, []string{"daemon", "--log-level", "debug"})
		d.ended.Store(true)
	})
	d.stop = sync.OnceFunc(func() {
		if cancel(); d.hold != nil {
			_ = d.hold.Close()
		}
		running.Wait()
	})
	t.Cleanup(d.stop)
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	client := ipc.Client{Socket: socket, LookupEnv: b.LookupEnv}
	journaltest.Eventually(t, 10*time.Second, "the daemon listens", func() bool {
		d.hold, _, err = client.Open(t.Context(), ipc.Hello{Purpose: ipc.Attach, Folder: folder, Config: file})
		return !errors.Is(err, ipc.ErrNoDaemon) || d.ended.Load()
	})
	if err == nil { // the daemon follows the config of an agent that has sent its first message
		_, err = io.WriteString(d.hold, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`+"\n")
	}
	if err == nil {
		_, err = d.hold.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatalf("%v: %s", err, d.log.String())
	}
	return d
}

// faulty listens in place of a daemon, and handles each connection.
func faulty(t *testing.T, socket string, handle func(context.Context, net.Conn)) {
	t.Helper()
	ln, err := ipc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				handle(ctx, conn)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		serving.Wait()
	})
}

// benchAt returns a bench whose daemon, if there is one, listens on the socket.
func benchAt(t *testing.T) (b *clitest.Bench, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // its path is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "daemon.sock")
	b = clitest.New(t, Main, "MCPTRACK_SOCKET="+socket, "HOME="+dir)
	offer(b.Server)
	return b, socket
}

// withDaemon returns a bench, and a daemon that follows its config.
func withDaemon(t *testing.T) (*clitest.Bench, *aDaemon) {
	t.Helper()
	b, socket := benchAt(t)
	server := sessiontest.New()
	offer(server)
	return b, startDaemon(t, b, socket, server)
}

// offer makes a server offer a resource and a tool.
func offer(server *sessiontest.Fake) {
	server.SetQuietly("file:///a.md", "one")
	server.SetList(catalog.Tools, map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object"}})
}

// requests are command lines that use a daemon, with what each prints.
func requests() map[string]string {
	return map[string]string{
		"list notes --json":                           `"state":"Ready"`,
		"list resources notes --json":                 `"uri":"file:///a.md"`,
		"read notes file:///a.md":                     "one",
		"call notes echo --arg text=hello":            "",
		"list tools notes -o name":                    "notes\techo",
		"list notes -o template={{.transport}}":       "stdio",
		"list notes -o template={{.protocolVersion}}": "2026-07-28",
	}
}

// Commands use a daemon that follows their config, say so with -v, and print the same as without it.
func TestCommandsUseTheDaemon(t *testing.T) {
	for line, want := range requests() {
		t.Run(line, func(t *testing.T) {
			b, d := withDaemon(t)
			code, out := b.Run(t, append(strings.Fields(line), "-v")...)
			if code != 0 || !strings.Contains(strings.ReplaceAll(out, `": "`, `":"`), want) {
				t.Fatalf("exit %d: %s%s\n%s", code, out, b.Stderr.String(), d.log.String())
			}
			if said := fmt.Sprintf("using the daemon (pid %d)\n", os.Getpid()); b.Dials != 0 || d.dials.Load() != 1 || !strings.Contains(b.Stderr.String(), said) {
				t.Errorf("%d own connections, %d of the daemon: %s", b.Dials, d.dials.Load(), b.Stderr.String())
			}
			directly, plain := b.Run(t, append(strings.Fields(line), "--no-daemon", "-v")...)
			if directly != 0 || plain != out || b.Dials == 0 {
				t.Errorf("--no-daemon: exit %d, %d own connections:\n%s%s", directly, b.Dials, plain, b.Stderr.String())
			}
			if !strings.Contains(b.Stderr.String(), "not using a daemon: --no-daemon is set\n") {
				t.Errorf("--no-daemon: %s", b.Stderr.String())
			}
		})
	}
}

// The result of a server of the older era has no members of the newer one.
func TestResultsAreThoseOfTheServer(t *testing.T) {
	b, socket := benchAt(t)
	file, _ := b.LookupEnv("MCPTRACK_CONFIG")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp", "protocol": "legacy"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	server := sessiontest.New()
	offer(server)
	startDaemon(t, b, socket, server)
	for _, line := range []string{"read notes file:///a.md --json", "call notes echo --json"} {
		var results [2]any
		for i, how := range []string{"-v", "--no-daemon"} {
			before := b.Dials
			code, out := b.Run(t, append(strings.Fields(line), how)...)
			if err := json.Unmarshal([]byte(out), &results[i]); err != nil || code != 0 || b.Dials != before+i {
				t.Fatalf("%s %s: exit %d, %v: %s%s", line, how, code, err, out, b.Stderr.String())
			}
		}
		if !reflect.DeepEqual(results[0], results[1]) {
			t.Errorf("%s: %v; without the daemon %v", line, results[0], results[1])
		}
	}
}

// A daemon that cannot be used does not make a command fail.
func TestCommandsDoWithoutTheDaemon(t *testing.T) {
	answer := func(end func(*ipc.Conn)) func(context.Context, net.Conn) {
		return func(ctx context.Context, conn net.Conn) {
			if c, err := ipc.Accept(ctx, conn, ipc.Build{}); err == nil {
				end(c)
			}
		}
	}
	for name, c := range map[string]struct {
		handle func(context.Context, net.Conn) // nil: none runs
		said   string
	}{
		"none runs":               {nil, "not using a daemon: none is running\n"},
		"it refuses":              {answer(func(c *ipc.Conn) { _ = c.Refuse(&ipc.Refused{Code: "failed", Message: "the disk is full"}) }), "not using the daemon: the disk is full\n"},
		"it hangs":                {func(_ context.Context, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, "does not answer; "},
		"it ends":                 {answer(func(c *ipc.Conn) { _ = c.OK() }), "not using the daemon"},
		"it sends something else": {func(_ context.Context, conn net.Conn) { _, _ = io.WriteString(conn, "SSH-2.0\r\n") }, "not using the daemon"},
	} {
		for _, line := range []string{"list notes", "read notes file:///a.md"} {
			t.Run(name+"/"+line, func(t *testing.T) {
				t.Parallel()
				b, socket := benchAt(t)
				if c.handle != nil {
					faulty(t, socket, c.handle)
					old := time.Now().Add(-time.Hour) // one that has just begun to listen may take longer
					if err := os.Chtimes(socket, old, old); err != nil {
						t.Fatal(err)
					}
				}
				code, out := b.Run(t, append(strings.Fields(line), "-v", "--log-level", "info")...)
				if code != 0 || b.Dials != 1 || out == "" || !strings.Contains(b.Stderr.String(), c.said) {
					t.Errorf("exit %d, %d own connections: %s%s", code, b.Dials, out, b.Stderr.String())
				}
			})
		}
	}
}

// A daemon is not used if it follows another config, or if flags concern the command's own
// connections.
func TestDaemonThatDoesNotFit(t *testing.T) {
	b, d := withDaemon(t)
	other := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(other, []byte(`{"mcpServers": {"notes": {"url": "http://127.0.0.1:2/mcp"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"--config", other}, "not follow "},
		{[]string{"--limit", "items=5"}, "not using a daemon: --limit is set\n"},
		{[]string{"--connect-timeout", "3s"}, "not using a daemon: --connect-timeout is set\n"},
		{[]string{"--insecure-config"}, "concern only this command\n"},
	} {
		for _, line := range []string{"list notes", "read notes file:///a.md"} {
			before := b.Dials
			code, out := b.Run(t, append(append(strings.Fields(line), "-v"), c.args...)...)
			if code != 0 || b.Dials != before+1 || out == "" || !strings.Contains(b.Stderr.String(), c.said) {
				t.Errorf("%s %v: exit %d, %d own connections: %s%s", line, c.args, code, b.Dials-before, out, b.Stderr.String())
			}
		}
	}
	if n := d.dials.Load(); n > 1 {
		t.Errorf("the daemon made %d connections", n)
	}
}

// The daemon reports why a server cannot be used, and the command ends as without the daemon.
func TestServersThatFailThere(t *testing.T) {
	b, socket := benchAt(t)
	b.Server.Fail(sessiontest.Fault{Code: -32603, Message: "out of order"})
	server := sessiontest.New()
	server.Fail(sessiontest.Fault{Code: -32603, Message: "out of order"})
	startDaemon(t, b, socket, server)
	for _, line := range []string{"list notes -o template={{.state}}", "list notes", "read notes file:///a.md"} {
		code, out := b.Run(t, append(strings.Fields(line), "-v")...)
		if code != cli.ExitUnreachable || !strings.Contains(out+b.Stderr.String(), "out of order") || !strings.Contains(b.Stderr.String(), "using the daemon") {
			t.Errorf("%s: exit %d: %s%s", line, code, out, b.Stderr.String())
		}
	}
}

// track writes a config that tracks the resources of the servers.
func track(t *testing.T, file string, servers ...string) {
	t.Helper()
	entries := map[string]any{}
	for _, name := range servers {
		entries[name] = map[string]any{"url": "http://127.0.0.1:1/mcp", "trackResources": true}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// watchInBackground runs watch over the daemon until end is called. seen waits until watch has printed a text.
func watchInBackground(t *testing.T, b *clitest.Bench) (seen func(string), end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1) // sent to once
	go func() { done <- Main(ctx, &b.Env, []string{"watch", "--json", "-v"}) }()
	seen = func(what string) {
		t.Helper()
		journaltest.Eventually(t, 30*time.Second, what, func() bool { return strings.Contains(b.Stdout.String()+b.Stderr.String(), what) })
	}
	return seen, sync.OnceValue(func() int { cancel(); return <-done })
}

// watch wakes a server that sleeps, and begins with its newest state.
func TestWatchWakesTheServer(t *testing.T) {
	b, socket := benchAt(t)
	file, _ := b.LookupEnv("MCPTRACK_CONFIG")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp", "trackResources": true, "idle": "1s"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	server := sessiontest.New()
	offer(server)
	d := startDaemon(t, b, socket, server)
	_ = d.hold.Close()
	journaltest.Eventually(t, 30*time.Second, "the server sleeps", func() bool {
		_, out := b.Run(t, "daemon", "status", "--json")
		return strings.Contains(out, `"reason": "asleep"`) || strings.Contains(out, `"reason":"asleep"`)
	})
	seen, end := watchInBackground(t, b)
	defer end()
	seen(`"reason":"waking"`)
	first, _, _ := strings.Cut(b.Stdout.String(), `"reason":"waking"`)
	if strings.Contains(first, `-1","type":"server.state"`) { // the log has what came later, too
		t.Errorf("before it woke: %s", first)
	}
}

// watch begins with the states of the servers, whose events have the ids of the daemon's log, and then
// prints what changes, also of servers that are added to the config. history, diff and status show the
// same. When the daemon ends, watch follows the
// servers itself.
func TestWatchOverTheDaemon(t *testing.T) {
	b, socket := benchAt(t)
	file, _ := b.LookupEnv("MCPTRACK_CONFIG")
	track(t, file, "notes")
	server := sessiontest.New()
	offer(server)
	d := startDaemon(t, b, socket, server)
	seen, end := watchInBackground(t, b)
	defer end()
	seen(`"type":"subscription.active"`)
	version := 0
	journaltest.Eventually(t, 30*time.Second, "a change", func() bool { // the first content that is read is none
		version++
		d.server.Set("file:///a.md", fmt.Sprint("version ", version, "\n"))
		return strings.Contains(b.Stdout.String(), `"type":"resource.updated"`)
	})
	lines := strings.Split(strings.TrimSpace(b.Stdout.String()), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, lines[0][:len(`{"id":"`)+17]) || !strings.Contains(line, `"serverId":"notes"`) {
			t.Errorf("the daemon's log has no %s", line)
		}
	}
	if b.Dials != 0 {
		t.Errorf("%d own connections", b.Dials)
	}
	checkAnswers(t, b, lines[0][len(`{"id":"`):][:16])
	track(t, file, "notes", "more")
	seen(`"type":"subscription.active","serverId":"more"`)
	if b.Dials != 0 {
		t.Errorf("%d own connections after the config changed", b.Dials)
	}
	d.stop()
	seen("the daemon has ended; this process now follows the servers")
	if code := end(); code != 0 {
		t.Errorf("exit %d: %s", code, b.Stderr.String())
	}
}

// checkAnswers asks a daemon for the versions of the resource, a difference and the status.
func checkAnswers(t *testing.T, b *clitest.Bench, epoch string) {
	t.Helper()
	run := func(args ...string) (code int, out, said string) {
		var stdout, stderr clitest.Buffer
		env := b.Env
		env.Out, env.Err = &stdout, &stderr
		code = Main(t.Context(), &env, args)
		return code, stdout.String(), stderr.String()
	}
	code, out, said := run("history", "notes", "file:///a.md", "--json", "-v")
	var versions []struct{ ServerID, ID string }
	if err := json.Unmarshal([]byte(out), &versions); code != 0 || err != nil || len(versions) < 2 || versions[0].ServerID != "notes" || !strings.HasPrefix(versions[0].ID, epoch) {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, said)
	}
	if !strings.Contains(said, "versions from the daemon\n") {
		t.Error(said)
	}
	if code, out, said = run("diff", "notes", "file:///a.md"); code != 0 || !strings.Contains(out, "\n+version ") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
	if code, out, said = run("status", "--json"); code != 0 || !strings.Contains(out, `"notes"`) || strings.Contains(out, "notes~") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
	if code, _, said = run("status", "--no-daemon", "--timeout", "2s"); code != cli.ExitUnreachable {
		t.Errorf("without the daemon: exit %d: %s", code, said)
	}
}
