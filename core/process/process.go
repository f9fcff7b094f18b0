package process

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Defaults for the limits of a [Spec].
const (
	DefaultMaxLine       = 4 << 20 // bytes of one stdout line
	DefaultMaxNoiseLines = 100     // noise lines in a row
	DefaultMaxNoiseBytes = 1 << 20 // noise bytes in a row
)

// Spec says what to start. Only Command is needed.
type Spec struct {
	// Command is a file, or a name that is looked up in the PATH of Env, as the
	// child itself would do it. A relative file is relative to Dir.
	Command string
	Args    []string
	// Env is the complete environment of the child as K=V, see [Environ]. Start
	// adds [NonceKey]. Nil means empty, never that of this process.
	Env []string
	// Dir is the working directory. Empty: that of this process.
	Dir string

	// MaxLine bounds a stdout line, in bytes without its end. A longer one is skipped; one
	// that is longer than 16 times that is a fault. 0: [DefaultMaxLine].
	MaxLine int
	// MaxNoiseLines and MaxNoiseBytes bound what may stand between two messages
	// on stdout without being one. More is a fault.
	// 0: [DefaultMaxNoiseLines], [DefaultMaxNoiseBytes].
	MaxNoiseLines int
	MaxNoiseBytes int

	// Redact, if set, is applied to every line of the child before it is logged
	// or returned by [Process.Stderr]. It may run on several goroutines at once.
	Redact func(string) string
	// Logger receives noise (Warn, thinned out) and stderr lines (Debug, at most
	// 20 per second). Nil: nothing is logged.
	Logger *slog.Logger
}

// Process is a started child. Its methods may be called from any goroutine,
// except that Stdout has one reader at a time.
type Process struct {
	spec    Spec
	cmd     *exec.Cmd
	nonce   string
	started time.Time

	memoryKills int // the count of memoryKills when the child was started

	stdin      *stdinPipe
	stdout     *Lines
	stdoutPipe *os.File
	stderr     *stderrRing

	// done is closed by wait, once, after exit has been written.
	done chan struct{}
	exit Exit

	group group
	wg    sync.WaitGroup // wait and the stderr drain
	stop  sync.Once

	mu     sync.Mutex
	killer *time.Timer // ends a faulty child that ignores SIGTERM
}

// Start starts the child and returns at once: a child that dies right away is
// seen on [Process.Done]. A failure is a [*StartError].
func Start(spec Spec) (*Process, error) {
	path, err := resolve(spec)
	if err != nil {
		return nil, err
	}
	if spec.Logger == nil {
		spec.Logger = slog.New(slog.DiscardHandler)
	}
	if err := roomForTasks(); err != nil {
		return nil, startError(spec, err)
	}
	pipes, err := newPipes()
	if err == nil {
		err = RoomForFiles()
	}
	if err != nil {
		pipes.close()
		return nil, startError(spec, Explain(err))
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
		return nil, startError(spec, explainFork(err))
	}
	sacrifice(p.cmd.Process.Pid)
	pipes.closeChildEnds()
	p.started = time.Now()
	p.stdin = &stdinPipe{f: pipes.stdin.w}
	p.stdoutPipe = pipes.stdout.r
	p.stdout = NewLines(p.stdoutPipe, spec)
	p.stdout.onFault = p.fail
	p.stderr = newStderrRing(pipes.stderr.r, spec)
	p.group.adopt(p.cmd.Process)
	p.wg.Go(p.wait)
	p.wg.Go(p.stderr.drain)
	return p, nil
}

// Stdin is the child's standard input. A Write blocks while the child does not
// read; Close and Stop release it. Closing twice is harmless.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout returns the lines of the child's standard output that can be messages. They
// end when all holders of the pipe are gone or Stop was called, and when a limit of
// the Spec is exceeded; the child is then terminated.
func (p *Process) Stdout() *Lines { return p.stdout }

// Done is closed once the direct child is dead and reaped, even if a grandchild
// still holds its pipes.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the direct child ended. It is the zero Exit before Done.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// Stderr returns the last lines of standard error, oldest first: at most 64 KiB,
// each cut at 512 runes, control characters made visible.
func (p *Process) Stderr() []string {
	select {
	case <-p.done: // its last lines may still be in the pipe, which other processes may hold open
		last := time.NewTimer(lastWords)
		defer last.Stop()
		select {
		case <-p.stderr.ended:
		case <-last.C:
		}
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

// fail is called once by the stdout reader when a limit is broken. It sends SIGTERM to the
// child, and SIGKILL 2 s later: the child's output is no longer read, so Done must not depend
// on its cooperation.
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
type stdinPipe struct {
	f *os.File
}

func (s *stdinPipe) Write(b []byte) (int, error) { return s.f.Write(b) }

func (s *stdinPipe) Close() error {
	if err := s.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
