//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/mcptrack/mcptrack/core/daemon/attach"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// programs is the name of the variable whose value is the folder with mcptrack-attach, as it is released,
// and mcptrack, which is the test binary.
const programs = "MCPTRACK_TEST_PROGRAMS"

// TestMain lets the test binary also be mcptrack, whose daemon serves MCP with one tool.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "mcptrack" {
		os.Exit(buildAndTest(m))
	}
	var err error
	switch os.Args[1] {
	case "daemon":
		err = daemon(os.Args[2] == "--replace")
	case "gateway":
		fmt.Printf("%q\n", os.Args[1:])
		_, err = io.Copy(os.Stdout, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// buildAndTest builds mcptrack-attach, and runs the tests.
func buildAndTest(m *testing.M) int {
	bin, err := os.MkdirTemp("", "attach")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(bin) }()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "mcptrack"))
	}
	if err == nil {
		err = os.Setenv(programs, bin)
	}
	if err != nil {
		panic(err)
	}
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		return 1
	}
	return m.Run()
}

// daemon serves clients until one of them wants it to stop. In the folder of its socket, the file
// "starts" counts the daemons, "environment" has their environment, "config" is the config that refuses
// clients, and "version" is the version of the next daemon.
func daemon(replace bool) error {
	socket, err := ipc.Socket(os.LookupEnv)
	if err != nil {
		return err
	}
	dir := filepath.Dir(socket)
	if _, err := os.Stat(filepath.Join(dir, "fails")); err == nil {
		return fmt.Errorf("this daemon fails")
	}
	version, _ := os.ReadFile(filepath.Join(dir, "version"))
	build := ipc.Build{Version: string(bytes.TrimSpace(version))}
	if replace {
		old := ipc.Client{Socket: socket, LookupEnv: os.LookupEnv, Build: build}
		conn, _, err := old.Open(context.Background(), ipc.Hello{Purpose: ipc.Handover})
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, conn)
	}
	lock, err := ipc.Acquire(context.Background(), socket, replace)
	if err != nil {
		return err
	}
	defer lock.Release()
	starts, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintln(starts, os.Getpid())
	_ = starts.Close()
	folder, _ := os.Getwd()
	if err := os.WriteFile(filepath.Join(dir, "environment"), []byte(strings.Join(append(os.Environ(), "folder="+folder), "\n")), 0o600); err != nil {
		return err
	}
	listener, err := ipc.Listen(socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return nil
		}
		clients.Go(func() {
			defer conn.Close()
			c, err := ipc.Accept(ctx, conn, build)
			if err != nil {
				return
			}
			if serve(ctx, c) {
				cancel()
			}
		})
	}
}

// serve serves one client and reports whether it wants the daemon to stop.
func serve(ctx context.Context, c *ipc.Conn) (stop bool) {
	if c.Hello.Server == "refused" {
		_ = c.Refuse(&ipc.Refused{Code: "config_invalid", Message: "the config is invalid", Hint: "run mcptrack validate", Exit: 3})
		return false
	}
	values, err := c.Need([]string{"WANTED", "UNSET"})
	if err != nil || c.OK() != nil {
		return false
	}
	if c.Hello.Purpose != ipc.Attach {
		return c.Hello.Purpose == ipc.Handover || c.Hello.Purpose == ipc.Stop
	}
	srv := mcpserver.New(mcpserver.Options{Name: "test", CallTool: func(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		switch r.Name() {
		case "wait":
			<-ctx.Done()
		case "large": // as a long list of tools
			return json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": strings.Repeat("x", 200<<10)}}})
		case "hello":
			text, _ := json.Marshal(map[string]any{"hello": c.Hello, "values": values, "pid": os.Getpid()})
			return json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}})
		}
		return json.RawMessage(`{"content":[]}`), nil
	}})
	defer srv.Close()
	srv.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{json.RawMessage(`{"name":"echo","inputSchema":{"type":"object"}}`)}})
	_ = srv.ServeIO(ctx, c, c)
	return false
}

// place is a folder with the programs mcptrack-attach and mcptrack, and one for the socket.
type place struct {
	*testing.T
	program, dir string
	env          []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, program: filepath.Join(os.Getenv(programs), "mcptrack-attach")}
	// The path of a socket is short, and that of t.TempDir may be long.
	var err error
	if p.dir, err = os.MkdirTemp("", "attach"); err != nil {
		t.Fatal(err)
	}
	p.env = []string{"MCPTRACK_SOCKET=" + filepath.Join(p.dir, "s"), "HOME=" + p.dir, "PATH=" + os.Getenv("PATH"), "WANTED=yes", "SECRET=no"}
	t.Cleanup(func() {
		p.stop()
		for line := range strings.Lines(p.file("starts")) { // those that did not stop
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = os.RemoveAll(p.dir)
	})
	return p
}

