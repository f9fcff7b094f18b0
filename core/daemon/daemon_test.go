package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// serverKey makes the test binary an MCP server.
const serverKey = "DAEMON_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverKey) != "" {
		if err := runServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runServer serves MCP on stdio. The tools do what no published server does on demand: say in which
// process they run, ask the client, count calls in a file, wait, exit and change the list.
func runServer() error {
	var srv *mcpserver.Server
	text := func(s string) (json.RawMessage, error) {
		return json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}})
	}
	tool := func(name string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	var mu sync.Mutex
	tools := []json.RawMessage{tool("pid"), tool("ask"), tool("env"), tool("echo"), tool("wait"), tool("exit"), tool("grow")}
	if _, err := os.Stat("more-tools"); err == nil {
		tools = append(tools, tool("further"))
	}
	srv = mcpserver.New(mcpserver.Options{Name: "fake", Version: "1", CallTool: func(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		var p struct {
			Arguments struct {
				Text, File string
				Seconds    int
			}
		}
		if err := json.Unmarshal(r.Params, &p); err != nil {
			return nil, err
		}
		if p.Arguments.File != "" { // one line for each call that arrives
			f, err := os.OpenFile(p.Arguments.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			_, err = f.WriteString(p.Arguments.Text + "\n")
			if err := errors.Join(err, f.Close()); err != nil {
				return nil, err
			}
		}
		switch r.Name() {
		case "pid":
			return text(strconv.Itoa(os.Getpid()))
		case "ask": // the client for a name
			answer, err := r.Client.Ask(ctx, r, "elicitation/create", json.RawMessage(`{"message":"?","requestedSchema":{"type":"object","properties":{}}}`))
			if err != nil {
				return text("error: " + err.Error())
			}
			return text(string(answer))
		case "env":
			return text(os.Getenv(p.Arguments.Text))
		case "echo":
			r.Notify("notifications/progress", map[string]any{"progress": 1, "message": p.Arguments.Text})
			return text(p.Arguments.Text)
		case "wait":
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(max(300*time.Millisecond, time.Duration(p.Arguments.Seconds)*time.Second)):
				return text("waited")
			}
		case "exit":
			os.Exit(3)
		case "grow":
			mu.Lock()
			defer mu.Unlock()
			tools = append(tools, tool("more-"+strconv.Itoa(len(tools)-1)))
			srv.SetCatalog(mcpserver.Catalog{Tools: tools})
			return text("grown")
		}
		return nil, mcpserver.ErrNotFound
	}})
	defer srv.Close()
	srv.SetCatalog(mcpserver.Catalog{Tools: tools})
	if os.Getenv(serverKey) == "isolated" {
		return srv.ServeIO(context.Background(), os.Stdin, isolated{os.Stdout})
	}
	return srv.ServeIO(context.Background(), os.Stdin, os.Stdout)
}

// isolated adds the capability x-mux to what a server declares.
type isolated struct{ *os.File }

func (out isolated) Write(p []byte) (int, error) {
	_, err := out.File.Write(bytes.Replace(p, []byte(`"capabilities":{`), []byte(`"capabilities":{"x-mux":{"sharing":"isolated"},`), 1))
	return len(p), err
}

// world is a running daemon.
type world struct {
	t      *testing.T
	socket string
	config map[string]string // entries of the config of each folder, which tests may replace
	mu     sync.Mutex
	d      *daemon.Daemon
	ended  chan error // receives the result of Run; never closed
	cancel context.CancelFunc
}

func start(t *testing.T, change func(*daemon.Options)) *world {
	t.Helper()
	log := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
	t.Cleanup(func() { _ = log.Close() })
	return startOn(t, log, change)
}

// startOn starts a daemon on a log, which an earlier daemon may have used.
func startOn(t *testing.T, log journal.Log, change func(*daemon.Options)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "mt") // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, socket: filepath.Join(dir, "s"), config: map[string]string{}, ended: make(chan error, 1)}
	logger := slog.New(slog.NewTextHandler(testWriter{t}, nil))
	callers := gateway.NewCallers()
	e, err := engine.New(t.Context(), engine.Desired{}, log, engine.Options{Logger: logger, Tracker: tracker.Options{
		AllLists: true, OnDemand: true, Window: 20 * time.Millisecond, Logger: logger, ClientSide: callers.ClientSide,
		Session: session.Options{Environ: func(string) (string, bool) { return "", false }}}})
	must(t, err)
	opts := daemon.Options{Engine: e, Build: ipc.Build{Version: "test"}, Socket: w.socket, Key: []byte("key"), Open: w.open, Logger: logger, Inherited: session.Inherited(), Gateway: gateway.Options{Callers: callers}}
	if change != nil {
		change(&opts)
	}
	ln, err := ipc.Listen(w.socket)
	must(t, err)
	w.d = daemon.New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() { w.ended <- w.d.Run(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := w.end(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		w.d.Release()
	})
	return w
}

