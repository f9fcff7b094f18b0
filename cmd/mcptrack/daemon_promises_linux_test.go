package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// mustAttach is like attach, and ends the test if it fails.
func (a *account) mustAttach(answer func(string) string, args ...string) *agent {
	a.Helper()
	g, err := a.attach(answer, args...)
	if err != nil {
		a.Fatalf("%v: %s", err, g.stderr.String())
	}
	return g
}

// closes ends the session of an agent, and checks that nothing was wrong in it.
func (a *account) closes(g *agent) {
	a.Helper()
	if problems := g.end(); len(problems) > 0 {
		a.Errorf("%q", problems)
	}
}

// must calls a tool, which must succeed.
func (a *account) must(g *agent, tool, token string) {
	a.Helper()
	if _, err := g.call(tool, token); err != nil {
		a.Fatalf("%s %s: %v", tool, token, err)
	}
}

// killDaemon ends the daemon with SIGKILL.
func (a *account) killDaemon() {
	a.Helper()
	for _, p := range a.ofKind("daemon") {
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
			a.Fatal(err)
		}
	}
}

// A client whose daemon dies hears of lists that differ afterwards, and of none if they do not.
func TestDeathOfADaemonAnnouncesOnlyChanges(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	const changed = "notifications/tools/list_changed"
	g := a.mustAttach(nil, "counted")
	before, err := g.tools()
	if err != nil || !slices.Contains(before, "tick") {
		t.Fatal(before, err)
	}
	a.must(g, "tick", "1")
	a.killDaemon()
	// The call is not sent if the relay has noticed the death, and fails if it has not.
	waitFor(t, "a daemon", func() bool { _, err := g.call("tick", "2"); return err == nil })
	a.must(g, "change", "3") // the next list that the client hears of
	if n := g.heard(changed, 1); n != 1 {
		t.Errorf("the lists are the same, but the client heard of %d changes", n-1)
	}

	// change has no effect on the next process, so the lists differ from now on.
	save(t, a.counted+".tools", "extra")
	a.killDaemon()
	waitFor(t, "a daemon", func() bool { _, err := g.call("tick", "4"); return err == nil })
	if n := g.heard(changed, 2); n != 2 {
		t.Errorf("the client heard of %d changes, want 2", n)
	}
	after, err := g.tools()
	if err != nil || !slices.Contains(after, "extra") || len(after) != len(before)+1 {
		t.Errorf("the tools are %q, were %q, %v", after, before, err)
	}
	a.must(g, "change", "5")
	if n := g.heard(changed, 3); n != 3 {
		t.Errorf("the client heard of %d changes, want 3", n)
	}
	a.closes(g)
}

