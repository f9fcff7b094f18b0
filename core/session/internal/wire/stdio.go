package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/nowait"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/process"
)

// flushPatience is how long the cancellation of a request, or Close, waits for the server to read
// queued messages.
const flushPatience = 250 * time.Millisecond

// stdioConn is the state of a connection over pipes.
type stdioConn struct {
	lines   *process.Lines
	stdin   *lineQueue
	process *process.Process // nil if the server was already running
	grace   process.Grace    // passed to process.Stop
	stdout  io.Reader        // closed by release if it is an io.Closer; nil if process is set
}

// StartProcess starts a server as a child process and connects to its pipes. grace is how long
// Close waits after each step of stopping the process. If a request was cancelled, Close uses the
// default grace instead, because the server may have to clean up.
func StartProcess(spec process.Spec, grace process.Grace, cfg Config) (*Conn, error) {
	p, err := process.Start(spec)
	if err != nil {
		return nil, &transportError{cfg.Redact(printable.Reason(err, 0)), err}
	}
	return newConn(cfg).startStdio(&stdioConn{lines: p.Stdout(), process: p, grace: grace}, p.Stdin()), nil
}

// PID returns the id of the process that StartProcess started, or 0.
func (c *Conn) PID() int {
	if c.stdio == nil || c.stdio.process == nil {
		return 0
	}
	return c.stdio.process.PID()
}

// OverIO connects to a running server: it reads from r and writes to w, one message per line. Close
// closes w, and also r if it is an io.Closer.
func OverIO(r io.Reader, w io.WriteCloser, cfg Config) *Conn {
	lines := process.NewLines(r, process.Spec{MaxLine: cfg.MaxLine, Redact: cfg.Redact, Logger: cfg.Logger})
	return newConn(cfg).startStdio(&stdioConn{lines: lines, stdout: r}, w)
}

// FirstNoise returns the first line of the server's stdout that is not a message, printable and without
// secrets, or "" if there is none.
func (c *Conn) FirstNoise() string {
	if c.stdio == nil {
		return ""
	}
	return c.stdio.lines.FirstNoise()
}

// Lingered reports, after Close, whether the child process still ran when Close had waited for it.
func (c *Conn) Lingered() bool {
	return c.stdio != nil && c.stdio.process != nil && c.stdio.process.Exit().Lingered
}

func (c *Conn) startStdio(s *stdioConn, w io.WriteCloser) *Conn {
	c.stdio = s
	s.stdin = newLineQueue(w, c.cfg.WriteTimeout, func(err error) { c.fail(&EndError{Reason: printable.Reason(err, 0)}) })
	ended := make(chan error, 1) // receives from read the one error that ends stdout; never closed
	c.group.Go(s.stdin.run)
	c.group.Go(func() { c.watchStdio(ended) })
	go c.read(ended) // ends with stdout, which may outlive the connection
	return c
}

// release stops the child process, or closes the pipe from a server that was already running.
// interrupted reports whether a request was cancelled.
func (s *stdioConn) release(interrupted bool) {
	switch closer, ok := s.stdout.(io.Closer); {
	case s.process != nil && interrupted:
		s.process.Stop(process.Grace{})
	case s.process != nil:
		s.process.Stop(s.grace)
	case ok:
		_ = closer.Close()
	}
}

// read handles the server's stdout. It sends the error that ends stdout to ended.
func (c *Conn) read(ended chan<- error) {
	var m scratch
	for {
		line, err := c.stdio.lines.Next()
		long, tooLong := errors.AsType[*process.LongLineError](err)
		switch {
		case tooLong:
			c.tooLong(long)
		case err != nil:
			ended <- err
			return
		default:
			c.handle(&m, line)
		}
	}
}

// send sends a message. It does not wait until the server has read it.
func (s *stdioConn) send(message []byte) error {
	_, err := s.stdin.Write(append(message, '\n'))
	return err
}

// watchStdio ends the connection when the child process exits or closes its output.
func (c *Conn) watchStdio(ended <-chan error) {
	p := c.stdio.process
	if p == nil {
		select {
		case err := <-ended:
			c.fail(&EndError{Reason: endReason(err), Err: err})
		case <-c.ctx.Done():
		}
		return
	}
	// After the process exits, its last responses may still be unread; after its output ends, the
	// process may still be exiting. Wait briefly for both.
	var err error
	select {
	case <-p.Done():
		waitFor(ended, &err, 200*time.Millisecond)
	case err = <-ended:
		waitFor(p.Done(), new(struct{}), 500*time.Millisecond)
	case <-c.ctx.Done():
		return
	}
	e := &EndError{Reason: endReason(err), Err: err}
	if err == io.EOF {
		e.Err = nil
	}
	select {
	case <-p.Done():
		exit := p.Exit()
		e.Unread = p.Unread() || c.stdio.stdin.failed()
		if err == nil || err == io.EOF {
			e.Reason = exit.String()
		}
	default:
	}
	e.Stderr = c.stderr()
	c.fail(e)
}

func endReason(err error) string {
	if err == nil || err == io.EOF {
		return "the server closed its output"
	}
	return "reading the server's output: " + printable.Reason(err, 0)
}

// waitFor receives a value from ch and stores it in v. It returns false if none arrives within d.
func waitFor[T any](ch <-chan T, v *T, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case *v = <-ch:
		return true
	case <-t.C:
		return false
	}
}

// maxQueued limits the bytes queued for a server that does not read.
const maxQueued = 16 << 20

// inputPatience is how long a connection stays open after a failed write: if the process has
// exited, its exit is a better explanation and may be detected meanwhile.
const inputPatience = 2 * time.Second