// testWriter logs to a test.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// end waits for the result of Run. Further calls return the same.
func (w *world) end() error {
	select {
	case err := <-w.ended:
		w.ended <- err
		return err
	case <-time.After(time.Minute):
		w.t.Fatal("Run does not end")
		return nil
	}
}

// open parses the config that the test gave the folder, as the daemon command does.
func (w *world) open(_ context.Context, c daemon.Client) (daemon.Source, error) {
	w.mu.Lock()
	text := w.config[c.Folder]
	w.mu.Unlock()
	file := filepath.Join(c.Folder, "mcp.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return daemon.Source{}, err
	}
	opts := config.Options{Workspace: c.Folder, Getenv: c.LookupEnv}
	cfg, problems := config.Load(file, opts)
	if cfg == nil {
		return daemon.Source{}, &ipc.Refused{Code: "config_invalid", Message: problems.Error(), Exit: 3}
	}
	return daemon.Source{Config: cfg, Follow: &reload.Options{Path: file, Config: opts},
		Select: func(cfg *config.Config) *config.Config {
			return cfg.Only(func(s config.Server) bool { return c.Server == "" || s.ID == c.Server })
		}}, nil
}

// folder creates a folder whose config has the given entries; each is the test server with further
// members.
func (w *world) folder(entries map[string]string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // also if the umask lets others change it
		w.t.Fatal(err)
	}
	w.setConfig(dir, entries)
	return dir
}

func (w *world) setConfig(dir string, entries map[string]string) {
	var list []string
	for id, members := range entries {
		if members != "" {
			members = "," + members
		}
		if !strings.Contains(members, `"env"`) {
			members += `,"env":{"` + serverKey + `":"1"}`
		}
		if !strings.Contains(members, `"command"`) {
			members += fmt.Sprintf(`,"command":%q`, os.Args[0])
		}
		if !strings.Contains(members, `"cwd"`) {
			members += `,"cwd":"/"`
		}
		list = append(list, fmt.Sprintf(`{"id":%q%s}`, id, members))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.config[dir] = `{"servers":[` + strings.Join(list, ",") + `]}`
}

// client connects to the daemon and returns a session with what it serves.
func (w *world) client(hello ipc.Hello, env map[string]string, opts session.Options) *session.Session {
	w.t.Helper()
	s, err := w.dial(hello, env, opts)
	must(w.t, err)
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (w *world) dial(hello ipc.Hello, env map[string]string, opts session.Options) (*session.Session, error) {
	conn, err := w.connect(hello, env)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return session.OverIO(ctx, conn, conn, config.Server{ID: "daemon", RequestTimeout: time.Minute, Protocol: config.Protocol(opts.Era)}, opts)
}

func (w *world) connect(hello ipc.Hello, env map[string]string) (net.Conn, error) {
	c := ipc.Client{Socket: w.socket, Build: ipc.Build{Version: "test"}, LookupEnv: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}}
	if hello.Purpose == "" {
		hello.Purpose = ipc.Attach
	}
	if hello.Path == "" {
		hello.Path = os.Getenv("PATH")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, _, err := c.Open(ctx, hello)
	return conn, err
}

// call calls a tool and returns its text.
func (w *world) call(s *session.Session, tool string, args map[string]any) string {
	w.t.Helper()
	text, err := w.tryCall(s, tool, args)
	if err != nil {
		w.t.Fatalf("%s: %v", tool, err)
	}
	return text
}

func (w *world) tryCall(s *session.Session, tool string, args map[string]any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := s.CallTool(ctx, tool, args)
	if err != nil {
		return "", err
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) == 0 {
		return "", fmt.Errorf("%s: %w", result, err)
	}
	if r.IsError {
		return "", errors.New(r.Content[0].Text)
	}
	return r.Content[0].Text, nil
}

// until polls a condition.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not true within a minute: %s; %+v", what, w.d.Status())
		}
	}
}