// A daemon that hands over answers what is in flight. Sessions continue with its successor, and their
// lists are the same.
func TestHandoverAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	g := a.mustAttach(nil, "counted")
	if _, err := g.tools(); err != nil {
		t.Fatal(err)
	}
	_, response := g.start("tools/call", map[string]any{"name": "hold", "arguments": map[string]any{"token": "1"}})
	waitFor(t, "the call", func() bool { return slices.Contains(a.calls(), "hold 1") })
	before := a.ofKind("daemon")
	replaced := make(chan error, 1) // sent to once; never closed
	go func() {
		_, err := a.run("daemon", "--replace")
		replaced <- err
	}()
	waitFor(t, "the daemon to accept no more clients", func() bool {
		conn, err := net.Dial("unix", a.socket)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	save(t, a.counted+".release", "")
	if m, err := g.await(response); err != nil || m.Result.Content[0].Text != "1" {
		t.Errorf("%+v, %v", m, err)
	}
	if err := <-replaced; err != nil {
		t.Fatal(err)
	}
	a.must(g, "tick", "2")
	after := a.ofKind("daemon")
	if len(before) != 1 || len(after) != 1 || before[0].pid == after[0].pid {
		t.Errorf("before %+v, after %+v", before, after)
	}
	a.must(g, "change", "3")
	if n := g.heard("notifications/tools/list_changed", 1); n != 1 {
		t.Errorf("the lists are the same, but the client heard of %d changes", n-1)
	}
	a.closes(g)
	if calls := a.calls(); !slices.Equal(calls, []string{"hold 1", "tick 2", "change 3"}) {
		t.Errorf("the server executed %q", calls)
	}
}

// Clients that call while one daemon after another hands over receive no error.
func TestHandoversLoseNoCalls(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	over := make(chan struct{}) // closed after the last handover
	var clients sync.WaitGroup
	for n := range 6 {
		g := a.mustAttach(nil, "counted")
		clients.Go(func() {
			for i := 0; ; i++ {
				if _, err := g.call("tick", fmt.Sprintf("call-%d-%d", n, i)); err != nil {
					t.Errorf("client %d, call %d: %v: %s", n, i, err, g.stderr.String())
					if !errors.Is(err, errFailed) {
						return
					}
				}
				select {
				case <-over:
					a.closes(g)
					return
				default:
				}
			}
		})
	}
	for range 3 {
		if _, err := a.run("daemon", "--replace"); err != nil {
			t.Error(err)
		}
	}
	close(over)
	clients.Wait()
	executed := a.calls()
	slices.Sort(executed)
	if once := slices.Compact(slices.Clone(executed)); len(once) != len(executed) {
		t.Errorf("of %d calls, %d were executed again", len(once), len(executed)-len(once))
	}
}

// A client that does not read delays neither the others nor the end of the daemon.
func TestAClientThatDoesNotReadDelaysNobody(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	stuck, other := a.mustAttach(nil, "counted"), a.mustAttach(nil, "counted")
	if err := stuck.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Beside a process that is stopped, one client does not read more than a socket holds.
	conn, _, err := (&ipc.Client{Socket: a.socket, LookupEnv: func(string) (string, bool) { return "", false }}).Open(t.Context(),
		ipc.Hello{Purpose: ipc.Attach, Folder: a.dir, Config: a.config, Server: "counted", Path: os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	large := strings.Repeat("x", 100<<10)
	fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	for i := range 30 {
		fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"tick","arguments":{"token":"%d%s"}}}`+"\n", i+1, i, large)
	}
	waitFor(t, "the calls", func() bool { return len(a.calls()) >= 30 })
	a.must(other, "tick", "other")
	a.closes(other)
	if n := len(a.ofKind("daemon")); n != 1 {
		t.Fatalf("%d daemons", n)
	}
	a.mustRun("daemon", "stop")
	if err := stuck.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-stuck.ended
}

// A daemon that hangs leaves no client without servers. status and stop name its process.
func TestADaemonThatHangs(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	user := a.mustAttach(nil, "counted")
	pid := a.ofKind("daemon")[0].pid
	old := time.Now().Add(-time.Hour) // a daemon that has just begun to listen may take longer to answer
	if err := errors.Join(syscall.Kill(pid, syscall.SIGSTOP), os.Chtimes(a.socket, old, old)); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("the daemon (pid %d) does not answer; kill -9 %[1]d ends it", pid)
	var asking sync.WaitGroup
	for _, command := range []string{"status", "stop"} {
		asking.Go(func() {
			if _, err := a.run("daemon", command); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", command, err)
			}
		})
	}
	asking.Go(func() {
		g, err := a.attach(nil, "counted")
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := g.call("tick", "hung"); err != nil {
			t.Error(err)
		}
		if problems := g.end(); len(problems) > 0 || !strings.Contains(g.stderr.String(), want+"; the servers are started for this client alone") {
			t.Errorf("%q: %s", problems, g.stderr.String())
		}
	})
	asking.Wait()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.must(user, "tick", "awake")
	a.closes(user)
}

// watch continues over the daemon while the config has an entry that is not approved, and follows the
// server once it is.
func TestWatchOverADaemonWaitsForApproval(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.env = slices.DeleteFunc(a.env, func(v string) bool { return strings.HasPrefix(v, "MCPTRACK_TRUST=") })
	save(t, a.config, config(a.tracked("counted")))
	a.mustRun("trust", "--yes")
	g := a.mustAttach(nil)
	watch := exec.Command("mcptrack", "watch", "-v")
	watch.Dir, watch.Env = a.dir, a.env
	var out written
	watch.Stdout, watch.Stderr = &out, &out
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Process.Kill() }()
	says := func(what string) { waitFor(t, what, func() bool { return strings.Contains(out.String(), what) }) }
	says("counted  following ")
	save(t, a.config, config(a.tracked("counted"), a.tracked("added")))
	says("config reloaded  +added")
	a.mustRun("trust", "--yes")
	says("added  following ")
	_ = watch.Process.Signal(os.Interrupt)
	if err := watch.Wait(); err != nil || !strings.Contains(out.String(), "using the daemon") || strings.Contains(out.String(), "this process now follows") || strings.Contains(out.String(), "0001-") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	a.closes(g)
}

// The log of the daemon says why it crashed.
func TestTheLogShowsACrash(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.closes(a.mustAttach(nil, "counted"))
	if err := syscall.Kill(a.ofKind("daemon")[0].pid, syscall.SIGABRT); err != nil { // the runtime crashes
		t.Fatal(err)
	}
	waitFor(t, "the crash", func() bool { return strings.Contains(a.mustRun("daemon", "logs"), "SIGABRT") })
	a.closes(a.mustAttach(nil, "counted")) // and with it, the next daemon ends the server
}

// Many clients share the servers of one daemon. Every response, notification of progress, cancellation
// and question reaches the client that it is for, once.
func TestManyClientsShareADaemon(t *testing.T) {
	t.Parallel()
	clients, calls := 50, 200
	if testing.Short() {
		clients, calls = 12, 20
	}
	a := newAccount(t)
	var running sync.WaitGroup
	for n := range clients {
		running.Go(func() {
			var answer func(string) string
			if n%5 == 0 { // the others declare nothing
				answer = func(question string) string { return fmt.Sprintf("answer of %d to %s", n, question) }
			}
			g, err := a.attach(answer, "counted")
			if err != nil {
				t.Errorf("client %d: %v: %s", n, err, g.stderr.String())
				return
			}
			if err := a.use(g, n, calls); err != nil {
				t.Errorf("client %d: %v", n, err)
			}
			a.closes(g)
		})
	}
	running.Wait()
	executed := map[string]int{}
	for _, call := range a.calls() {
		executed[call]++
	}
	for call, n := range executed {
		if n > 1 {
			t.Errorf("%q was executed %d times", call, n)
		}
		if token, waits := strings.CutPrefix(call, "wait "); waits && executed["cancelled "+token] != 1 {
			t.Errorf("%q was not cancelled", call)
		}
	}
	if len(executed) < clients*calls {
		t.Errorf("%d calls were executed", len(executed))
	}
}

// use calls each tool in turn.
func (a *account) use(g *agent, n, calls int) error {
	for i := range calls {
		token := fmt.Sprintf("call-%d-%d", n, i)
		switch tool := []string{"tick", "progress", "wait", "ask", "tick"}[i%5]; {
		case tool == "wait":
			id, response := g.start("tools/call", map[string]any{"name": "wait", "arguments": map[string]any{"token": token}})
			if err := a.cancels(g, id, response, token); err != nil {
				return err
			}
		case tool == "ask" && g.answer != nil:
			if text, err := g.call(tool, token); err != nil || text != fmt.Sprintf("%s accept answer of %d to %s", token, n, token) {
				return fmt.Errorf("%s: %q, %w", token, text, err)
			}
		case tool == "ask" && i%20 == 3: // all clients of the shared session hear of it
			heard := g.heard("notifications/tools/list_changed", 0)
			if _, err := g.call("change", token); err != nil {
				return err
			}
			if g.heard("notifications/tools/list_changed", heard+1) == heard {
				return fmt.Errorf("%s: no list_changed", token)
			}
		default:
			if tool == "ask" {
				tool = "tick"
			}
			if text, err := g.call(tool, token); err != nil || text != token {
				return fmt.Errorf("%s: %q, %w", token, text, err)
			}
			if tool != "progress" {
				continue
			}
			if heard := g.heard(fmt.Sprintf("progress %q %s", token, token), 3); heard != 3 {
				return fmt.Errorf("%s: %d notifications of progress", token, heard)
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for method := range g.news {
		if strings.HasPrefix(method, "progress") && !strings.Contains(method, fmt.Sprintf(`"call-%d-`, n)) {
			return fmt.Errorf("it heard of the %s of another client", method)
		}
	}
	return nil
}

