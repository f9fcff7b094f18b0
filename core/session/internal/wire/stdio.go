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

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/process"
)

// flushPatience is how long a cancelled request, or Close, waits for the server to read queued
// messages.
const flushPatience = 250 * time.Millisecond

// stdioConn is the state of a connection over pipes.
type stdioConn struct {
	lines   *process.Lines
	stdin   *lineQueue
	process *process.Process // nil: the server was already running
	grace   process.Grace    // for Stop
	stdout  io.Reader        // closed by release if it is an io.Closer; nil if process is set
}

// StartProcess starts a server as a child process and connects to its pipes. grace is how long
// Close waits after each step of stopping the process. If a request was cancelled, the server may
// have to clean up, so Close uses the default grace.
func StartProcess(spec process.Spec, grace process.Grace, cfg Config) (*Conn, error) {
	p, err := process.Start(spec)
	if err != nil {
		return nil, &transportError{cfg.Redact(printable.Reason(err, 0)), err}
	}
	return newConn(cfg).startStdio(&stdioConn{lines: p.Stdout(), process: p, grace: grace}, p.Stdin())
}

// OverIO connects to a running server: it reads from r and writes to w, one message per line. Close
// closes w, and r if it is an io.Closer.
func OverIO(r io.Reader, w io.WriteCloser, cfg Config) (*Conn, error) {
	lines := process.NewLines(r, process.Spec{MaxLine: cfg.MaxLine, Redact: cfg.Redact, Logger: cfg.Logger})
	return newConn(cfg).startStdio(&stdioConn{lines: lines, stdout: r}, w)
}

func (c *Conn) startStdio(s *stdioConn, w io.WriteCloser) (*Conn, error) {
	c.stdio = s
	s.stdin = newLineQueue(w, c.cfg.WriteTimeout, func(err error) { c.fail(&EndError{Reason: printable.Reason(err, 0), ExitCode: -1}) })
	ended := make(chan error, 1) // lineFilter sends the one error that ends stdout; never closed
	c.group.Go(s.stdin.run)
	c.group.Go(func() { c.watchStdio(ended) })
	tr := transport.NewIO(&lineFilter{conn: c, ended: ended}, s.stdin, nil)
	transport.WithCommandLogger(c.cfg.Logger)(tr)
	c.attach(tr)
	if err := tr.Start(c.ctx); err != nil {
		c.Close(ErrClosed)
		return nil, err
	}
	return c, nil
}

// release stops the child process, or closes the pipe from a server that was already running.
// interrupted reports that a request was cancelled.
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

// lineFilter is the server's stdout as the library sees it: without the messages that Conn.receive
// has handled.
type lineFilter struct {
	conn  *Conn
	ended chan<- error

	scratch scratch
	rest    []byte // the unread end of the current line
	err     error  // from lines; returned by every later Read
}