var errNotReading = errors.New("the server does not read its input")

// lineQueue queues messages that the server's stdin does not take without waiting. Write never blocks, so no
// request can miss its deadline while writing to a full pipe. A single goroutine, run, writes what is queued.
type lineQueue struct {
	w  io.WriteCloser
	to *nowait.Writer // to w
	// patience returns how long a single write may take. If a write takes longer, or inputPatience
	// after a failed write, stalled is called.
	patience func() time.Duration
	stalled  func(error) // ends the connection

	// wake tells run that there is something to write. Write and Close send to it.
	wake wake.Channel
	// written tells flush that something was written. run sends to it.
	written wake.Channel

	mu     sync.Mutex
	lines  [][]byte
	size   int   // bytes in lines and in the line being written by run
	err    error // error for all later writes; nil while writing works
	closed bool
}

func newLineQueue(w io.WriteCloser, patience func() time.Duration, stalled func(error)) *lineQueue {
	return &lineQueue{w: w, to: nowait.NewWriter(w), patience: patience, stalled: stalled,
		wake: wake.New(), written: wake.New()}
}

// Write queues p, which must be exactly one message.
func (q *lineQueue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return 0, q.err
	case q.size > 0 && q.size+len(p) > maxQueued:
		return 0, errNotReading
	}
	n := 0
	if q.size == 0 {
		n = q.to.Try(p)
	}
	if n < len(p) {
		q.lines = append(q.lines, bytes.Clone(p[n:]))
		q.size += len(p) - n
		q.ring()
	}
	return len(p), nil
}

// Close closes the server's stdin. Queued messages are discarded.
func (q *lineQueue) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	if q.err == nil {
		q.err = io.ErrClosedPipe
	}
	q.ring()
	q.mu.Unlock()
	return q.w.Close()
}

// failed reports whether a write failed.
func (q *lineQueue) failed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err != nil
}

// flush waits until the queue is empty, but no longer than patience.
func (q *lineQueue) flush(patience time.Duration) {
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		q.mu.Lock()
		done := q.size == 0 || q.err != nil
		q.mu.Unlock()
		if done {
			return
		}
		select {
		case <-q.written:
		case <-over.C:
			return
		}
	}
}

func (q *lineQueue) ring() {
	q.wake.Send()
}

// broken ends the connection inputPatience after a failed write, because the server will never
// receive the queued messages or respond to them.
func (q *lineQueue) broken(err error) {
	t := time.NewTimer(inputPatience)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			q.stalled(fmt.Errorf("%w: %w", errNotReading, err))
			return
		case <-q.wake:
		}
		q.mu.Lock()
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return
		}
	}
}

// run writes queued messages until Close is called or a write fails.
func (q *lineQueue) run() {
	for range q.wake {
		q.mu.Lock()
		lines, done := q.lines, q.err != nil
		q.lines = nil
		q.mu.Unlock()
		if done {
			return
		}
		for _, line := range lines {
			t := time.AfterFunc(q.patience(), func() { q.stalled(errNotReading) })
			_, err := q.to.Write(line)
			t.Stop()
			q.mu.Lock()
			q.size -= len(line)
			if err != nil && q.err == nil {
				q.err = err
			}
			failed := q.err
			q.mu.Unlock()
			q.written.Send()
			if failed != nil {
				q.broken(failed)
				return
			}
		}
	}
}

// maxStack is how many of the last stderr lines are searched for an error: enough for a stack trace
// with its message, but not enough to include what a long-running server reported earlier.
const maxStack = 50

// stderrCause returns the stderr lines that explain why a program exited, joined with " | ": the
// first line that looks like an error and the last line. If no line looks like an error, it returns
// the last three lines.
func stderrCause(lines []string) string {
	recent := lines[max(0, len(lines)-maxStack):]
	for i, line := range recent {
		if !looksLikeError(line) {
			continue
		}
		if i == len(recent)-1 {
			return line
		}
		return line + " | " + recent[len(recent)-1]
	}
	for _, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") { // Go prints this line before the stack traces of its goroutines
			return line + " | " + recent[len(recent)-1]
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// looksLikeError recognises error lines of common runtimes and package managers.
func looksLikeError(line string) bool {
	line = strings.ReplaceAll(strings.ToLower(line), "non-fatal", "")
	for _, sign := range []string{
		"error:",      // Node, Python, compilers
		"error [",     // Node: Error [ERR_MODULE_NOT_FOUND]: …
		"exception:",  // Java, .NET
		"fatal",       // Go, git, loggers
		"panic:",      // Go
		"panicked at", // Rust
		"npm error", "npm err!",
	} {
		if strings.Contains(line, sign) {
			return true
		}
	}
	return false
}

// WithOutput adds the server's other output to the error for an unanswered request: a stdout line
// that is not a message, and the last lines of stderr.
func (c *Conn) WithOutput(err error) error {
	if c.stdio == nil {
		return err
	}
	if line := c.stdio.lines.Noise(); line != "" {
		err = fmt.Errorf("the server wrote text that is not MCP to stdout: %s (%w)", line, err)
	}
	if lines := c.stderr(); len(lines) > 0 {
		return fmt.Errorf("%w; stderr: %s", err, stderrCause(lines))
	}
	return err
}

// stderr returns the last lines that the child process wrote to stderr, redacted, or nil if there
// is no child process.
func (c *Conn) stderr() []string {
	if c.stdio.process == nil {
		return nil
	}
	lines := c.stdio.process.Stderr()
	for i, line := range lines {
		lines[i] = c.cfg.Redact(line)
	}
	return lines
}
