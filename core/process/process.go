package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

const (
	maxLine = 4 << 20 // default of Spec.MaxLine
	// More consecutive output on stdout that is not JSON-RPC is a fault.
	maxNoiseLines = 100
	maxNoiseBytes = 1 << 20
)

// Spec describes the process to start. Only Command is required.
type Spec struct {
	// Command is the path of an executable, or a name to look up in the PATH of Env. A relative
	// path is relative to Dir.
	Command string
	Args    []string
	// Env is the complete environment of the child, as K=V; see [Environ]. Start adds a mark. If Env
	// is nil, the child does not inherit the environment of this process.
	Env []string
	// Dir is the working directory of the child; empty means the working directory of this process.
	Dir string

	// MaxLine is the maximum length of a stdout line in bytes, without the line ending. A longer
	// line is skipped; a line longer than 16 times MaxLine is a fault. 0 means 4 MiB.
	MaxLine int

	// Redact, if not nil, removes secrets from every line of output before the line is logged or
	// returned by [Process.Stderr]. It may be called concurrently.
	Redact func(string) string
	// Logger receives skipped stdout lines (level Warn, rate-limited) and stderr lines (level
	// Debug, at most 20 per second). If nil, nothing is logged.
	Logger *slog.Logger
}

// Process is a running or exited child process. Its methods are safe for concurrent use, but only
// one goroutine at a time may read from Stdout.
type Process struct {
	spec    Spec
	cmd     *exec.Cmd
	started time.Time

	stdin      stdinPipe
	stdout     *Lines
	stdoutPipe *os.File
	stderr     *stderrRing

	// done is closed once, by wait, after exit has been set.
	done chan struct{}
	exit Exit

	group group
	mark  string         // of the descendants; see killDescendants
	wg    sync.WaitGroup // waits for wait and the stderr drain
	stop  sync.Once

	lingered atomic.Bool // see Exit

	mu     sync.Mutex
	killer *time.Timer // kills a faulty child that ignores SIGTERM
}

// Start starts the child and returns immediately. If the child cannot be started, the error is a
// [*StartError]. If it exits right after it has started, [Process.Done] is closed.
func Start(spec Spec) (*Process, error) {
	path, err := spec.resolve()
	if err != nil {
		return nil, err
	}
	if spec.Logger == nil {
		spec.Logger = slog.New(slog.DiscardHandler)
	}
	pipes, err := newPipes()
	if err == nil {
		err = RoomForFiles()
	}
	if err != nil {
		pipes.close()
		return nil, spec.startError(Explain(err))
	}
	p := &Process{spec: spec, done: make(chan struct{})}
	env, mark := marked(spec.Env)
	p.mark = mark
	p.cmd = &exec.Cmd{
		Path:        path,
		Args:        append([]string{spec.Command}, spec.Args...),
		Env:         env,
		Dir:         spec.Dir,
		Stdin:       pipes.stdin.r,
		Stdout:      pipes.stdout.w,
		Stderr:      pipes.stderr.w,
		SysProcAttr: sysProcAttr(),
	}
	if err := p.cmd.Start(); err != nil {
		pipes.close()
		return nil, spec.startError(Explain(err))
	}
	sacrifice(p.cmd.Process.Pid)
	pipes.closeChildEnds()
	p.started = time.Now()
	p.stdin = stdinPipe{pipes.stdin.w}
	p.stdoutPipe = pipes.stdout.r
	p.stdout = NewLines(p.stdoutPipe, spec)
	p.stdout.onFault = p.fail
	p.stderr = newStderrRing(pipes.stderr.r, spec)
	p.group.adopt(p.cmd.Process)
	p.wg.Go(p.wait)
	p.wg.Go(p.stderr.drain)
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stdin returns the child's standard input. Write blocks while the child does not read; closing
// stdin or calling Stop unblocks it. Closing it twice is harmless.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Unread reports whether the child, or a descendant with the same stdin, has not yet read all that was
// written to it. It is false where the system does not tell, and after stdin was closed.
func (p *Process) Unread() bool {
	raw, err := p.stdin.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	_ = raw.Control(func(fd uintptr) { n = unread(fd) })
	return n > 0
}

// Stdout returns the child's stdout lines that may be messages. The stream ends when no process
// holds the pipe open any longer, when Stop is called, or when a limit in the Spec is exceeded. In
// the last case the child is terminated.
func (p *Process) Stdout() *Lines { return p.stdout }

// Done returns a channel that is closed once the direct child has exited and been reaped, even if a
// grandchild still holds its pipes open.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the direct child exited, or the zero Exit if Done is not closed yet.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		exit := p.exit
		exit.Lingered = p.lingered.Load()
		return exit
	default:
		return Exit{}
	}
}