// TestSharing: clients share a process if and only if everything that determines it is equal.
func TestSharing(t *testing.T) {
	w := start(t, nil)
	env := `"env":{"` + serverKey + `":"1","TOKEN":"${env:TOKEN}"}`
	here := w.folder(map[string]string{"a": "", "machine": `"shared":"machine"`, "anywhere": `"shared":"machine","cwd":""`, "here": `"cwd":""`, "own": `"shared":false`, "token": env, "script": `"command":"script"`})
	there := w.folder(map[string]string{"a": "", "machine": `"shared":"machine"`, "anywhere": `"shared":"machine","cwd":""`, "here": `"cwd":""`, "own": `"shared":false`, "token": env})
	pid := func(server string, hello ipc.Hello, vars map[string]string) string {
		hello.Server = server
		return w.call(w.client(hello, vars, session.Options{}), "pid", nil)
	}
	first, second, other := ipc.Hello{Folder: here, Client: "1"}, ipc.Hello{Folder: here, Client: "2"}, ipc.Hello{Folder: there, Client: "3"}
	// programs creates a folder with one of the programs that start the server "script".
	programs := func(name string) string {
		text := map[string]string{"script": "#!/usr/bin/env runner\n", "runner": "#!/bin/sh\nexec '" + os.Args[0] + "'\n", "other": "#!/bin/sh\n"}[name]
		dir := t.TempDir()
		syscall.ForkLock.RLock() // a child that is started meanwhile would keep the file busy
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
		syscall.ForkLock.RUnlock()
		return dir
	}
	path := programs("script") + ":" + programs("runner") + ":" + os.Getenv("PATH")
	first.Path, second.Path, other.Path = path, path, path
	withProgram := func(name string) ipc.Hello {
		hello := second
		hello.Path = programs(name) + ":" + path
		return hello
	}
	secret := func(value string) map[string]string { return map[string]string{"TOKEN": value} }
	for _, c := range []struct {
		name, server string
		a, b         ipc.Hello
		envA, envB   map[string]string
		shared       bool
	}{
		{"same folder", "a", first, second, nil, nil, true},
		{"other folder", "a", first, other, nil, nil, false},
		{"machine", "machine", first, other, nil, nil, true},
		{"machine, without cwd", "anywhere", first, other, nil, nil, true},
		{"same folder, without cwd", "here", first, second, nil, nil, true},
		{"other folder, without cwd", "here", first, other, nil, nil, false},
		{"own", "own", first, second, nil, nil, false},
		{"own, same client", "own", first, first, nil, nil, true},
		{"same token", "token", first, second, secret("x"), secret("x"), true},
		{"other token", "token", first, second, secret("x"), secret("y"), false},
		{"other token in the environment only", "a", first, second, secret("x"), secret("y"), true},
		{"other PATH with another command", "script", first, withProgram("script"), nil, nil, false},
		{"other PATH with another interpreter", "script", first, withProgram("runner"), nil, nil, false},
		{"other PATH with another program", "script", first, withProgram("other"), nil, nil, true},
	} {
		if a, b := pid(c.server, c.a, c.envA), pid(c.server, c.b, c.envB); (a == b) != c.shared {
			t.Errorf("%s: processes %s and %s", c.name, a, b)
		}
	}
	// The same name for another command.
	w.setConfig(there, map[string]string{"a": `"args":["-x"],"shared":"machine"`})
	w.setConfig(here, map[string]string{"a": `"shared":"machine"`})
	if pid("a", ipc.Hello{Folder: here, Client: "9"}, secret("9")) == pid("a", ipc.Hello{Folder: there, Client: "9"}, secret("9")) {
		t.Error("two commands with one name share a process")
	}
}

// TestNames: with the name of a server, its names are unchanged; without, they begin with the ids of
// the config, which are also all that a client sees of the tracker's ids.
func TestNames(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": "", "b": ""})
	all := w.client(ipc.Hello{Folder: dir}, nil, session.Options{})
	if got := w.call(all, "a_echo", map[string]any{"text": "x"}); got != "x" {
		t.Errorf("%q", got)
	}
	one := w.client(ipc.Hello{Folder: dir, Server: "b"}, nil, session.Options{})
	if got := w.call(one, "echo", map[string]any{"text": "y"}); got != "y" {
		t.Errorf("%q", got)
	}
	if _, err := w.tryCall(all, "a_nothing", nil); err == nil || strings.Contains(err.Error(), "~") {
		t.Errorf("%v", err)
	}
	st := w.d.Status()
	if st.Clients != 2 || len(st.Servers) != 2 || st.Servers[0].ID != "a" || st.Servers[0].Folder != dir || st.Servers[1].Clients != 2 {
		t.Errorf("%+v", st)
	}
}

