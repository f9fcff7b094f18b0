package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
)

// account is what one user of the machine has: folders, an environment, and a daemon. Its methods may
// be called concurrently unless they fail the test.
type account struct {
	*testing.T

	dir     string
	socket  string
	env     []string
	counted string // the file of the counted server
	config  string
}

// newAccount returns an account whose config has the counted server. Its processes
// must have ended when the test ends.
func newAccount(t *testing.T) *account {
	t.Helper()
	dir, err := os.MkdirTemp("", "mcptrack") // the path of a socket is short, and that of t.TempDir may be long
	if err != nil {
		t.Fatal(err)
	}
	a := &account{T: t, dir: dir, socket: filepath.Join(dir, "run", "s"), counted: filepath.Join(dir, "calls"), config: filepath.Join(dir, "mcp-servers.json")}
	a.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "MCPTRACK_SOCKET=" + a.socket, "MCPTRACK_TRUST=" + dir, "NO_COLOR=1",
		"XDG_CACHE_HOME=" + dir + "/.cache", "XDG_CONFIG_HOME=" + dir + "/.config", "XDG_STATE_HOME=" + dir + "/.state",
	}
	save(t, a.config, config(`"counted": `+a.entry("counted-server", a.counted)))
	t.Cleanup(func() {
		a.stop()
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(dir, ".state", "mcptrack", "daemon*", "daemon.log"))
			for _, name := range logs {
				log, _ := os.ReadFile(name)
				t.Logf("the log of the daemon:\n%s", log[max(0, len(log)-8000):])
			}
		}
		for _, p := range a.processes() {
			t.Errorf("left: %d %q", p.pid, p.args)
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		_ = os.RemoveAll(dir)
	})
	return a
}

// entry returns a config entry of a server with the mark of the account.
func (a *account) entry(command string, args ...string) string {
	return marshalPeer(a.T, peerEntry{Command: command, Args: args, Env: map[string]string{peerMark: a.dir}})
}

// tracked returns a config member: a counted server whose tools are tracked.
func (a *account) tracked(name string) string {
	return `"` + name + `": ` + strings.TrimSuffix(a.entry("counted-server", a.counted), "}") + `, "trackTools": true}`
}

// proc is a running process of an account.
type proc struct {
	pid  int
	kind string // daemon, attach, counted, or server
	args []string
}

// processes returns the processes that use the socket or have the mark of the account.
func (a *account) processes() (all []proc) {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		panic(err) // the pattern is valid
	}
	for _, file := range environs {
		env, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		env = append(env, 0)
		marked := bytes.Contains(env, []byte(peerMark+"="+a.dir+"\x00"))
		if !marked && !bytes.Contains(env, []byte("MCPTRACK_SOCKET="+a.socket+"\x00")) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || len(line) == 0 {
			continue
		}
		p := proc{args: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), kind: "server"}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		switch name := filepath.Base(p.args[0]); {
		case name == "mcptrack-attach":
			p.kind = "attach"
		case name == "counted-server":
			p.kind = "counted"
		case !marked && len(p.args) > 1 && p.args[1] == "daemon":
			p.kind = "daemon"
		}
		all = append(all, p)
	}
	return all
}

// ofKind returns the processes of a kind.
func (a *account) ofKind(kind string) []proc {
	return slices.DeleteFunc(a.processes(), func(p proc) bool { return p.kind != kind })
}

// stop stops the daemon and waits until no process of the account is left, for at most a minute.
func (a *account) stop() {
	_, _ = a.run("daemon", "stop")
	eventually(func() bool { return len(a.processes()) == 0 })
}

// eventually waits, for at most a minute, until a condition holds, and reports whether it does.
func eventually(ok func() bool) bool {
	for end := time.Now().Add(time.Minute); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// run runs mcptrack in the account's folder.
func (a *account) run(args ...string) (stdout string, err error) {
	cmd := exec.Command("mcptrack", args...)
	cmd.Dir, cmd.Env = a.dir, a.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("mcptrack %q: %w: %s", args, err, errs.String())
	}
	return string(out), err
}