func (p *place) file(name string) string {
	b, _ := os.ReadFile(filepath.Join(p.dir, name)) // empty if there is none
	return string(b)
}

func (p *place) lookup(key string) (string, bool) {
	for _, e := range p.env {
		if value, ok := strings.CutPrefix(e, key+"="); ok {
			return value, true
		}
	}
	return "", false
}

func (p *place) client() *ipc.Client {
	return &ipc.Client{Socket: filepath.Join(p.dir, "s"), LookupEnv: p.lookup}
}

func (p *place) stop() {
	conn, _, err := p.client().Open(context.Background(), ipc.Hello{Purpose: ipc.Stop})
	if err == nil {
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
}

// session is a running mcptrack-attach.
type session struct {
	*testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	stdout io.Closer
	out    *bufio.Reader
	stderr bytes.Buffer // after end
}

func (p *place) attach(args ...string) *session {
	p.Helper()
	s := &session{T: p.T, cmd: exec.CommandContext(p.Context(), p.program, args...)}
	s.cmd.Env, s.cmd.Dir, s.cmd.Stderr = p.env, p.dir, &s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		p.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	s.stdout, s.out = out, bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	return s
}

func (s *session) says(line string) {
	s.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.Fatal(err)
	}
}

func (s *session) hears(parts ...string) string {
	s.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.Fatalf("the client received %q, %v; want %q; stderr: %s", line, err, parts, s.stderr.String())
	}
	return line
}

