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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/wire"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/scoped"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/feed"
)

// aDaemon is a daemon in the test process: its sockets and handshakes are those of the real one, and
// its server "notes" is a fake. It answers one config.
type aDaemon struct {
	socket  string
	config  string // the config that it follows; clients with another one are refused
	fault   string // "", "hang": it never answers; "refuse"; "drop": it closes the connection after OK
	server  *sessiontest.Fake
	engine  *engine.Engine
	api     *api.API
	dials   int
	mu      sync.Mutex
	hellos  []wire.Hello
	serving sync.WaitGroup
	stop    func()
}

// listenAsDaemon starts a daemon that follows the config of the bench.
func listenAsDaemon(t *testing.T, b *clitest.Bench, socket string) *aDaemon {
	t.Helper()
	file, _ := b.LookupEnv("MCPTRACK_CONFIG")
	d := &aDaemon{socket: socket, config: file, server: sessiontest.New()}
	log := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
	entry := sessiontest.Entry("notes~1")
	entry.TrackResources = true
	var err error
	d.engine, err = engine.New(t.Context(), engine.Desired{Config: &config.Config{Servers: []config.Server{entry}}}, log, engine.Options{Tracker: tracker.Options{
		AllLists: true, OnDemand: true, Texts: true, Logger: journaltest.Logger(t),
		Dial: func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			d.dials++
			r, w, wait := d.server.Pipe()
			d.serving.Go(wait)
			return session.OverIO(ctx, r, w, srv, opts)
		}}})
	if err != nil {
		t.Fatal(err)
	}
	tr := d.engine.Tracker()
	names := map[string]string{"notes~1": "notes"}
	d.api = api.New(api.Options{
		Feed: feed.Options{Log: scoped.New(log, func() map[string]string { return names })},
		Dashboard: dashboard.Options{Version: "test", Snapshot: func() *status.Snapshot { return tr.Snapshot().Renamed(names) },
			Read: func(ctx context.Context, _, uri string, digest catalog.Digest) (cache.Resource, error) {
				return tr.Client("notes~1").CurrentResource(ctx, uri, digest)
			}},
		Demand: func(string) func() { return tr.Demand("notes~1") },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	d.serving.Go(func() { _ = d.engine.Run(ctx, engine.Reader(d.api.Run)) })
	d.serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			d.serving.Go(func() { d.serve(ctx, conn) })
		}
	})
	d.stop = sync.OnceFunc(func() {
		_ = ln.Close()
		cancel()
		d.serving.Wait()
		_ = log.Close()
	})
	t.Cleanup(d.stop)
	return d
}

func (d *aDaemon) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	if d.fault == "hang" {
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	c, err := wire.Accept(ctx, conn, wire.Build{Version: "test"})
	if err != nil {
		return
	}
	d.mu.Lock()
	d.hellos = append(d.hellos, c.Hello)
	d.mu.Unlock()
	switch {
	case d.fault == "refuse":
		_ = c.Refuse(&wire.Refused{Code: "config_invalid", Message: "the config is invalid"})
		return
	case c.Hello.Join && c.Hello.Config != d.config:
		_ = c.Refuse(&wire.Refused{Code: wire.NotFollowed, Message: "it does not follow this config"})
		return
	}
	if c.OK() != nil || d.fault == "drop" {
		return
	}
	if c.Hello.Purpose == wire.HTTP {
		d.api.ServeConn(ctx, c)
		return
	}
	defer d.engine.Tracker().Demand("notes~1")()
	r, w, wait := d.server.Pipe()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	d.serving.Go(wait)
	var relays sync.WaitGroup
	relays.Go(func() { _, _ = io.Copy(w, c); _ = w.Close() })
	_, _ = io.Copy(c, r)
	_ = conn.Close()
	relays.Wait()
}

func (d *aDaemon) connections() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.hellos)
}

// awaitBaseline waits until the daemon has read the resource.
func (d *aDaemon) awaitBaseline(t *testing.T) {
	t.Helper()
	journaltest.Eventually(t, 10*time.Second, "the resource is followed", func() bool {
		snap := d.engine.Tracker().Snapshot()
		return len(snap.Servers) == 1 && len(snap.Servers[0].Resources) == 1 && !snap.Servers[0].Resources[0].Digest.IsZero()
	})
}

