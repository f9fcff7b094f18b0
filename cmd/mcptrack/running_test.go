//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
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

// running is a mcptrack that runs in the background, and what it printed so far.
type running struct {
	*testing.T
	cmd    *exec.Cmd
	stderr written
	exited chan struct{} // closed when it has
	err    error         // how; valid after exited

	mu    sync.Mutex
	lines []eventLine
}

func runBeside(t *testing.T, args ...string) *running {
	t.Helper()
	return newRunning(t, nil, args...)
}

// newRunning is runBeside after change, which may be nil, has changed the command.
func newRunning(t *testing.T, change func(*running), args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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

// seen are the events so far.
func (r *running) seen() []eventLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]eventLine(nil), r.lines...)
}

// await waits for an event that is not among the first after ones.
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

// save replaces a file as editors do.
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