// end waits for the end of the program and returns its exit code.
func (s *session) end() int {
	_ = s.in.Close()
	_, _ = io.Copy(io.Discard, s.out)
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

func call(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool)
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

func (s *session) begin() {
	s.Helper()
	s.says(initialize)
	s.hears(`"id":0`, "protocolVersion")
	s.says(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func TestTheProgramStartsADaemonAndServesAClient(t *testing.T) {
	p := newPlace(t)
	s := p.attach("files", "--config", "some.json")
	s.begin()
	s.says(call(1, "hello"))
	got := s.hears(`"id":1`)
	for _, want := range []string{`\"server\":\"files\"`, `/some.json\"`, `\"WANTED\":\"yes\"`, `\"purpose\":\"attach\"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the daemon received %s, without %s", got, want)
		}
	}
	if strings.Contains(got, "SECRET") {
		t.Errorf("the daemon received what it did not ask for: %s", got)
	}
	s.says(call(2, "echo") + "\n" + call(3, "echo"))
	if code := s.end(); code != 0 || s.stderr.Len() > 0 {
		t.Errorf("exit code %d: %s", code, s.stderr.String())
	}
	env := p.file("environment")
	if strings.Contains(env, "SECRET") || strings.Contains(env, "WANTED") || !strings.Contains(env, "\nfolder=/") || !strings.Contains(env, "HOME="+p.dir) {
		t.Errorf("the environment of the daemon: %s", env)
	}
}

func TestAnswersFollowTheEndOfInput(t *testing.T) {
	p := newPlace(t)
	s := p.attach()
	s.says(initialize + "\n" + call(1, "echo"))
	_ = s.in.Close()
	s.hears(`"id":0`)
	s.hears(`"id":1`)
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d: %s", code, s.stderr.String())
	}
}

func TestANewerClientReplacesTheDaemon(t *testing.T) {
	p := newPlace(t)
	if err := os.WriteFile(filepath.Join(p.dir, "version"), []byte("v1.0.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := p.attach()
	s.begin()
	if err := os.WriteFile(filepath.Join(p.dir, "version"), []byte("v1.2.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := p.client()
	client.Program, client.Build = filepath.Join(filepath.Dir(p.program), "mcptrack"), ipc.Build{Version: "v1.1.0"}
	var replacing sync.WaitGroup
	for range 5 {
		replacing.Go(func() {
			if err := client.Replace(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	replacing.Wait()
	s.says(call(1, "echo"))
	s.hears(`"id":1`)
	if starts := p.file("starts"); strings.Count(starts, "\n") != 2 {
		t.Errorf("daemons started: %s", starts)
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d: %s", code, s.stderr.String())
	}
}

func TestARefusedClientSeesWhy(t *testing.T) {
	p := newPlace(t)
	s := p.attach("refused")
	if code := s.end(); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if got, want := s.stderr.String(), "mcptrack-attach: the config is invalid\nhint: run mcptrack validate\n"; got != want {
		t.Errorf("stderr: %q; want %q", got, want)
	}
}

func TestWithoutADaemonTheServersStartForTheClient(t *testing.T) {
	p := newPlace(t)
	if err := os.WriteFile(filepath.Join(p.dir, "fails"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := p.attach("files", "--approved", "--config=c.json")
	s.says("input")
	s.hears(`["gateway" "--stdio" "--all" "--instead" "--server" "files" "--approved" "--config" "c.json"]`)
	s.hears("input")
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := s.stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "daemon logs") {
		t.Errorf("stderr: %s", got)
	}
}

func TestSignalsEndTheProgram(t *testing.T) {
	p := newPlace(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := p.attach()
		s.begin()
		// A write to a daemon that was just killed causes SIGPIPE.
		if err := s.cmd.Process.Signal(syscall.SIGPIPE); err != nil {
			t.Fatal(err)
		}
		s.says(call(1, "echo"))
		s.hears(`"id":1`)
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, s.out)
		if err := s.cmd.Wait(); err != nil || s.stderr.Len() > 0 {
			t.Errorf("%s: %v, %s", sig, err, s.stderr.String())
		}
	}
}

// The program ends when the client no longer reads.
func TestAClosedOutputEndsTheProgram(t *testing.T) {
	p := newPlace(t)
	s := p.attach()
	s.begin()
	if err := s.stdout.Close(); err != nil {
		t.Fatal(err)
	}
	s.says(call(1, "echo"))
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, s.stderr.String())
	}
}

// A daemon with another version of the handshake cannot be used.
func TestADaemonOfAnotherProtocolIsNotUsed(t *testing.T) {
	p := newPlace(t)
	l, err := ipc.Listen(filepath.Join(p.dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadString('\n')
			_, _ = io.WriteString(conn, `{"mcptrack":9,"ok":true}`+"\n")
			_ = conn.Close()
		}
	}()
	s := p.attach()
	s.hears(`["gateway" "--stdio" "--all" "--instead"]`)
	s.end()
}

// TestTheProgramIsSmall checks the memory of the program after large messages.
func TestTheProgramIsSmall(t *testing.T) {
	p := newPlace(t)
	s := p.attach()
	s.begin()
	for i := range 50 {
		s.says(call(i, "large"))
		s.hears(fmt.Sprintf(`"id":%d,`, i))
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Skip("there is no /proc")
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	if kib > 8<<10 {
		t.Errorf("the peak RSS is %d KiB", kib)
	}
	s.end()
}

func TestTheCommandLine(t *testing.T) {
	getenv := func(key string) string { return map[string]string{"MCPTRACK_CONFIG": "env.json"}[key] }
	for _, c := range []struct {
		args string
		want attach.Options
		err  string
	}{
		{"", attach.Options{Config: "env.json"}, ""},
		{"a --config c", attach.Options{Server: "a", Config: "c"}, ""},
		{"--config=c a", attach.Options{Server: "a", Config: "c"}, ""},
		{"--host cursor -- -a", attach.Options{Server: "-a", Host: "cursor"}, ""},
		{"--approved a --config c", attach.Options{Server: "a", Config: "c", Approved: true}, ""},
		{"--approved=no", attach.Options{}, "takes no value"},
		{"a b", attach.Options{}, "more than one"},
		{"--config", attach.Options{}, "--config needs a value"},
		{"--host= a", attach.Options{}, "--host needs a value"},
		{"--host x --config y", attach.Options{}, "cannot be used together"},
		{"--conf y", attach.Options{}, `unknown flag "--conf"`},
	} {
		opts, err := attach.Parse(strings.Fields(c.args), getenv)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v", c.args, err)
			}
		} else if err != nil || opts.Server != c.want.Server || opts.Config != c.want.Config || opts.Host != c.want.Host || opts.Approved != c.want.Approved {
			t.Errorf("%q: %+v, %v", c.args, opts, err)
		}
	}
	for line := range strings.Lines(usage) {
		if len(line) > 81 {
			t.Errorf("the help is wider than 80 columns: %s", line)
		}
	}
}

// TestImports: what these packages initialize would take memory in every session.
func TestImports(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", ".")
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		linked := strings.Fields(string(out))
		if !slices.Contains(linked, "net") {
			t.Errorf("%s: %d packages", system, len(linked))
		}
		for _, pkg := range []string{"net/http", "crypto/tls", "log/slog", "text/template", "html/template", "regexp"} {
			if slices.Contains(linked, pkg) {
				t.Errorf("%s: %s is linked", system, pkg)
			}
		}
	}
}