// cancels cancels a call of the tool wait once the server executes it, and waits until the server has
// heard of that.
func (a *account) cancels(g *agent, id string, response <-chan rpc, token string) error {
	recorded := func(line string) bool { return slices.Contains(a.calls(), line) }
	if !eventually(func() bool { return recorded("wait " + token) }) {
		return fmt.Errorf("%s is not executed", token)
	}
	g.mu.Lock()
	g.stopped[id] = true
	delete(g.waiting, id)
	g.mu.Unlock()
	if err := g.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": json.RawMessage(id)}}); err != nil {
		return err
	}
	if !eventually(func() bool { return recorded("cancelled " + token) }) {
		return fmt.Errorf("%s is not cancelled", token)
	}
	select {
	case m := <-response:
		return fmt.Errorf("%s received a response: %+v", token, m)
	default:
		return nil
	}
}

// Clients share no server whose command or secrets differ, even if its name and config are the same, and
// what the daemon shows contains no secret.
func TestDifferentServersAreNotShared(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	remote := mcpserver.New(mcpserver.Options{
		Principal: func(r *http.Request) string { return r.Header.Get("Authorization") },
		CallTool: func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": "token " + r.Principal}}})
		},
	})
	defer remote.Close()
	remote.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{json.RawMessage(`{"name":"who","inputSchema":{"type":"object"}}`)}})
	web := httptest.NewServer(remote)
	defer web.Close()

	of := func(token string) *account {
		theirs := *a
		theirs.env = append(slices.Clone(a.env), "TOKEN="+token)
		return &theirs
	}
	tokens := []string{"secret-of-the-first-client", "secret-of-the-second-client"}
	for _, shared := range []string{`"folder"`, `"machine"`} {
		save(t, a.config, config(
			fmt.Sprintf(`"counted": {"command": "counted-server", "args": [%q], "env": {%q: %q, "COUNTED_AS": "${TOKEN}"}, "shared": %s}`, a.counted, peerMark, a.dir, shared),
			fmt.Sprintf(`"web": {"type": "http", "url": %q, "headers": {"Authorization": "Bearer ${TOKEN}"}, "shared": %s}`, web.URL, shared)))
		var agents []*agent
		for _, token := range tokens {
			agents = append(agents, of(token).mustAttach(nil))
		}
		for i, token := range tokens {
			for tool, want := range map[string]string{"counted_tick": "token " + token, "web_who": "token Bearer " + token} {
				if text, err := agents[i].call(tool, "token"); err != nil || text != want {
					t.Errorf("%s of client %d: %q, %v; want %q", tool, i, text, err, want)
				}
			}
		}
		if n := len(a.ofKind("counted")); n != 2 {
			t.Errorf("%d processes, want 2", n)
		}
		same := of(tokens[0]).mustAttach(nil)
		if text, err := same.call("counted_tick", "token"); err != nil || text != "token "+tokens[0] {
			t.Errorf("%q, %v", text, err)
		}
		if n := len(a.ofKind("counted")); n != 2 {
			t.Errorf("%d processes, want 2: clients with the same token share one", n)
		}
		a.showsNoSecret(tokens)
		for _, g := range append(agents, same) {
			a.closes(g)
		}
		a.stop()
	}

	// Two folders have servers of the same name, but with other arguments.
	for i := range tokens {
		folder := *a
		folder.dir = filepath.Join(a.dir, strconv.Itoa(i))
		if err := os.Mkdir(folder.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		save(t, filepath.Join(folder.dir, "mcp-servers.json"), config(fmt.Sprintf(`"counted": {"command": "counted-server", "args": [%q], "env": {%q: %q}, "shared": "machine"}`, a.counted+strconv.Itoa(i), peerMark, a.dir)))
		g := folder.mustAttach(nil, "counted")
		a.must(g, "tick", strconv.Itoa(i))
		a.closes(g)
	}
	for i := range tokens {
		if b, err := os.ReadFile(a.counted + strconv.Itoa(i)); string(b) != fmt.Sprintf("tick %d\n", i) {
			t.Errorf("server %d executed %q, %v", i, b, err)
		}
	}
}

// showsNoSecret checks what the commands show about the daemon, its log, its files and its environment.
func (a *account) showsNoSecret(secrets []string) {
	a.Helper()
	shown := map[string]string{}
	for _, args := range [][]string{{"daemon", "status"}, {"daemon", "status", "--json"}, {"daemon", "status", "--output", "wide"}, {"daemon", "logs"}} {
		out, err := a.run(args...)
		if err != nil || out == "" {
			a.Errorf("%q: %q, %v", args, out, err)
		}
		shown[strings.Join(args, " ")] = out
	}
	for _, p := range a.ofKind("daemon") {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err != nil {
			a.Fatal(err)
		}
		shown["environment"] = string(env)
	}
	state := filepath.Join(a.dir, ".state")
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		shown[path] = string(b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.Fatal(err)
	}
	for where, text := range shown {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				a.Errorf("%s contains a secret", where)
			}
		}
	}
}