// calls returns the lines of the counted server.
func (a *account) calls() []string {
	b, err := os.ReadFile(a.counted)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// agent is an MCP client of an mcptrack-attach. Its methods may be called concurrently.
type agent struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr written
	ended  chan struct{} // closed after the process has exited
	answer func(question string) string

	mu       sync.Mutex
	lastID   int
	waiting  map[string]chan rpc // a response is sent once to each; capacity 1; never closed
	stopped  map[string]bool     // ids of cancelled requests, which may or may not be answered
	news     map[string]int      // notifications by method
	problems []string
	next     chan struct{} // closed and replaced when something arrives
}

// rpc is a message to an agent.
type rpc struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Message       string
		ProgressToken json.RawMessage
	}
	Result struct {
		IsError bool
		Content []struct{ Text string }
		Tools   []struct{ Name string }
	}
	Error *struct{ Message string }
}

// attach starts mcptrack-attach and initializes a session. A client with answer can be asked.
func (a *account) attach(answer func(string) string, args ...string) (*agent, error) {
	g := &agent{cmd: exec.Command("mcptrack-attach", args...), ended: make(chan struct{}), answer: answer,
		waiting: map[string]chan rpc{}, stopped: map[string]bool{}, news: map[string]int{}, next: make(chan struct{})}
	g.cmd.Dir, g.cmd.Env, g.cmd.Stderr = a.dir, a.env, &g.stderr
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(g.ended)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			g.receive(line)
		}
		_ = g.cmd.Wait()
	}()
	capabilities := map[string]any{}
	if answer != nil {
		capabilities["elicitation"] = map[string]any{}
	}
	_, err = g.do("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": map[string]any{"name": "agent", "version": "1"}})
	if err == nil {
		err = g.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	return g, err
}

func (g *agent) receive(line []byte) {
	var m rpc
	err := json.Unmarshal(line, &m)
	g.mu.Lock()
	defer g.mu.Unlock()
	id := string(m.ID)
	switch {
	case err != nil:
		g.problems = append(g.problems, fmt.Sprintf("%v in %s", err, line))
	case id != "" && m.Method != "":
		reply := map[string]any{"jsonrpc": "2.0", "id": m.ID}
		if m.Method == "elicitation/create" && g.answer != nil {
			reply["result"] = map[string]any{"action": "accept", "content": map[string]any{"answer": g.answer(m.Params.Message)}}
		} else {
			reply["error"] = map[string]any{"code": -32601, "message": "unknown method " + m.Method}
			g.problems = append(g.problems, "asked for "+m.Method)
		}
		go func() { _ = g.send(reply) }() // ends when the process reads or exits
	case id != "":
		if response := g.waiting[id]; response != nil {
			response <- m
			delete(g.waiting, id)
		} else if !g.stopped[id] {
			g.problems = append(g.problems, fmt.Sprintf("another response: %s", line))
		}
		delete(g.stopped, id)
	case m.Method == "notifications/progress":
		g.news[fmt.Sprintf("progress %s %s", m.Params.ProgressToken, m.Params.Message)]++
	default:
		g.news[m.Method]++
	}
	close(g.next)
	g.next = make(chan struct{})
}

func (g *agent) send(message any) error {
	line, err := json.Marshal(message)
	if err == nil {
		g.mu.Lock()
		_, err = g.in.Write(append(line, '\n'))
		g.mu.Unlock()
	}
	return err
}

var (
	errGone   = errors.New("the process has ended")
	errHangs  = errors.New("no response within a minute")
	errFailed = errors.New("an error response")
)

// start sends a request.
func (g *agent) start(method string, params map[string]any) (id string, response <-chan rpc) {
	g.mu.Lock()
	g.lastID++
	id = strconv.Itoa(g.lastID)
	waiting := make(chan rpc, 1)
	g.waiting[id] = waiting
	g.mu.Unlock()
	_ = g.send(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params}) // an error means that the process has ended
	return id, waiting
}