// Stderr returns the last stderr lines, oldest first: at most 64 KiB in total, each line truncated
// to 512 runes, with control characters escaped.
func (p *Process) Stderr() []string {
	select {
	case <-p.done: // the last lines may still be in the pipe, which other processes may hold open
		awaitClosed(p.stderr.ended, lastWords)
	default:
	}
	return p.stderr.lines()
}

// lastWords is how long Stderr waits for the last stderr lines of a dead child.
const lastWords = 100 * time.Millisecond

// wait reaps the child as soon as it exits.
func (p *Process) wait() {
	p.group.reap(p.cmd)
	p.exit = exitOf(p.cmd.ProcessState, time.Since(p.started))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killer != nil {
		p.killer.Stop()
	}
	close(p.done)
}

// fail terminates the child. The stdout reader calls it once, when a limit is exceeded. It sends
// SIGTERM and, 2 s later, SIGKILL: the child's output is no longer read, so Done must not depend on
// the child's cooperation.
func (p *Process) fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.group.signal(terminate)
	select {
	case <-p.done:
	default:
		p.killer = time.AfterFunc(defaultTerm, func() { p.group.signal(kill) })
	}
}

// stdinPipe ignores the second Close, because both the transport and Stop close it.
type stdinPipe struct{ *os.File }

func (s stdinPipe) Close() error {
	if err := s.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// pipe holds the two ends of an OS pipe. The pipes of os/exec are not used: cmd.Wait closes
// cmd.StdoutPipe while it is still being read, and waits for grandchildren if it copies to writers.
type pipe struct{ r, w *os.File }

type pipes struct{ stdin, stdout, stderr pipe }

// newPipes opens the pipes for the child's stdin, stdout and stderr. The caller must close them,
// even after an error.
func newPipes() (*pipes, error) {
	ps := new(pipes)
	for _, p := range []*pipe{&ps.stdin, &ps.stdout, &ps.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return ps, err
		}
		p.r, p.w = r, w
	}
	return ps, nil
}

// closeChildEnds closes this process's copies of the child's pipe ends, so that the child's death
// causes EOF and EPIPE.
func (ps *pipes) closeChildEnds() {
	ps.stdin.r.Close()
	ps.stdout.w.Close()
	ps.stderr.w.Close()
}

// close closes every pipe end that was opened. Close on a nil *os.File returns an error, which is
// ignored.
func (ps *pipes) close() {
	for _, p := range []pipe{ps.stdin, ps.stdout, ps.stderr} {
		p.r.Close()
		p.w.Close()
	}
}

// Exit describes how a child exited.
type Exit struct {
	// Code is the exit status, or -1 if a signal killed the child or the status is unknown.
	Code int
	// Signal is the name of the signal that killed the child, such as SIGTERM; empty if none did.
	Signal string
	// Uptime is the time from the start of the child to its exit.
	Uptime time.Duration
	// Lingered reports that the child still ran when Stop had waited for [Grace.Stdin].
	Lingered bool
}

