//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// eventLine is the part of an event that these tests look at.
type eventLine struct {
	Type, ServerID, ResourceURI, State, Cause, Reason string
	Added, Removed                                    []string
	Changed                                           any // strings, or for a resource a bool
	Problems                                          []struct{ Line, Column int }
	DurationMs                                        int64
	at                                                time.Time
}

// running is an mcptrack in the background and its output so far.
type running struct {
	*testing.T
	cmd    *exec.Cmd
	stderr written
	exited chan struct{} // closed after the process has exited
	err    error         // the result of Wait; valid after exited is closed

	mu    sync.Mutex
	lines []eventLine
}

func runBeside(t *testing.T, args ...string) *running {
	t.Helper()
	return newRunning(t, nil, args...)
}

// newRunning is like runBeside. If change is not nil, it may modify the command before the start.
func newRunning(t *testing.T, change func(*running), args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	r := &running{T: t, cmd: mcptrackCommand(ctx, args...), exited: make(chan struct{})}
	r.cmd.Stderr = &r.stderr
	if change != nil {
		change(r)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.exited)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			var e eventLine
			if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
				t.Errorf("%v in %s", err, scan.Text())
			}
			e.at = time.Now()
			r.mu.Lock()
			r.lines = append(r.lines, e)
			r.mu.Unlock()
		}
		r.err = r.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-r.exited
	})
	return r
}

// seen returns the events so far.
func (r *running) seen() []eventLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]eventLine(nil), r.lines...)
}

// await waits for a matching event after the first `after` events. n is the number of events up to and including it.
func (r *running) await(after int, what string, is func(eventLine) bool) (event eventLine, n int) {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(time.Minute); ; {
		lines := r.seen()
		for i := after; i < len(lines); i++ {
			if is(lines[i]) {
				return lines[i], i + 1
			}
		}
		select {
		case <-tick.C:
		case <-r.exited:
			r.Fatalf("exited (%v) before %s; events %+v\n%s", r.err, what, lines, &r.stderr)
		case <-over:
			r.Fatalf("no %s within a minute; events %+v", what, lines)
		}
	}
}

func (r *running) signal(s syscall.Signal) {
	r.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
}

// ends waits for the process to exit and checks its code.
func (r *running) ends(within time.Duration, code int) {
	r.Helper()
	select {
	case <-r.exited:
	case <-time.After(within):
		r.Fatalf("still running after %v", within)
	}
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.Errorf("exit code %d (%v), want %d\n%s", got, r.err, code, &r.stderr)
	}
}

func ofType(typ string) func(eventLine) bool { return func(e eventLine) bool { return e.Type == typ } }

func inState(server, state string) func(eventLine) bool {
	return func(e eventLine) bool { return e.ServerID == server && e.State == state }
}

// save replaces a file atomically, as editors do.
func save(t *testing.T, path, content string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(path), ".new")
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

// written is a buffer that one goroutine writes (for example the output of a process) while others
// read it. The zero value is empty.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// mcptrackCommand is the program under test: the test binary, which TestMain
// makes act as the program that its first argument names.
func mcptrackCommand(ctx context.Context, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err) // documented to fail only on systems without the path
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = "mcptrack"
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// mcptrackPath returns a path by which other programs can start mcptrack: a link to the test binary.
func mcptrackPath(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mcptrack")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// runFor runs mcptrack, checks its exit code and returns its output.
func runFor(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := mcptrackCommand(t.Context(), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("%q ended with %d, want %d:\n%s%s", args, got, status, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// waitFor waits up to a minute for a condition. It polls, since other processes change the condition.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// markOf returns a value of peerMark that no other test has, also if the tests run twice on this machine.
func markOf(t testing.TB) string { return fmt.Sprintf("%d-%s", os.Getpid(), t.Name()) }

// marked returns the ids of the processes that have the mark in their
// environment. It sees nothing where there is no /proc.
func marked(t *testing.T, mark string) []string {
	t.Helper()
	if mark == "" {
		return nil
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	want := []byte(peerMark + "=" + mark + "\x00")
	var pids []string
	for _, file := range environs {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(append(env, 0), want) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

func kill(t *testing.T, pid string) {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// demoEntry returns the config entry of a demo server, which the test binary runs.
func demoEntry(t *testing.T, mark string, extra string) string {
	t.Helper()
	return fmt.Sprintf(`{"command": %q, "args": ["demo-server", "--interval", "200ms"], "env": {%q: %q} %s}`, mcptrackPath(t), peerMark, mark, extra)
}

func config(entries ...string) string { return `{"mcpServers": {` + strings.Join(entries, ", ") + `}}` }

// demoFile is a config with the demo server, changing often.
func demoFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	return file
}

// TestOwnPackagesStartFast: our packages do not initialize at every start what only some commands need.
func TestOwnPackagesStartFast(t *testing.T) {
	t.Parallel()
	cmd := mcptrackCommand(t.Context(), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	inits := 0
	for line := range strings.Lines(trace.String()) {
		var (
			name          string
			at, took      float64
			bytes, allocs int
		)
		if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &took, &bytes, &allocs); err != nil {
			continue
		}
		inits++
		if strings.HasPrefix(name, "github.com/mcptrack/") && allocs > 300 {
			t.Errorf("%s makes %d allocations, %d bytes", name, allocs, bytes)
		}
	}
	if inits < 20 {
		t.Errorf("%d packages in the trace:\n%s", inits, trace.String())
	}
}
