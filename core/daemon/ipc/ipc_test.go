//go:build unix

package ipc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary also be another user's client, or a program that runs a daemon.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "connect":
		fmt.Println(visit(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "daemon":
		if err := runDaemon(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// visit connects to a socket without the checks of a client, and returns what it receives.
func visit(socket string) string {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return "dial: " + err.Error()
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, `{"mcptrack":1,"purpose":"status"}`+"\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	return fmt.Sprintf("%q %v", line, err)
}

// runDaemon accepts clients until one wants it to stop. It records its environment beside its socket.
func runDaemon() error {
	socket, err := Socket(os.LookupEnv)
	if err != nil {
		return err
	}
	lock, err := Acquire(context.Background(), socket, true)
	if err != nil {
		return err
	}
	defer lock.Release()
	folder, _ := os.Getwd()
	if err := os.WriteFile(socket+".env", []byte(strings.Join(append(os.Environ(), "folder="+folder), "\n")), 0o600); err != nil {
		return err
	}
	l, err := Listen(socket)
	if err != nil {
		return err
	}
	defer l.Close()
	time.AfterFunc(time.Minute, func() { _ = l.Close() }) // if the test dies
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil
		}
		c, err := Accept(context.Background(), conn, Build{})
		if err != nil {
			continue
		}
		if c.OK() == nil && c.Hello.Purpose == Stop {
			_ = c.Close()
			return nil
		}
		_ = c.Close()
	}
}

// socket returns the path of a socket in a new folder. That of t.TempDir may be too long.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ipc")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(key string) (string, bool) {
		v, ok := env[key]
		return v, ok
	}
}

func listen(t *testing.T, socket string) net.Listener {
	t.Helper()
	l, err := Listen(socket)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestWhereTheSocketIs(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(socket(t))
	uid := strconv.Itoa(os.Geteuid())
	for _, c := range []struct {
		env            map[string]string
		standard, want string
	}{
		{map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": "/t"}, "", dir + "/mcptrack"},
		{map[string]string{"TMPDIR": "/t"}, "", "/t/mcptrack-" + uid},
		{map[string]string{"XDG_RUNTIME_DIR": dir + "/missing", "TMPDIR": "/t"}, "", "/t/mcptrack-" + uid},
		{map[string]string{"XDG_RUNTIME_DIR": "relative"}, "", "/tmp/mcptrack-" + uid},
		{map[string]string{"TMPDIR": "/t"}, dir, dir + "/mcptrack"}, // a host without XDG_RUNTIME_DIR
	} {
		if got := folder(lookup(c.env), c.standard); got != c.want {
			t.Errorf("%v: %s; want %s", c.env, got, c.want)
		}
	}
	got, err := Socket(lookup(map[string]string{"XDG_RUNTIME_DIR": dir}))
	if err != nil || filepath.Dir(got) != dir+"/mcptrack" {
		t.Errorf("%s, %v", got, err)
	}
	if info, err := os.Stat(filepath.Dir(got)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	if got, err := Socket(lookup(map[string]string{SocketKey: dir + "/a/../other"})); err != nil || got != dir+"/other" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestRefusedSockets(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(socket(t))
	open := filepath.Join(dir, "open")
	must(t, os.Mkdir(open, 0o700))
	if err := os.Chmod(open, 0o770); err != nil { //nolint:gosec // that is the test
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(t.TempDir(), link))
	cases := []struct{ socket, want string }{
		{"relative", "not an absolute path"},
		{filepath.Join(dir, strings.Repeat("x", 100)), "set MCPTRACK_SOCKET to a shorter path"},
		{filepath.Join(open, "s"), "can be changed by other users"},
		{filepath.Join(link, "s"), "is a symbolic link"},
		{"/dev/null/s", "cannot create the folder"},
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(dir, "foreign")
		must(t, os.Mkdir(foreign, 0o700))
		must(t, os.Chown(foreign, 12345, -1))
		cases = append(cases, struct{ socket, want string }{filepath.Join(foreign, "s"), "belongs to another user"})
	}
	for _, c := range cases {
		if _, err := Socket(lookup(map[string]string{SocketKey: c.socket})); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.socket, err, c.want)
		}
	}
}

func TestOneDaemonHoldsTheLock(t *testing.T) {
	t.Parallel()
	s := socket(t)
	first, err := Acquire(t.Context(), s, false)
	must(t, err)
	if _, err := Acquire(t.Context(), s, false); !errors.Is(err, ErrRunning) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Acquire(ended, s, true); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		second, err := Acquire(t.Context(), s, true)
		if err != nil {
			t.Error(err)
			return
		}
		second.Release()
	})
	first.Release()
	waiting.Wait()
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	t.Parallel()
	s := socket(t)
	// Bound, but never listened to: a process that another test starts holds every listener
	// of this one until its exec.
	stale, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	must(t, unix.Bind(stale, &unix.SockaddrUnix{Name: s}))
	must(t, unix.Close(stale))
	c := Client{Socket: s}
	if _, _, err := c.Open(t.Context(), Hello{}); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("%v", err)
	}
	l := listen(t, s)
	if info, err := os.Lstat(s); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if !c.Listens(t.Context()) {
		t.Error("the daemon cannot be reached")
	}
	next := listen(t, s)
	_ = l.Close() // does not remove the socket of the next daemon
	if !c.Listens(t.Context()) {
		t.Error("the next daemon cannot be reached")
	}
	_ = next.Close()
	if files, _ := filepath.Glob(filepath.Dir(s) + "/*"); len(files) > 0 {
		t.Errorf("left: %q", files)
	}
	must(t, os.WriteFile(s, []byte("precious"), 0o600))
	if _, err := Listen(s); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("%v", err)
	}
	if _, _, err := c.Open(t.Context(), Hello{}); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("%v", err)
	}
}