func (f *lineFilter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 && f.err == nil {
		line, err := f.conn.stdio.lines.Next()
		long, tooLong := errors.AsType[*process.LongLineError](err)
		switch {
		case tooLong:
			f.conn.tooLong(long)
		case err != nil:
			f.err = err
			f.ended <- err
		case !f.conn.receive(&f.scratch, line):
			f.rest = line
		}
	}
	if len(f.rest) == 0 {
		return 0, f.err
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// watchStdio ends the connection when the child exits or closes its output.
func (c *Conn) watchStdio(ended <-chan error) {
	p := c.stdio.process
	if p == nil {
		select {
		case err := <-ended:
			c.endStdio(&EndError{Reason: endReason(err), ExitCode: -1, Err: err}, true)
		case <-c.ctx.Done():
		}
		return
	}
	// After an exit, the last responses may be unread; after the end of the output, the process may
	// still be exiting. Wait briefly for both.
	var err error
	drained := false
	select {
	case <-p.Done():
		drained = waitFor(ended, &err, 200*time.Millisecond)
	case err = <-ended:
		drained = true
		waitFor(p.Done(), new(struct{}), 500*time.Millisecond)
	case <-c.ctx.Done():
		return
	}
	e := &EndError{Reason: endReason(err), ExitCode: -1, Err: err}
	if err == io.EOF {
		e.Err = nil
	}
	select {
	case <-p.Done():
		exit := p.Exit()
		e.ExitCode, e.Signal = exit.Code, exit.Signal
		if err == nil || err == io.EOF {
			e.Reason = "the server's process ended: " + exit.String()
		}
	default:
	}
	e.Stderr = c.stderr()
	c.endStdio(e, drained)
}

// endStdio ends the connection. If all output was read (drained), its responses were delivered, and
// the library fails the requests that still wait.
func (c *Conn) endStdio(err error, drained bool) {
	if !drained {
		c.fail(err)
	} else if c.end(err) {
		c.cfg.Handler.Lost(err)
	}
}

func endReason(err error) string {
	if err == nil || err == io.EOF {
		return "the server closed its output"
	}
	return "reading the server's output: " + printable.Reason(err, 0)
}

// waitFor receives a value into v. It returns false if none arrives within d.
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

// maxQueued bounds the bytes queued for a server that does not read.
const maxQueued = 16 << 20

// inputPatience is how long a connection outlives a failed write: the end of the process says more
// and may be noticed meanwhile.
const inputPatience = 2 * time.Second

var errNotReading = errors.New("the server does not read its input")

// lineQueue is the server's stdin as the library sees it. Write never blocks, so no request can
// miss its deadline in a write to a full pipe. One goroutine, run, makes the real writes.
type lineQueue struct {
	w io.WriteCloser
	// patience returns how long one write may take. After that, or inputPatience after a failed
	// write, stalled is called.
	patience func() time.Duration
	stalled  func(error) // ends the connection

	// wake has capacity one: Write and Close send, run receives; never closed.
	wake chan struct{}
	// written has capacity one: run sends after a write, flush receives; never closed.
	written chan struct{}

	mu     sync.Mutex
	lines  [][]byte
	size   int   // bytes in lines and in the line that run is writing
	err    error // why writes fail; nil: they do not
	closed bool
}

func newLineQueue(w io.WriteCloser, patience func() time.Duration, stalled func(error)) *lineQueue {
	return &lineQueue{w: w, patience: patience, stalled: stalled,
		wake: make(chan struct{}, 1), written: make(chan struct{}, 1)}
}

// Write queues p, which must be one whole message.
func (q *lineQueue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return 0, q.err
	case q.size > 0 && q.size+len(p) > maxQueued:
		return 0, errNotReading
	}
	q.lines = append(q.lines, bytes.Clone(p))
	q.size += len(p)
	q.ring()
	return len(p), nil
}

// Close closes the real stdin. Queued messages are discarded.
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

// flush waits until the queue is empty, but at most the given time.
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
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// broken ends the connection inputPatience after a failed write: the server never gets the queued
// messages and will not answer them.
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

// run writes until Close is called or a write fails.
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
			_, err := q.w.Write(line)
			t.Stop()
			q.mu.Lock()
			q.size -= len(line)
			if err != nil && q.err == nil {
				q.err = err
			}
			failed := q.err
			q.mu.Unlock()
			select {
			case q.written <- struct{}{}:
			default:
			}
			if failed != nil {
				q.broken(failed)
				return
			}
		}
	}
}

// maxStack is how many of the last stderr lines are searched for an error: enough for a stack trace
// with its message, but not what a long-lived server reported earlier.
const maxStack = 50

// stderrCause returns the stderr lines that explain why a program ended, joined with " | ": the
// first that looks like an error and the last line, or the last three lines if none looks like an
// error.
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
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") { // Go prints it before its goroutines
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

// WithOutput adds to the error of an unanswered request what the server wrote instead: a stdout
// line that is not a message, and the end of stderr.
func (c *Conn) WithOutput(err error) error {
	if c.stdio == nil {
		return err
	}
	if line := c.stdio.lines.Noise(); line != "" {
		err = fmt.Errorf("%w (stdout is not JSON-RPC: %s)", err, line)
	}
	if lines := c.stderr(); len(lines) > 0 {
		return fmt.Errorf("%w (stderr: %s)", err, stderrCause(lines))
	}
	return err
}

// stderr returns the last lines that the child wrote to stderr, redacted; nil if there is no child.
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
