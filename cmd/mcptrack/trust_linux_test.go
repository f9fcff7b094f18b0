package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// untrusting sets the folder and an empty home, so that nothing is trusted.
func untrusting(r *running, dir, home string) {
	r.cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CI=") && !strings.HasPrefix(v, "MCPTRACK_") && !strings.HasPrefix(v, "XDG_") && !strings.HasPrefix(v, "HOME=") {
			r.cmd.Env = append(r.cmd.Env, v)
		}
	}
	r.cmd.Env = append(r.cmd.Env, "HOME="+home, "XDG_STATE_HOME="+home)
}

func (r *running) stopped() {
	r.signal(syscall.SIGTERM)
	r.ends(30*time.Second, 0)
}

// A git pull changes commands under a running watch: approved servers stay connected, the others wait until the
// user approves them in another process. SIGHUP does not approve them.
func TestPullUnderWatch(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	program := mcptrackPath(t)
	mark := filepath.Join(home, "mark")
	demo := func(id string, args string) string {
		return fmt.Sprintf(`%q: {"command": %q, "args": ["demo-server"%s], "trackResources": true}`, id, program, args)
	}
	evil := func(id string) string {
		return fmt.Sprintf(`%q: {"command": "sh", "args": ["-c", "echo %s >>%s; exec '%s' demo-server"], "trackResources": true}`, id, id, mark, program)
	}
	config := func(entries ...string) {
		save(t, filepath.Join(dir, ".mcp.json"), `{"mcpServers": {`+strings.Join(entries, ",")+`}}`)
	}
	trust := func() {
		t.Helper()
		r := &running{cmd: mcptrackCommand(t.Context(), "trust", "--yes")}
		untrusting(r, dir, home)
		if out, err := r.cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	config(demo("a", ""))
	trust()
	watch := newRunning(t, func(r *running) { untrusting(r, dir, home) }, "watch", "--json")
	_, n := watch.await(0, "a is followed", ofType("resource.updated"))

	config(demo("b", `, "--interval", "300ms"`), evil("a"))
	_, n = watch.await(n, "a waits", inState("a", "Unapproved"))
	_, n = watch.await(n, "a is still followed", func(e eventLine) bool { return e.Type == "resource.updated" && e.ServerID == "a" })
	watch.await(0, "b waits", inState("b", "Unapproved"))
	watch.signal(syscall.SIGHUP)
	_, n = watch.await(n, "SIGHUP is handled", ofType("config.reloaded"))
	_, n = watch.await(n, "a is followed after SIGHUP", func(e eventLine) bool { return e.Type == "resource.updated" && e.ServerID == "a" })
	if _, err := os.Stat(mark); err == nil {
		t.Fatal("the command of the pull was run")
	}
	if text := watch.stderr.String(); !strings.Contains(text, "mcptrack trust "+dir) || !strings.Contains(text, "server=a") {
		t.Errorf("no hint in %s", text)
	}
	config(demo("a", ""), demo("b", `, "--interval", "300ms"`)) // the pull of a is taken back
	_, n = watch.await(n, "a is as before", inState("a", "Ready"))
	config(evil("a"), demo("b", `, "--interval", "300ms"`))
	_, n = watch.await(n, "a waits again", inState("a", "Unapproved"))
	trust()
	watch.await(n, "a is what was approved", inState("a", "Ready"))
	watch.await(n, "b is followed", inState("b", "Ready"))
	if _, err := os.Stat(mark); err != nil {
		t.Error("the command was not run after it was approved")
	}
	watch.stopped()
}

// A command whose stdout is a pipe asks on the terminal. Enter means no, Ctrl-C interrupts.
func TestQuestionOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	save(t, filepath.Join(dir, ".mcp.json"), `{"mcpServers": {"a": {"command": "sh", "args": ["-c", "exit 3"]}}}`)
	for name, c := range map[string]struct {
		answer string
		code   int
	}{"yes": {"y\n", 4}, "ahead": {"\n", 3}, "no": {"n\n", 3}, "enter": {"\n", 3}, "ctrl-c": {"\x03", 130}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			screen, terminal := openTerminal(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			r := &running{cmd: mcptrackCommand(ctx, "list", "--json")}
			untrusting(r, dir, t.TempDir())
			var out written
			r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = terminal, &out, terminal
			r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if name == "ahead" { // typed before the question: it is not an answer
				if _, err := io.WriteString(screen, "y\n"); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			terminal.Close()
			var shown written
			read := make(chan struct{})
			go func() {
				defer close(read)
				_, _ = io.Copy(&shown, screen) // ends with EIO when the last writer is gone
			}()
			for end := time.Now().Add(30 * time.Second); !strings.Contains(shown.String(), "? [y/N] "); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("no question in %q", &shown)
				}
			}
			if _, err := io.WriteString(screen, c.answer); err != nil {
				t.Fatal(err)
			}
			_ = r.cmd.Wait()
			<-read
			if code := r.cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, &shown)
			}
			if !strings.Contains(shown.String(), "run a:\r\n      sh -c \"exit 3\"") || (c.code == 4) != strings.Contains(out.String(), `"id"`) {
				t.Errorf("%s: shown %q, stdout %q", name, &shown, &out)
			}
		})
	}
}