// serve accepts one client and returns what f returns for it.
func serve(t *testing.T, l net.Listener, build Build, f func(*Conn) error) <-chan error {
	t.Helper()
	done := make(chan error, 1) // one value
	go func() {
		conn, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		c, err := Accept(context.Background(), conn, build)
		if err == nil {
			err = f(c)
			_ = c.Close()
		}
		done <- err
	}()
	return done
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	l := listen(t, socket(t))
	done := serve(t, l, Build{Version: "v1.0.0"}, func(c *Conn) error {
		first, err := c.Need([]string{"A", "EMPTY", "UNSET"})
		if err != nil {
			return err
		}
		second, err := c.Need([]string{"B"})
		if err != nil {
			return err
		}
		if err := c.OK(); err != nil {
			return err
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, c)
		if c.Hello.Build.Version != "v1.1.0" || c.Hello.Folder != "/f" {
			return fmt.Errorf("hello: %+v", c.Hello)
		}
		return fmt.Errorf("%v %v %q", first, second, line)
	})
	c := Client{Socket: l.Addr().String(), Build: Build{Version: "v1.1.0"},
		LookupEnv: lookup(map[string]string{"A": "1", "B": "2", "EMPTY": "", "SECRET": "x"})}
	conn, answer, err := c.Open(t.Context(), Hello{Purpose: Attach, Folder: "/f"})
	must(t, err)
	if answer.Build.Version != "v1.0.0" || answer.PID != os.Getpid() {
		t.Errorf("%+v", answer)
	}
	_, _ = io.WriteString(conn, "message\n")
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	_ = conn.Close()
	if got, want := (<-done).Error(), `map[A:1 EMPTY:] map[B:2] "message\n"`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

func TestRefusedClients(t *testing.T) {
	t.Parallel()
	l := listen(t, socket(t))
	want := &Refused{Code: "config_invalid", Message: "m", Hint: "h", Exit: 3}
	done := serve(t, l, Build{}, func(c *Conn) error { return c.Refuse(want) })
	c := Client{Socket: l.Addr().String()}
	_, _, err := c.Open(t.Context(), Hello{})
	if got, ok := errors.AsType[*Refused](err); !ok || *got != *want {
		t.Errorf("%v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHostileClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sends, err, answer string }{
		"no JSON":        {"hello\n", "not the expected JSON", ""},
		"nothing":        {"", "EOF", ""},
		"no end of line": {`{"mcptrack":1`, "unexpected EOF", ""},
		"a huge line":    {strings.Repeat("x", maxLine+1), "longer than", ""},
		"an old client":  {`{"mcptrack":0}` + "\n", "its version is 0", "this program is older than the daemon"},
		"a new client":   {`{"mcptrack":2}` + "\n", "its version is 2", "the daemon is older than this program"},
		"wrong values":   {`{"mcptrack":1}` + "\n" + `{"env":[]}` + "\n", "not the expected JSON", `"need":["A"]`},
		"more values":    {`{"mcptrack":1}` + "\n" + `{"env":{"B":"2","A":"a\u0000b"}}` + "\n", "map[]", `"need":["A"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, socket(t))
			done := serve(t, l, Build{}, func(c *Conn) error {
				values, err := c.Need([]string{"A"})
				if err == nil {
					err = fmt.Errorf("%v", values)
				}
				return err
			})
			conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
			must(t, err)
			defer conn.Close()
			_, _ = io.WriteString(conn, c.sends) // fails if the daemon closes the connection first
			_ = conn.CloseWrite()
			answer, _ := io.ReadAll(conn)
			if err := <-done; err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v; want %q", err, c.err)
			}
			if !strings.Contains(string(answer), c.answer) {
				t.Errorf("the client received %s; want %q", answer, c.answer)
			}
		})
	}
}

func TestADaemonAsksForALimitedNumberOfVariables(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"A=B"}, {""}, {strings.Repeat("x", maxName+1)}, slices.Repeat([]string{"A"}, maxNames+1)} {
		l := listen(t, socket(t))
		done := serve(t, l, Build{}, func(c *Conn) error {
			_, err := c.Need(names)
			return err
		})
		c := Client{Socket: l.Addr().String(), LookupEnv: lookup(nil)}
		if _, _, err := c.Open(t.Context(), Hello{}); err == nil {
			t.Errorf("%d names were accepted", len(names))
		}
		if err := <-done; !errors.Is(err, errHandshake) {
			t.Errorf("%v", err)
		}
	}
}

// A client protects its environment from what claims to be the daemon.
func TestHostileDaemons(t *testing.T) {
	t.Parallel()
	for sends, want := range map[string]string{
		strings.Repeat("x", maxLine+1):    "longer than",
		"{}\n":                            "another version",
		`{"mcptrack":1}` + "\n":           "neither an answer nor a question",
		`{"mcptrack":2,"ok":true}` + "\n": "another version",
		strings.Repeat(`{"mcptrack":1,"need":["A"]}`+"\n", maxRounds+1): "again and again",
		"": "EOF",
	} {
		here, there := net.Pipe()
		go func() {
			go func() { _, _ = io.Copy(io.Discard, there) }()
			_, _ = io.WriteString(there, sends)
			_ = there.Close()
		}()
		if _, err := newLines(here).clientHandshake(Hello{}, lookup(nil), func() {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", sends, err, want)
		}
		_ = here.Close()
	}
}

func TestASlowClientIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		var client sync.WaitGroup
		defer client.Wait()
		defer here.Close()
		began := time.Now()
		client.Go(func() {
			for {
				if _, err := io.WriteString(here, " "); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		if _, err := Accept(t.Context(), there, Build{}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != stepTimeout {
			t.Errorf("it took %s", took)
		}
	})
}

// A daemon hangs if it answers nobody. One that has just begun to listen, or that loads a config, does not.
func TestADaemonThatHangs(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for name, c := range map[string]struct {
		listens    time.Duration // since when
		asks, ends time.Duration // after which it asks for variables, and accepts the client
		want, took time.Duration // how long the handshake takes; the daemon hangs if took is set
	}{
		"hung":                    {time.Hour, never, never, 0, hungTimeout},
		"hung since it began":     {time.Second, never, never, 0, startTimeout - time.Second},
		"the clock was set back":  {-time.Hour, never, never, 0, startTimeout},
		"loads a config":          {time.Hour, 0, 20 * time.Second, 20 * time.Second, 0},
		"loads a config for ever": {time.Hour, time.Second, never, answerTimeout, 0},
		"begins":                  {0, 12 * time.Second, 12 * time.Second, 12 * time.Second, 0},
		"is slow":                 {time.Hour, 4 * time.Second, 4 * time.Second, 4 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var serving sync.WaitGroup
				connect := func(ctx context.Context) (net.Conn, error) {
					here, there := net.Pipe()
					serving.Go(func() {
						defer there.Close()
						served, err := Accept(ctx, there, Build{})
						if err != nil {
							t.Errorf("%v", err)
							return
						}
						after := func(d time.Duration, do func()) {
							select {
							case <-time.After(time.Until(began.Add(d))):
								do()
							case <-ctx.Done():
							}
						}
						after(c.asks, func() { _, _ = served.Need([]string{"A"}) })
						after(c.ends, func() { _ = served.OK() })
					})
					return here, nil
				}
				client := Client{LookupEnv: lookup(nil)}
				conn, answer, err := client.openOver(t.Context(), connect, Hello{Purpose: Attach}, began.Add(-c.listens))
				took := time.Since(began)
				_, hung := errors.AsType[*Hung](err)
				switch {
				case hung != (c.took > 0) || took != max(c.took, c.want):
					t.Errorf("after %s: %v", took, err)
				case answer.OK != (!hung && c.want < answerTimeout):
					t.Errorf("%+v, %v", answer, err)
				}
				if conn != nil {
					_ = conn.Close()
				}
				serving.Wait()
			})
		})
	}
}

func TestTheEndOfTheDaemonEndsAHandshake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := Accept(ctx, there, Build{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// Nobody else may connect, whatever the permissions of the socket are.
func TestAnotherUserGetsNothing(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a program as another user")
	}
	s := socket(t)
	l := listen(t, s)
	accepted := make(chan net.Conn, 1) // one connection, that of this user
	go func() {
		conn, err := l.Accept()
		if err == nil {
			accepted <- conn
		}
	}()
	program := filepath.Join(filepath.Dir(s), "program")
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	syscall.ForkLock.RLock()                   // a child that is started meanwhile would keep the file busy
	err = os.WriteFile(program, binary, 0o755) //nolint:gosec // another user runs it
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	other := func() string {
		cmd := exec.Command(program, "connect", s)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if err := os.Chmod(filepath.Dir(s), 0o755); err != nil { //nolint:gosec // that is the test
		t.Fatal(err)
	}
	if got := other(); !strings.Contains(got, "permission denied") {
		t.Errorf("with mode 0600: %s", got)
	}
	if err := os.Chmod(s, 0o666); err != nil { //nolint:gosec // that is the test
		t.Fatal(err)
	}
	if got := other(); !strings.Contains(got, `""`) {
		t.Errorf("with mode 0666: %s", got)
	}
	c := Client{Socket: s}
	if !c.Listens(t.Context()) {
		t.Fatal("the user cannot connect")
	}
	_ = (<-accepted).Close()
	must(t, os.Chown(s, 12345, -1))
	if _, _, err := c.Open(t.Context(), Hello{}); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("%v", err)
	}
}

func TestManyClientsStartOneDaemon(t *testing.T) {
	t.Parallel()
	s := socket(t)
	self, err := os.Executable()
	must(t, err)
	env := map[string]string{"HOME": "/h", "TOKEN": "secret", "MCPTRACK_TOKEN": "secret", "HTTPS_PROXY": "http://me:secret@proxy:8080", "LC_ALL": "C"}
	var pids sync.Map
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			c := Client{Socket: s, LookupEnv: lookup(env), Program: self}
			conn, answer, err := c.OpenOrStart(t.Context(), Hello{Purpose: Status})
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			pids.Store(answer.PID, true)
		})
	}
	clients.Wait()
	n := 0
	pids.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d daemons answered", n)
	}
	got, err := os.ReadFile(s + ".env")
	must(t, err)
	for _, want := range []string{"HOME=/h", "LC_ALL=C", "HTTPS_PROXY=http://proxy:8080", "folder=/", SocketKey + "=" + s} {
		if !slices.Contains(strings.Split(string(got), "\n"), want) {
			t.Errorf("the environment lacks %s: %s", want, got)
		}
	}
	if strings.Contains(string(got), "secret") || strings.Contains(string(got), "TOKEN") {
		t.Errorf("the environment has secrets: %s", got)
	}
	c := Client{Socket: s, LookupEnv: lookup(env)}
	conn, _, err := c.Open(t.Context(), Hello{Purpose: Stop})
	must(t, err)
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

// A daemon that ends keeps its lock for a while, and the next one begins after it.
func TestADaemonFollowsOneThatEnds(t *testing.T) {
	t.Parallel()
	s := socket(t)
	self, err := os.Executable()
	must(t, err)
	ending, err := Acquire(t.Context(), s, false)
	must(t, err)
	time.AfterFunc(200*time.Millisecond, ending.Release)
	c := Client{Socket: s, LookupEnv: lookup(nil), Program: self}
	conn, _, err := c.OpenOrStart(t.Context(), Hello{Purpose: Stop})
	must(t, err)
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

func TestADaemonThatCannotStart(t *testing.T) {
	t.Parallel()
	no, err := exec.LookPath("false")
	if err != nil {
		t.Skip(err)
	}
	for program, want := range map[string]string{no: "exit status 1", "": "was not found", "/missing": "cannot start the daemon"} {
		c := Client{Socket: socket(t), LookupEnv: lookup(nil), Program: program}
		_, _, err := c.OpenOrStart(t.Context(), Hello{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", program, err)
		}
		if program == no && !strings.Contains(err.Error(), "mcptrack daemon logs") {
			t.Errorf("%v", err)
		}
	}
}

func TestNewerBuilds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b Build
		want bool
	}{
		{Build{"v1.10.0", ""}, Build{"v1.9.0", "2030-01-01T00:00:00Z"}, true},
		{Build{"v1.9.0", "2030-01-01T00:00:00Z"}, Build{"v1.10.0", ""}, false},
		{Build{"v1.0.0", ""}, Build{"v1.0.0-rc.1", ""}, true},
		{Build{"v1.0.0", ""}, Build{"v1.0.0", ""}, false},
		{Build{"devel", "2026-01-02T00:00:00+01:00"}, Build{"v9.0.0", "2026-01-01T00:00:00Z"}, true},
		{Build{"devel", "2026-01-02T00:00:00Z"}, Build{"devel", "2026-01-02T00:00:00Z"}, false},
		{Build{"devel", ""}, Build{"devel", "2026-01-02T00:00:00Z"}, false},
		{Build{"devel", "2026-01-02T00:00:00Z"}, Build{"devel", ""}, false},
	} {
		if got := c.a.Newer(c.b); got != c.want {
			t.Errorf("%v newer than %v: %v", c.a, c.b, got)
		}
	}
	if got := ThisBuild("v1.2.3"); got.Version != "v1.2.3" {
		t.Errorf("%+v", got)
	}
	if got := ThisBuild(""); got.Version == "" {
		t.Errorf("%+v", got)
	}
}

func TestTheUserOfAProxyIsRemoved(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://u:p@h:1/x@y": "http://h:1/x@y", "u:p@h:1": "h:1", "http://h": "http://h", "socks5://u:p@w@h": "socks5://h", "localhost,.a": "localhost,.a", "": "",
	} {
		if got := withoutUser(url); got != want {
			t.Errorf("%q: %q; want %q", url, got, want)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
