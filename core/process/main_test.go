//go:build unix

package process_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/process"
)

// The tests' children are this binary in one of these roles.
const roleKey = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleKey); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}

func play(role string) {
	switch role {
	case "exit3":
		os.Exit(3)
	case "cat": // what a polite server does: works until stdin ends
		io.Copy(os.Stdout, os.Stdin)
	case "idle": // ignores the end of stdin
		ready()
		idle()
	case "stubborn": // also ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		ready()
		idle()
	case "wrapper": // leaves a grandchild that holds the pipes
		child("stubborn", false)
	case "wrapper-stays":
		child("wrapper", false) // double fork: the grandchild's parent is gone
		io.Copy(io.Discard, os.Stdin)
	case "stderr-flood":
		line := bytes.Repeat([]byte("x"), 1000)
		line[999] = '\n'
		for range 64 << 10 {
			os.Stderr.Write(line)
		}
		fmt.Fprint(os.Stderr, "the \x1b[31mlast\x1b[0m line\n"+strings.Repeat("é", 600)+"\nno end")
		ready()
		io.Copy(io.Discard, os.Stdin)
	case "long-line":
		signal.Ignore(syscall.SIGTERM)
		os.Stdout.WriteString(`{"x":"`)
		for block := make([]byte, 64<<10); ; {
			if _, err := os.Stdout.Write(block); err != nil {
				idle()
			}
		}
	case "ignores-stdin": // never reads stdin
		ready()
		idle()
	case "environ":
		for _, kv := range os.Environ() {
			fmt.Printf("[%q]\n", kv)
		}
	case "leaver": // its child leaves the group
		child("stubborn", true)
		idle()
	case "owner": // a tracker that will be killed
		p := must(process.Start(spec("leaver")))
		fmt.Printf("[%d]\n", pidOf(p))
		idle()
	default:
		fmt.Fprintln(os.Stderr, "no such role:", role)
		os.Exit(99)
	}
}

// idle keeps a child alive until it is killed. It sleeps because the runtime would report a select
// without cases in a program without other goroutines as a deadlock.
func idle() { time.Sleep(time.Hour) }

// ready prints the pid as a line that is valid JSON.
func ready() { fmt.Printf("[%d]\n", os.Getpid()) }

// child starts this binary in a role, in a session of its own or not. It inherits all three pipes.
func child(role string, setsid bool) {
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = append(os.Environ(), roleKey+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

func spec(role string) process.Spec {
	env := process.Environ(os.LookupEnv, map[string]string{
		roleKey: role,
		// The race detector would otherwise make every child slow to leave.
		"GORACE": "atexit_sleep_ms=0",
	})
	return process.Spec{Command: must(os.Executable()), Env: env}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// pidOf reads what ready printed.
func pidOf(p *process.Process) int {
	line, err := bufio.NewReader(stdout(p)).ReadString('\n')
	if err != nil {
		return -1
	}
	var pid int
	fmt.Sscanf(line, "[%d]", &pid)
	return pid
}

// start starts a role and makes sure that nothing of it outlives the test.
func start(t testing.TB, role string) *process.Process {
	t.Helper()
	p, err := process.Start(spec(role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(process.Grace{Stdin: -1, Term: -1}) })
	return p
}

// eventually waits for a condition on real processes: only polling shows it.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !backoff.Poll(ctx, 10*time.Millisecond, cond) {
		t.Fatalf("not within a minute: %s", what)
	}
}

func wait(t testing.TB, p *process.Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatal("the child did not end within 20 s")
	}
}

// runs is false for zombies, which process 1 may leave.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return !bytes.Contains(stat, []byte(") Z "))
	}
	return syscall.Kill(pid, 0) == nil
}

// linesReader reads lines as a stream of bytes.
type linesReader struct {
	lines *process.Lines
	rest  []byte
}

func stdout(p *process.Process) *linesReader { return &linesReader{lines: p.Stdout()} }

func (r *linesReader) Read(b []byte) (n int, err error) {
	if len(r.rest) == 0 {
		if r.rest, err = r.lines.Next(); err != nil {
			return 0, err
		}
	}
	n = copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
