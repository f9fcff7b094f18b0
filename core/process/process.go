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
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// Defaults for the limits of a [Spec].
const (
	DefaultMaxLine       = 4 << 20 // bytes of one stdout line
	DefaultMaxNoiseLines = 100     // consecutive noise lines
	DefaultMaxNoiseBytes = 1 << 20 // consecutive noise bytes
)

// Spec says what to start. Only Command is required.
type Spec struct {
	// Command is a file, or a name looked up in the PATH of Env, as the child itself would do it. A
	// relative file is relative to Dir.
	Command string
	Args    []string
	// Env is the complete environment of the child as K=V; see [Environ]. Start adds [NonceKey].
	// Nil means empty, not the environment of this process.
	Env []string
	// Dir is the working directory; "": the working directory of this process.
	Dir string

	// MaxLine bounds a stdout line, in bytes without its end. A longer line is skipped; a line of
	// more than 16 times MaxLine is a fault. 0: [DefaultMaxLine].
	MaxLine int
	// MaxNoiseLines and MaxNoiseBytes bound the noise between two messages on stdout. More is a
	// fault. 0: [DefaultMaxNoiseLines], [DefaultMaxNoiseBytes].
	MaxNoiseLines int
	MaxNoiseBytes int

	// Redact, if set, is applied to every line of the child before it is logged or returned by
	// [Process.Stderr]. It may run on several goroutines concurrently.
	Redact func(string) string
	// Logger receives noise (Warn, thinned out) and stderr lines (Debug, at most 20 per second).
	// Nil: nothing is logged.
	Logger *slog.Logger
}

// Process is a started child. Its methods are safe for concurrent use, except that Stdout has one
// reader at a time.
type Process struct {
	spec    Spec
	cmd     *exec.Cmd
	nonce   string
	started time.Time

	memoryKills int // what memoryKills returned before the start

	stdin      stdinPipe
	stdout     *Lines
	stdoutPipe *os.File
	stderr     *stderrRing

	// done is closed by wait, once, after exit was written.
	done chan struct{}
	exit Exit

	group group
	wg    sync.WaitGroup // wait and the stderr drain
	stop  sync.Once

	mu     sync.Mutex
	killer *time.Timer // kills a faulty child that ignores SIGTERM
}