// await waits for a response.
func (g *agent) await(response <-chan rpc) (rpc, error) {
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for {
		select {
		case m := <-response:
			return m, failed(m)
		case <-g.ended:
			select {
			case m := <-response:
				return m, failed(m)
			default:
				return rpc{}, errGone
			}
		case <-late.C:
			return rpc{}, errHangs
		}
	}
}

func failed(m rpc) error {
	switch {
	case m.Error != nil:
		return fmt.Errorf("%w: %s", errFailed, m.Error.Message)
	case m.Result.IsError:
		return fmt.Errorf("%w: %v", errFailed, m.Result.Content)
	}
	return nil
}

func (g *agent) do(method string, params map[string]any) (rpc, error) {
	_, response := g.start(method, params)
	return g.await(response)
}

// call calls a tool with a token. The response must contain the token.
func (g *agent) call(tool, token string) (string, error) {
	m, err := g.do("tools/call", map[string]any{"name": tool, "arguments": map[string]any{"token": token, "message": token}, "_meta": map[string]any{"progressToken": token}})
	if err != nil {
		return "", err
	}
	if len(m.Result.Content) == 0 || !strings.Contains(m.Result.Content[0].Text, token) {
		return "", fmt.Errorf("the call %s received the response %+v", token, m)
	}
	return m.Result.Content[0].Text, nil
}

// tools returns the names of the tools, sorted.
func (g *agent) tools() ([]string, error) {
	m, err := g.do("tools/list", map[string]any{})
	var names []string
	for _, tool := range m.Result.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names, err
}

// heard returns how many notifications of a method were received, waiting until there are some.
func (g *agent) heard(method string, enough int) int {
	late := time.After(time.Minute)
	for {
		g.mu.Lock()
		n, next := g.news[method], g.next
		g.mu.Unlock()
		if n >= enough {
			return n
		}
		select {
		case <-next:
		case <-g.ended:
			return n
		case <-late:
			return n
		}
	}
}

// end closes the session, and returns what was wrong in it.
func (g *agent) end() []string {
	_ = g.in.Close()
	<-g.ended
	g.mu.Lock()
	defer g.mu.Unlock()
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		g.problems = append(g.problems, fmt.Sprintf("exit code %d: %s", code, g.stderr.String()))
	}
	return g.problems
}

// storm is the state of TestRealKillStorm.
type storm struct {
	*account

	over chan struct{} // closed after the last kill

	mu       sync.Mutex
	answered map[string]bool // tokens of the counted server's calls, and whether they succeeded
	answers  int
	errors   map[string]int // by their text
	worst    time.Duration
	worstIs  string
	next     chan struct{} // closed and replaced after each answer
	killed   map[int]bool  // ids of processes
}

// ended reports a session that ended although it was not killed.
func (s *storm) ended(n int, g *agent) {
	_ = g.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.killed[g.cmd.Process.Pid] {
		s.Errorf("the session of user %d has ended: %s: %s", n, g.cmd.ProcessState, g.stderr.String())
	}
}

// user calls a tool until the storm is over, and starts mcptrack-attach again when it was killed.
func (s *storm) user(n int, tool string, args ...string) {
	var g *agent
	for i := 0; ; i++ {
		if g == nil {
			var err error
			g, err = s.attach(nil, args...)
			switch {
			case errors.Is(err, errGone):
				s.ended(n, g)
				g = nil
				continue
			case errors.Is(err, errFailed): // no daemon could be reached for too long
				_ = g.end()
				g = nil
				continue
			case err != nil:
				s.Errorf("user %d cannot start: %v: %s", n, err, g.stderr.String())
				return
			}
		}
		select {
		case <-s.over:
			// What survived works again. What the last kill interrupts fails once, and so does what it
			// prevents from starting.
			var err error
			try := 0
			if !eventually(func() bool {
				try++
				_, err = g.call(tool, fmt.Sprintf("last-%d-%d", n, try))
				return !errors.Is(err, errFailed)
			}) || err != nil && !errors.Is(err, errGone) {
				s.Errorf("user %d: %v", n, err)
			}
			if errors.Is(err, errGone) { // by the last kill
				s.ended(n, g)
				g = nil
				continue
			}
			if problems := g.end(); len(problems) > 0 {
				s.Errorf("user %d: %q", n, problems)
			}
			return
		default:
		}
		token := fmt.Sprintf("call-%d-%d", n, i)
		began := time.Now()
		_, err := g.call(tool, token)
		if errors.Is(err, errGone) {
			s.ended(n, g)
			g = nil
		} else if err != nil && !errors.Is(err, errFailed) {
			s.Errorf("user %d: %v", n, err)
			return
		}
		s.mu.Lock()
		s.answers++
		if strings.Contains(tool, "tick") {
			s.answered[token] = err == nil
			if took := time.Since(began); took > s.worst {
				s.worst, s.worstIs = took, fmt.Sprint(token, " ", err)
			}
		}
		if err != nil {
			s.errors[strings.ReplaceAll(err.Error(), token, "TOKEN")]++
		}
		close(s.next)
		s.next = make(chan struct{})
		s.mu.Unlock()
	}
}