// TestEnvironment: a server receives the variables that its entry names and those that it would inherit
// from the client, none of the daemon's, and the daemon asks for no other.
func TestEnvironment(t *testing.T) {
	w := start(t, nil)
	t.Setenv("OF_THE_DAEMON", "secret")
	dir := w.folder(map[string]string{"a": `"env":{"` + serverKey + `":"1","NAMED":"${env:NAMED}"}`})
	c := ipc.Client{Socket: w.socket, Build: ipc.Build{Version: "test"}}
	var asked []string
	c.LookupEnv = func(name string) (string, bool) {
		asked = append(asked, name)
		return "value of " + name, true
	}
	conn, _, err := c.Open(t.Context(), ipc.Hello{Purpose: ipc.Attach, Folder: dir, Path: "/bin:/usr/bin"})
	must(t, err)
	s, err := session.OverIO(t.Context(), conn, conn, config.Server{ID: "x", RequestTimeout: time.Minute}, session.Options{})
	must(t, err)
	defer func() { _ = s.Close() }()
	for name, want := range map[string]string{"NAMED": "value of NAMED", "PATH": "/bin:/usr/bin", "HOME": "value of HOME", "OF_THE_DAEMON": "", "OTHER": ""} {
		if got := w.call(s, "env", map[string]any{"text": name}); got != want {
			t.Errorf("%s=%q; want %q", name, got, want)
		}
	}
	if other := slices.DeleteFunc(asked, func(name string) bool { return slices.Contains(session.Inherited(), name) }); len(other) != 1 || other[0] != "NAMED" {
		t.Errorf("asked for %q", other)
	}
}

// TestSleep: a server starts with its first client, sleeps when none needs it, is listed from memory
// while it sleeps, and wakes for a call.
func TestSleep(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": `"idle":"1s"`})
	s, err := w.dial(ipc.Hello{Folder: dir}, nil, session.Options{})
	must(t, err)
	pid := w.call(s, "pid", nil)
	_ = s.Close()
	w.until("the server sleeps", func() bool { return w.d.Status().Servers[0].Reason == "asleep" })
	again := w.client(ipc.Hello{Folder: dir}, nil, session.Options{})
	list, err := again.List(t.Context(), "tools")
	if err != nil || len(list) != 7 {
		t.Fatalf("%d tools, %v", len(list), err)
	}
	if st := w.d.Status().Servers[0]; st.Reason != "asleep" || st.PID != 0 {
		t.Errorf("listing woke the server: %+v", st)
	}
	if got := w.call(again, "pid", nil); got == pid || got == "" {
		t.Errorf("pid %s, before %s", got, pid)
	}
}

// TestUnsharedServerEnds: a server that no other client can use does not outlive its client for long.
func TestUnsharedServerEnds(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": `"shared":false,"idle":"10m"`})
	s := w.client(ipc.Hello{Folder: dir, Server: "a", Client: "1"}, nil, session.Options{})
	w.call(s, "pid", nil)
	must(t, s.Close())
	w.until("the server has ended, and is not shown", func() bool { return len(w.d.Status().Servers) == 0 })
}

// TestReload: a change of the config reaches the clients of a group.
func TestReload(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": "", "b": ""})
	s := w.client(ipc.Hello{Folder: dir}, nil, session.Options{})
	w.setConfig(dir, map[string]string{"a": "", "c": ""})
	must(t, os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(w.config[dir]), 0o600))
	w.until("c is served and b is not", func() bool {
		list, err := s.List(t.Context(), "tools")
		must(t, err)
		keys := strings.Join(list.Keys(), " ")
		return !strings.Contains(keys, "b_") && strings.Contains(keys, "c_echo")
	})
}

// TestInvalid: a client whose config cannot be read is told why.
func TestInvalid(t *testing.T) {
	w := start(t, nil)
	dir := t.TempDir()
	w.config[dir] = "{"
	_, err := w.connect(ipc.Hello{Folder: dir}, nil)
	refused, ok := errors.AsType[*ipc.Refused](err)
	if !ok || refused.Code != "config_invalid" || refused.Exit != 3 {
		t.Fatalf("%v", err)
	}
}

// TestStop: a daemon that is stopped answers what is in flight, and nothing else.
func TestStop(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": ""})
	s := w.client(ipc.Hello{Folder: dir}, nil, session.Options{})
	answer := make(chan error, 1)
	file := filepath.Join(t.TempDir(), "calls")
	go func() {
		_, err := w.tryCall(s, "wait", map[string]any{"file": file})
		answer <- err
	}()
	w.until("the call has arrived", func() bool { _, err := os.Stat(file); return err == nil })
	if conn, err := w.connect(ipc.Hello{Purpose: ipc.Stop}, nil); err != nil {
		t.Fatal(err)
	} else {
		defer func() { _ = conn.Close() }()
	}
	if err := <-answer; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := w.end(); !errors.Is(err, daemon.ErrStopped) {
		t.Errorf("%v", err)
	}
	w.ended = make(chan error, 1)
	w.ended <- context.Canceled
	if _, err := w.connect(ipc.Hello{Purpose: ipc.Status}, nil); !errors.Is(err, ipc.ErrNoDaemon) {
		t.Errorf("%v", err)
	}
}