// withDaemon returns a bench, and a daemon that follows its config.
func withDaemon(t *testing.T) (*clitest.Bench, *aDaemon) {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // its path is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "daemon.sock")
	b := clitest.New(t, Main, "MCPTRACK_SOCKET="+socket, "HOME="+dir)
	d := listenAsDaemon(t, b, socket)
	for _, server := range []*sessiontest.Fake{b.Server, d.server} {
		server.SetQuietly("file:///a.md", "one")
		server.SetList(catalog.Tools, map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object"}})
	}
	return b, d
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
				t.Fatalf("exit %d: %s%s", code, out, b.Stderr.String())
			}
			if said := fmt.Sprintf("using the daemon (pid %d)\n", os.Getpid()); b.Dials != 0 || d.connections() == 0 || !strings.Contains(b.Stderr.String(), said) {
				t.Errorf("%d own connections, %d to the daemon: %s", b.Dials, d.connections(), b.Stderr.String())
			}
			before := d.connections()
			directly, plain := b.Run(t, append(strings.Fields(line), "--no-daemon", "-v")...)
			if directly != 0 || plain != out || b.Dials == 0 || d.connections() != before {
				t.Errorf("--no-daemon: exit %d, %d own connections, %d to the daemon:\n%s%s", directly, b.Dials, d.connections()-before, plain, b.Stderr.String())
			}
			if !strings.Contains(b.Stderr.String(), "not using a daemon: --no-daemon is set\n") {
				t.Errorf("--no-daemon: %s", b.Stderr.String())
			}
			for _, h := range d.hellos {
				if h.Path != "" || !filepath.IsAbs(h.Folder) || !h.Join {
					t.Errorf("%+v", h)
				}
			}
		})
	}
}

// A daemon that cannot be used neither delays a command by more than a moment nor makes it fail.
func TestCommandsDoWithoutTheDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*aDaemon)
		args  []string
		said  string
	}{
		"none runs":          {func(d *aDaemon) { d.stop() }, nil, "not using a daemon: none is running\n"},
		"it refuses":         {func(d *aDaemon) { d.fault = "refuse" }, nil, "not using the daemon: the config is invalid\n"},
		"it hangs":           {func(d *aDaemon) { d.fault = "hang" }, nil, "not using the daemon: handshake with the daemon: it did not answer within 1s\n"},
		"it ends":            {func(d *aDaemon) { d.fault = "drop" }, nil, "not using the daemon"},
		"another config":     {func(d *aDaemon) { d.config = "/other.json" }, nil, "not using the daemon: it does not follow this config\n"},
		"limits":             {func(*aDaemon) {}, []string{"--limit", "items=5"}, "not using a daemon: --limit is set\n"},
		"time to connect":    {func(*aDaemon) {}, []string{"--connect-timeout", "3s"}, "not using a daemon: --connect-timeout is set\n"},
		"a flag of the file": {func(*aDaemon) {}, []string{"--insecure-config"}, "concern only this command\n"},
	} {
		for _, line := range []string{"list notes", "read notes file:///a.md"} {
			t.Run(name+"/"+line, func(t *testing.T) {
				t.Parallel()
				b, d := withDaemon(t)
				c.fault(d)
				code, out := b.Run(t, append(append(strings.Fields(line), "-v", "--log-level", "info"), c.args...)...)
				if code != 0 || b.Dials != 1 || out == "" {
					t.Errorf("exit %d, %d own connections: %s%s", code, b.Dials, out, b.Stderr.String())
				}
				if !strings.Contains(b.Stderr.String(), c.said) {
					t.Errorf("it says %s", b.Stderr.String())
				}
			})
		}
	}
}

// The daemon reports why a server cannot be used, and the command ends as without the daemon.
func TestServersThatFailThere(t *testing.T) {
	b, d := withDaemon(t)
	d.server.Fail(sessiontest.Fault{Code: -32603, Message: "out of order"})
	code, out := b.Run(t, "list", "notes", "-o", "template={{.state}} {{.error}}", "-v")
	if code != cli.ExitUnreachable || !strings.HasPrefix(out, "Failed ") || !strings.Contains(out, "out of order") || b.Dials != 0 {
		t.Errorf("exit %d, %d own connections: %s%s", code, b.Dials, out, b.Stderr.String())
	}
}