// Start starts the child and returns immediately: [Process.Done] reports a child that dies right
// away. A failure is a [*StartError].
func Start(spec Spec) (*Process, error) {
	path, err := spec.resolve()
	if err != nil {
		return nil, err
	}
	if spec.Logger == nil {
		spec.Logger = slog.New(slog.DiscardHandler)
	}
	if err := roomForTasks(); err != nil {
		return nil, spec.startError(err)
	}
	pipes, err := newPipes()
	if err == nil {
		err = RoomForFiles()
	}
	if err != nil {
		pipes.close()
		return nil, spec.startError(Explain(err))
	}
	p := &Process{
		spec:        spec,
		nonce:       newNonce(),
		memoryKills: memoryKills(),
		done:        make(chan struct{}),
	}
	p.cmd = &exec.Cmd{
		Path:        path,
		Args:        append([]string{spec.Command}, spec.Args...),
		Env:         marked(spec.Env, p.nonce),
		Dir:         spec.Dir,
		Stdin:       pipes.stdin.r,
		Stdout:      pipes.stdout.w,
		Stderr:      pipes.stderr.w,
		SysProcAttr: sysProcAttr(),
	}
	if err := p.cmd.Start(); err != nil {
		pipes.close()
		return nil, spec.startError(explainFork(err))
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

// Stdin is the child's standard input. Write blocks while the child does not read; Close and Stop
// release it. Closing twice is harmless.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout returns the lines on the child's stdout that can be messages. They end when nobody holds
// the pipe any more, when Stop is called, or when a limit of the Spec is exceeded; in the last case
// the child is terminated.
func (p *Process) Stdout() *Lines { return p.stdout }

// Done is closed once the direct child is dead and reaped, even if a grandchild still holds its
// pipes.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the direct child ended; the zero Exit before Done.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// Stderr returns the last lines of stderr, oldest first: at most 64 KiB, each truncated to 512
// runes, with control characters made visible.
func (p *Process) Stderr() []string {
	select {
	case <-p.done: // the last lines may still be in the pipe, which other processes may hold open
		awaitClosed(p.stderr.ended, lastWords)
	default:
	}
	return p.stderr.lines()
}

// lastWords is how long Stderr waits for the last lines of a dead child.
const lastWords = 100 * time.Millisecond

// wait reaps the child as soon as it dies.
func (p *Process) wait() {
	p.group.reap(p.cmd)
	p.exit = exitOf(p.cmd.ProcessState, time.Since(p.started))
	p.exit.OutOfMemory = p.exit.Signal == "SIGKILL" && memoryKills() > p.memoryKills
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killer != nil {
		p.killer.Stop()
	}
	close(p.done)
}

// fail is called once, by the stdout reader when a limit is exceeded. It sends SIGTERM and, 2 s
// later, SIGKILL: nobody reads the child's output any more, so Done must not depend on its
// cooperation.
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

// stdinPipe ignores a second Close: both the transport and Stop close it.
type stdinPipe struct{ *os.File }

func (s stdinPipe) Close() error {
	if err := s.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// pipe is one os.Pipe. os/exec's pipes are not used: cmd.Wait closes cmd.StdoutPipe while it is
// being read, and waits for grandchildren if it copies to writers.
type pipe struct{ r, w *os.File }

type pipes struct{ stdin, stdout, stderr pipe }

// newPipes opens the pipes. The caller must close them, even after an error.
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

// closeChildEnds closes our copies of the child's ends, so that its death causes EOF and EPIPE.
func (ps *pipes) closeChildEnds() {
	ps.stdin.r.Close()
	ps.stdout.w.Close()
	ps.stderr.w.Close()
}

// close closes everything that was opened. Close on a nil *os.File returns an error, which is
// ignored.
func (ps *pipes) close() {
	for _, p := range []pipe{ps.stdin, ps.stdout, ps.stderr} {
		p.r.Close()
		p.w.Close()
	}
}

// Exit is how a child ended.
type Exit struct {
	// Code is the exit status; -1 if a signal ended the child or the status is unknown.
	Code int
	// Signal is the signal that ended the child, such as SIGTERM; "": none.
	Signal string
	// OutOfMemory means that the kernel probably killed the child because the memory of the control
	// group was exhausted.
	OutOfMemory bool
	// Uptime is the time from start to death.
	Uptime time.Duration
}

// String is for people: "exit status 1 after 1.2s".
func (e Exit) String() string {
	up := e.Uptime.Round(time.Millisecond)
	if e.Uptime >= time.Minute {
		up = e.Uptime.Round(time.Second)
	}
	if e.OutOfMemory {
		return fmt.Sprintf("killed by the system after %s: out of memory", up)
	}
	if e.Signal != "" {
		return fmt.Sprintf("ended by %s after %s", e.Signal, up)
	}
	if e.Code < 0 {
		return fmt.Sprintf("ended for an unknown reason after %s", up)
	}
	return fmt.Sprintf("exit status %d after %s", e.Code, up)
}

// exitOf converts the state that cmd.Wait left; nil if the wait failed.
func exitOf(state *os.ProcessState, uptime time.Duration) Exit {
	if state == nil {
		return Exit{Code: -1, Uptime: uptime}
	}
	return Exit{Code: state.ExitCode(), Signal: signalName(state), Uptime: uptime}
}

const (
	defaultStdin = 1 * time.Second
	defaultTerm  = 2 * time.Second
	// killWait bounds the wait for processes that survive SIGKILL: a zombie that its new parent
	// does not reap, or a process stuck in the kernel. The wait for the direct child is unbounded.
	killWait = 3 * time.Second
	// drainWait is the time for reading the last stderr lines of a dead child.
	drainWait = 250 * time.Millisecond
	// lookAgain is the longest pause between two checks whether processes are gone.
	lookAgain = 50 * time.Millisecond
)

// Grace is how long Stop waits after each step.
type Grace struct {
	// Stdin is the wait after closing stdin. 0: 1 s. Negative: none.
	Stdin time.Duration
	// Term is the wait after SIGTERM. 0: 2 s. Negative: none.
	Term time.Duration
}

// Stop ends the child and everything it forked: it closes stdin, waits, sends SIGTERM to the group,
// waits, and sends SIGKILL. A child that exits within g.Stdin is not signalled; processes that it
// leaves behind are. Stop returns once the child is reaped, its group and, on Linux, its marked
// descendants outside the group are gone, and the goroutines of the Process have ended. Blocked
// readers and writers are released.
//
// Stop may be called repeatedly and from many goroutines: the first call decides the grace, and all
// calls return the same Exit at the end.
func (p *Process) Stop(g Grace) Exit {
	p.stop.Do(func() { p.shutdown(g) })
	return p.Exit()
}

func (p *Process) shutdown(g Grace) {
	p.stdin.Close()
	t := tree{group: &p.group, nonce: p.nonce}
	awaitClosed(p.done, cmp.Or(g.Stdin, defaultStdin))
	alive := t.alive() // each call reads /proc
	if alive {
		t.signal(terminate)
		alive = p.remains(&t, cmp.Or(g.Term, defaultTerm))
	}
	// Repeat the signal: processes may be forked while the tree is being listed.
	for deadline := time.Now().Add(killWait); alive; {
		t.signal(kill)
		<-p.done
		alive = p.remains(&t, 100*time.Millisecond)
		if time.Now().After(deadline) {
			p.spec.Logger.Warn("some processes of a server survived SIGKILL", "command", visible([]byte(p.spec.Command), p.spec.Redact))
			break
		}
	}
	p.mu.Lock()
	if p.killer != nil {
		p.killer.Stop()
	}
	p.mu.Unlock()
	p.stdoutPipe.Close()
	// Stderr reaches EOF once all its writers have exited. A descendant that Stop cannot find may
	// hold it open, so the wait is bounded.
	if p.stderr.src.SetReadDeadline(time.Now().Add(drainWait)) != nil {
		p.stderr.src.Close()
	}
	p.wg.Wait()
	p.stderr.src.Close()
}

// awaitClosed waits up to d until a channel is closed, and reports whether it is.
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

// remains waits up to d for the whole tree to exit and reports whether any process is left. Only
// the direct child can be awaited; the other processes are polled.
func (p *Process) remains(t *tree, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), max(d, 0))
	defer cancel()
	if !awaitClosed(p.done, d) {
		return true
	}
	return !backoff.Poll(ctx, lookAgain, func() bool { return !t.alive() })
}