// passes waits for a number of further answers.
func (s *storm) passes(answers int) {
	late := time.After(time.Minute)
	for range answers {
		s.mu.Lock()
		next := s.next
		s.mu.Unlock()
		select {
		case <-next:
		case <-late:
			s.Error("no answers within a minute")
			return
		}
	}
}

// TestRealKillStorm kills daemons, attached clients and servers with SIGKILL while clients call. Each call
// receives one response, none is executed twice, nothing is left, and clients continue.
func TestRealKillStorm(t *testing.T) {
	t.Parallel()
	kills := 100
	if testing.Short() {
		kills = 12
	}
	var everything peerEntry
	unmarshalPeer(t, []byte(startPeer(t, "everything-stdio").Config), &everything)
	s := &storm{over: make(chan struct{}), answered: map[string]bool{}, errors: map[string]int{}, killed: map[int]bool{}, next: make(chan struct{})}
	a := newAccount(t)
	s.account = a
	everything.Env = map[string]string{peerMark: a.dir}
	save(t, a.config, config(`"counted": `+a.entry("counted-server", a.counted),
		`"everything": `+marshalPeer(t, everything),
		`"demo": `+a.entry("mcptrack", "demo-server", "--interval", "200ms")))

	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	var users sync.WaitGroup
	for n := range 10 {
		users.Go(func() {
			switch {
			case n < 6:
				s.user(n, "tick", "counted")
			case n < 8:
				s.user(n, "echo", "everything")
			default:
				s.user(n, "counted_tick", "--config", a.config)
			}
		})
	}
	s.passes(20)
	for i := range kills {
		kind := []string{"daemon", "attach", "counted", "server"}[random.IntN(4)]
		if random.IntN(3) > 0 { // otherwise while what was killed before starts again
			s.passes(1 + random.IntN(60))
		}
		var victims []proc
		waitFor(t, "a process to kill", func() bool { victims = a.ofKind(kind); return len(victims) > 0 })
		victim := victims[random.IntN(len(victims))]
		s.mu.Lock()
		s.killed[victim.pid] = true
		s.mu.Unlock()
		if err := syscall.Kill(victim.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		t.Logf("kill %d: %s %d", i, kind, victim.pid)
	}
	close(s.over)
	users.Wait()

	executed := map[string]int{}
	for _, call := range a.calls() {
		executed[strings.TrimPrefix(call, "tick ")]++
	}
	for token, n := range executed {
		if n > 1 {
			t.Errorf("%s was executed %d times", token, n)
		}
	}
	succeeded := 0
	for token, ok := range s.answered {
		if ok {
			succeeded++
		}
		if ok && executed[token] == 0 {
			t.Errorf("%s succeeded, but was not executed", token)
		}
	}
	t.Logf("%d answers; the counted server: %d succeeded, %d failed, worst %s (%s); errors %v", s.answers, succeeded, len(s.answered)-succeeded, s.worst, s.worstIs, s.errors)
	if s.worst > time.Minute { // a busy machine is slow
		t.Errorf("a call took %s: %s", s.worst, s.worstIs)
	}
	if succeeded == 0 {
		t.Error("no call succeeded")
	}
}