// String returns a human-readable description, such as "exited with status 1". It adds the uptime
// from one second on.
func (e Exit) String() string {
	after := ""
	if up := e.Uptime.Round(time.Second); e.Uptime >= time.Second {
		after = " after " + up.String()
	}
	if e.Signal != "" {
		return "ended by " + e.Signal + after
	}
	if e.Code < 0 {
		return "ended for an unknown reason" + after
	}
	return fmt.Sprintf("exited with status %d%s", e.Code, after)
}

// exitOf converts the state that cmd.Wait stored, which is nil if the wait failed.
func exitOf(state *os.ProcessState, uptime time.Duration) Exit {
	if state == nil {
		return Exit{Code: -1, Uptime: uptime}
	}
	return Exit{Code: state.ExitCode(), Signal: signalName(state), Uptime: uptime}
}

const (
	defaultStdin = 1 * time.Second
	defaultTerm  = 2 * time.Second
	// killWait is how long Stop waits for processes that survive SIGKILL: a zombie that its new
	// parent does not reap, or a process stuck in the kernel. The wait for the direct child has no
	// limit.
	killWait = 3 * time.Second
	// drainWait is how long Stop waits for the last stderr lines of a dead child.
	drainWait = 250 * time.Millisecond
	// lookAgain is the maximum interval between two checks for processes that are still running.
	lookAgain = 50 * time.Millisecond
)

// Grace configures how long Stop waits after each step.
type Grace struct {
	// Stdin is how long Stop waits after closing stdin. 0 means 1 s; a negative value means no
	// wait.
	Stdin time.Duration
	// Term is how long Stop waits after SIGTERM. 0 means 2 s; a negative value means no wait.
	Term time.Duration
}

// Stop terminates the child and its group: it closes stdin, waits, sends SIGTERM to the group,
// waits, and sends SIGKILL. A child that exits within g.Stdin is not signalled; processes that it
// leaves behind are. On Linux it then kills the descendants that have left the group. Stop returns once the child
// has been reaped, all members of its group are gone,
// and the goroutines of the Process have exited. Blocked readers and writers are released.
//
// Stop may be called repeatedly and concurrently: the first call determines the grace periods, and
// all calls block until the child is stopped and return the same Exit.
func (p *Process) Stop(g Grace) Exit {
	p.stop.Do(func() { p.shutdown(g) })
	return p.Exit()
}

func (p *Process) shutdown(g Grace) {
	p.stdin.Close()
	p.lingered.Store(!awaitClosed(p.done, cmp.Or(g.Stdin, defaultStdin)))
	alive := p.group.alive()
	if alive {
		p.group.signal(terminate)
		alive = p.remains(cmp.Or(g.Term, defaultTerm))
	}
	if alive {
		p.group.signal(kill)
		<-p.done
		if p.remains(killWait) {
			p.spec.Logger.Warn("some processes of a server survived SIGKILL", "command", visible([]byte(p.spec.Command), p.spec.Redact))
		}
	}
	killDescendants(p.mark)
	p.mu.Lock()
	if p.killer != nil {
		p.killer.Stop()
	}
	p.mu.Unlock()
	p.stdoutPipe.Close()
	// Stderr reaches EOF once every process that holds it open has exited. A descendant that left the
	// group may keep it open, so the wait is limited.
	if p.stderr.src.SetReadDeadline(time.Now().Add(drainWait)) != nil {
		p.stderr.src.Close()
	}
	p.wg.Wait()
	p.stderr.src.Close()
}

// awaitClosed waits up to d for a channel to be closed, and reports whether it was closed.
func awaitClosed(ch <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-ch:
		return true
	case <-t.C:
		return false
	}
}

// remains waits up to d for the whole group to exit and reports whether any process is left. Only
// the exit of the direct child can be awaited; the other processes are polled.
func (p *Process) remains(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), max(d, 0))
	defer cancel()
	if !awaitClosed(p.done, d) {
		return true
	}
	return !backoff.Poll(ctx, lookAgain, func() bool { return !p.group.alive() })
}