// TestDrain: a call that takes longer than the daemon waits is answered with an error that says what
// may have happened.
func TestDrain(t *testing.T) {
	w := start(t, func(o *daemon.Options) { o.Drain = time.Millisecond })
	s := w.client(ipc.Hello{Folder: w.folder(map[string]string{"a": ""}), Server: "a"}, nil, session.Options{})
	answer := make(chan error, 1)
	file := filepath.Join(t.TempDir(), "calls")
	go func() {
		_, err := w.tryCall(s, "wait", map[string]any{"file": file, "seconds": 60})
		answer <- err
	}()
	w.until("the call has arrived", func() bool { _, err := os.Stat(file); return err == nil })
	conn, err := w.connect(ipc.Hello{Purpose: ipc.Handover}, nil)
	must(t, err)
	_ = conn.Close()
	if err := <-answer; err == nil || !strings.Contains(err.Error(), "another daemon takes over; the request may have been executed") {
		t.Errorf("%v", err)
	}
	if err := w.end(); !errors.Is(err, daemon.ErrHandover) {
		t.Errorf("%v", err)
	}
	w.ended = make(chan error, 1)
	w.ended <- context.Canceled
}

// TestIdle: a daemon without clients ends.
func TestIdle(t *testing.T) {
	w := start(t, func(o *daemon.Options) { o.Idle = 100 * time.Millisecond })
	if err := w.end(); !errors.Is(err, daemon.ErrIdle) {
		t.Errorf("%v", err)
	}
	w.ended = make(chan error, 1)
	w.ended <- context.Canceled
}

// TestCrash: when a server dies during a call, the caller is told, the call is not repeated, and
// other servers go on.
func TestCrash(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": "", "b": ""})
	s := w.client(ipc.Hello{Folder: dir}, nil, session.Options{})
	file := filepath.Join(t.TempDir(), "calls")
	if _, err := w.tryCall(s, "a_exit", map[string]any{"file": file, "text": "x"}); err == nil {
		t.Error("a call to a server that exits succeeded")
	}
	if got := w.call(s, "b_echo", map[string]any{"text": "y"}); got != "y" {
		t.Errorf("%q", got)
	}
	if got := w.call(s, "a_echo", map[string]any{"text": "z"}); got != "z" {
		t.Errorf("%q", got)
	}
	if calls, err := os.ReadFile(file); err != nil || string(calls) != "x\n" {
		t.Errorf("%q, %v", calls, err)
	}
}

// TestManyClients: of many clients that call the same server, each receives its own answers, once,
// while others cancel calls and the list changes.
func TestManyClients(t *testing.T) {
	clients, calls := 20, 50
	if testing.Short() {
		clients, calls = 10, 20
	}
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": "", "b": ""})
	file := filepath.Join(t.TempDir(), "calls")
	var all sync.WaitGroup
	for n := range clients {
		s := w.client(ipc.Hello{Folder: dir, Client: strconv.Itoa(n)}, nil, session.Options{})
		all.Go(func() {
			for i := range calls {
				server := "ab"[i%2 : i%2+1]
				want := fmt.Sprintf("%d.%d", n, i)
				switch {
				case i%50 == 25:
					if _, err := w.tryCall(s, server+"_grow", nil); err != nil {
						t.Errorf("grow: %v", err)
					}
				case i%10 == 5:
					ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
					_, err := s.CallTool(ctx, server+"_wait", nil)
					cancel()
					if err == nil {
						t.Error("a cancelled call succeeded")
					}
				default:
					got, err := w.tryCall(s, server+"_echo", map[string]any{"text": want, "file": file})
					if err != nil || got != want {
						t.Errorf("asked for %s, got %s: %v", want, got, err)
					}
				}
			}
		})
	}
	all.Wait()
	lines, err := os.ReadFile(file)
	must(t, err)
	seen := map[string]int{}
	for line := range strings.Lines(string(lines)) {
		seen[line]++
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("%s was called %d times", strings.TrimSpace(line), n)
		}
	}
	if st := w.d.Status(); len(st.Servers) != 2 {
		t.Errorf("%+v", st)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