// The versions of a resource, the differences and the status are those of the daemon.
func TestHistoryOfTheDaemon(t *testing.T) {
	b, d := withDaemon(t)
	release := d.engine.Tracker().Demand("notes~1")
	defer release()
	log := d.engine.Log()
	d.awaitBaseline(t)
	d.server.Set("file:///a.md", "two")
	d.server.NotifyUpdated("file:///a.md")
	journaltest.Eventually(t, 10*time.Second, "a change", func() bool {
		n := 0
		for _, err := range log.Select(t.Context(), journal.Selection{ServerID: "notes~1", URI: "file:///a.md"}) {
			if err == nil {
				n++
			}
		}
		return n == 1
	})
	code, out := b.Run(t, "history", "notes", "file:///a.md", "--json", "-v")
	var versions []struct{ ServerID, ID string }
	if err := json.Unmarshal([]byte(out), &versions); code != 0 || err != nil || len(versions) != 2 || versions[0].ServerID != "notes" || !strings.HasPrefix(versions[0].ID, log.Epoch()) {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, b.Stderr.String())
	}
	if !strings.Contains(b.Stderr.String(), "versions from the daemon\n") {
		t.Error(b.Stderr.String())
	}
	if code, out = b.Run(t, "diff", "notes", "file:///a.md"); code != 0 || !strings.Contains(out, "-one\n") || !strings.Contains(out, "+two\n") {
		t.Errorf("exit %d: %s%s", code, out, b.Stderr.String())
	}
	if code, out = b.Run(t, "status", "--json"); code != 0 || !strings.Contains(out, `"notes"`) || strings.Contains(out, "notes~1") {
		t.Errorf("exit %d: %s%s", code, out, b.Stderr.String())
	}
	if code, _ = b.Run(t, "status", "--no-daemon", "--timeout", "2s"); code != cli.ExitUnreachable {
		t.Errorf("without the daemon: exit %d: %s", code, b.Stderr.String())
	}
}

// track makes a config track the resources of its server.
func track(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp", "trackResources": true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

// watch begins with the states of the servers, whose events have the ids of the daemon's log, and then
// prints what changes. When the daemon ends, it follows the servers itself.
func TestWatchOverTheDaemon(t *testing.T) {
	b, d := withDaemon(t)
	if code, _ := b.Run(t, "watch", "--no-follow-config", "--timeout", "1ms", "-v"); code != cli.ExitConfig || d.connections() != 0 {
		t.Errorf("nothing is tracked: exit %d: %s", code, b.Stderr.String())
	}
	track(t, d.config)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan int, 1) // sent to once
	go func() {
		done <- Main(ctx, &b.Env, []string{"watch", "--json", "-v"})
	}()
	seen := func(what string) {
		t.Helper()
		journaltest.Eventually(t, 30*time.Second, what, func() bool { return strings.Contains(b.Stdout.String(), what) })
	}
	seen(`"type":"subscription.active"`)
	d.awaitBaseline(t)
	d.server.Set("file:///a.md", "two")
	d.server.NotifyUpdated("file:///a.md")
	seen(`"type":"resource.updated"`)
	for line := range strings.Lines(b.Stdout.String()) {
		if !strings.HasPrefix(line, `{"id":"`+d.engine.Log().Epoch()+"-") || !strings.Contains(line, `"serverId":"notes"`) {
			t.Errorf("the daemon's log has no %s", line)
		}
	}
	if b.Dials != 0 {
		t.Errorf("%d own connections", b.Dials)
	}
	d.stop()
	journaltest.Eventually(t, 30*time.Second, "own connection", func() bool {
		return strings.Contains(b.Stderr.String(), "the daemon has ended; this process now follows the servers")
	})
	cancel(errors.New("enough"))
	if code := <-done; code != 0 && code != 130 {
		t.Errorf("exit %d: %s", code, b.Stderr.String())
	}
}
