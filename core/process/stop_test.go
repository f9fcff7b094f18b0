//go:build unix

package process_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/process"
)

func TestImmediateExit(t *testing.T) {
	p := start(t, "exit3")
	wait(t, p)
	e := p.Exit()
	if e.Code != 3 || e.Signal != "" || e.Uptime <= 0 {
		t.Fatalf("got %+v", e)
	}
	if s := e.String(); s != "exited with status 3" {
		t.Fatalf("got %q", s)
	}
	if got := p.Stop(process.Grace{}); got != e {
		t.Fatalf("Stop returned %v, Exit %v", got, e)
	}
}

func TestStopLadder(t *testing.T) {
	for _, tc := range []struct {
		role   string
		signal string
		code   int
	}{
		{"cat", "", 0},              // exits when stdin ends
		{"idle", "SIGTERM", -1},     // needs SIGTERM
		{"stubborn", "SIGKILL", -1}, // needs SIGKILL
	} {
		t.Run(tc.role, func(t *testing.T) {
			p := start(t, tc.role)
			if tc.role != "cat" {
				pidOf(p)
			}
			grace := process.Grace{Stdin: 10 * time.Second, Term: 10 * time.Second}
			if tc.role != "cat" {
				grace = process.Grace{Stdin: 10 * time.Millisecond, Term: 50 * time.Millisecond}
			}
			if tc.role == "idle" {
				grace.Term = 10 * time.Second
			}
			began := time.Now()
			e := p.Stop(grace)
			if e.Signal != tc.signal || e.Code != tc.code || e.Lingered != (tc.role != "cat") {
				t.Fatalf("got %v", e)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Fatalf("took %v", took)
			}
			if n, err := stdout(p).Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Fatalf("reading after Stop: %d, %v", n, err)
			}
		})
	}
}

// A wrapper that dies leaves a grandchild with the pipes: Done must not wait for it, and Stop must
// remove it although it ignores SIGTERM.
func TestGrandchildHoldsPipes(t *testing.T) {
	p := start(t, "wrapper")
	wait(t, p)
	pid := pidOf(p)
	if !runs(pid) {
		t.Fatal("the grandchild should live")
	}
	p.Stop(process.Grace{Stdin: time.Second, Term: 50 * time.Millisecond})
	if runs(pid) {
		t.Fatal("the grandchild is alive")
	}
	if p.Exit().Code != 0 {
		t.Fatalf("the wrapper left by itself, got %v", p.Exit())
	}
}

func TestGrandchildOfLivingWrapper(t *testing.T) {
	p := start(t, "wrapper-stays")
	pid := pidOf(p)
	p.Stop(process.Grace{Stdin: 10 * time.Second, Term: 50 * time.Millisecond})
	if runs(pid) {
		t.Fatal("the grandchild is alive")
	}
	if e := p.Exit(); e.Code != 0 {
		t.Fatalf("a wrapper that leaves in time must not be signalled, got %v", e)
	}
}

func TestStopReleasesBlockedWriter(t *testing.T) {
	p := start(t, "ignores-stdin")
	pidOf(p)
	result := make(chan error, 1) // the writer sends once
	go func() {
		_, err := p.Stdin().Write(make([]byte, 4<<20))
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("the write ended early: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	p.Stop(process.Grace{Stdin: -1, Term: time.Second})
	select {
	case err := <-result:
		if !errors.Is(err, os.ErrClosed) {
			t.Fatalf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the writer is still blocked")
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatalf("closing again: %v", err)
	}
}

func TestStopReleasesBlockedReader(t *testing.T) {
	p := start(t, "cat")
	result := make(chan error, 1) // the reader sends once
	go func() {
		_, err := stdout(p).Read(make([]byte, 100))
		result <- err
	}()
	p.Stop(process.Grace{Stdin: -1, Term: -1})
	select {
	case err := <-result:
		if err != io.EOF {
			t.Fatalf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the reader is still blocked")
	}
}

func TestStopConcurrently(t *testing.T) {
	p := start(t, "stubborn")
	pidOf(p)
	var wg sync.WaitGroup
	exits := make([]process.Exit, 32)
	for i := range exits {
		wg.Go(func() { exits[i] = p.Stop(process.Grace{Stdin: -1, Term: 20 * time.Millisecond}) })
	}
	wg.Wait()
	for _, e := range exits {
		if e != exits[0] || e.Signal != "SIGKILL" {
			t.Fatalf("got %v and %v", exits[0], e)
		}
	}
}

func TestStderrFlood(t *testing.T) {
	p := start(t, "stderr-flood")
	if pidOf(p) <= 0 { // it gets there only if stderr is drained
		t.Fatal("the child is blocked on stderr")
	}
	eventually(t, "the last line is stored", func() bool {
		lines := p.Stderr()
		return len(lines) > 0 && lines[len(lines)-1] == "no end"
	})
	lines := p.Stderr()
	size := 0
	for _, l := range lines {
		size += len(l)
	}
	if size > 70<<10 || len(lines) < 50 {
		t.Fatalf("stored %d lines, %d bytes", len(lines), size)
	}
	if got := lines[len(lines)-3]; got != `the \x1b[31mlast\x1b[0m line` {
		t.Fatalf("got %q", got)
	}
	if got := lines[len(lines)-2]; got != strings.Repeat("é", 512)+"…" {
		t.Fatalf("got %q", got)
	}
}

func TestRedact(t *testing.T) {
	s := spec("cat")
	s.Command = "sh"
	s.Args = []string{"-c", "echo key=hunter2 >&2"}
	s.Redact = func(l string) string { return strings.ReplaceAll(l, "hunter2", "***") }
	p := must(process.Start(s))
	defer p.Stop(process.Grace{})
	wait(t, p)
	eventually(t, "the line is stored", func() bool { return len(p.Stderr()) == 1 })
	if got := p.Stderr()[0]; got != "key=***" {
		t.Fatalf("got %q", got)
	}
}

func TestChildGetsOnlyItsEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("MCPTRACK_TOKEN", "secret")
	t.Setenv("LC_ALL", "C.UTF-8")
	p := start(t, "environ")
	out := must(io.ReadAll(stdout(p)))
	if bytes.Contains(out, []byte("secret")) {
		t.Fatalf("a secret was inherited:\n%s", out)
	}
	for _, want := range []string{`["PATH=`, `["LC_ALL=C.UTF-8"]`} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("missing %s in:\n%s", want, out)
		}
	}
}
