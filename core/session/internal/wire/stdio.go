package wire

import (
	"errors"
	"io"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/process"
)

// flushPatience is how long a cancelled request, or Close, waits for the server to accept
// the messages that are on their way to it.
const flushPatience = 250 * time.Millisecond

// StartProcess starts a server as a child process and connects to its pipes. grace says how
// long Close waits for the process at each step of stopping it. If a request was cancelled
// at the server, which may have to clean up then, Close uses the default grace instead.
func StartProcess(spec process.Spec, grace process.Grace, cfg Config) (*Conn, error) {
	p, err := process.Start(spec)
	if err != nil {
		return nil, &transportError{cfg.Redact(printable.Reason(err, 0)), err}
	}
	c := newConn(cfg)
	c.release = func() {
		if c.interrupted.Load() {
			grace = process.Grace{}
		}
		p.Stop(grace)
	}
	c.stderr = redacted(p.Stderr, cfg.Redact)
	return c, startIO(c, p.Stdout(), p.Stdin(), p)
}

// OverIO connects to a server that is already running: it reads from r and writes to
// w, one message per line. Close closes w, and r if it is an io.Closer.
func OverIO(r io.Reader, w io.WriteCloser, cfg Config) (*Conn, error) {
	c := newConn(cfg)
	c.release = func() {
		if closer, ok := r.(io.Closer); ok {
			_ = closer.Close()
		}
	}
	return c, startIO(c, process.NewLines(r, process.Spec{MaxLine: cfg.MaxLine, Redact: cfg.Redact, Logger: cfg.Logger}), w, nil)
}

func startIO(c *Conn, lines *process.Lines, w io.WriteCloser, p *process.Process) error {
	c.stdio, c.noise = true, lines.Noise
	stdin := newLineQueue(w, c.cfg.WriteTimeout, func(err error) { c.fail(&EndError{Reason: printable.Reason(err, 0), ExitCode: -1}) })
	// ended has room for the one error that answers reports; never closed.
	ended := make(chan error, 1)
	stdout := &answers{lines: lines, receive: c.receive, tooLong: c.tooLong, ended: func(err error) { ended <- err }}
	c.group.Go(stdin.run)
	c.group.Go(func() { watchIO(c, p, ended) })
	c.reply = func(answer []byte) { _, _ = stdin.Write(append(answer, '\n')) }
	c.flush = func() { stdin.flush(flushPatience) }

	tr := transport.NewIO(stdout, stdin, nil)
	transport.WithCommandLogger(c.cfg.Logger)(tr)
	c.attach(tr)
	if err := tr.Start(c.ctx); err != nil {
		c.Close(ErrClosed)
		return err
	}
	return nil
}

// answers is the server's stdout as the library sees it: without the messages that
// Conn.receive has handled.
type answers struct {
	lines   *process.Lines
	receive func(*scratch, []byte) (handled bool)
	tooLong func(*process.LongLineError)
	ended   func(error) // called once

	scratch scratch
	rest    []byte // the end of the current line, which is not read yet
	err     error  // of lines; returned by every later Read
}

func (a *answers) Read(p []byte) (int, error) {
	for len(a.rest) == 0 && a.err == nil {
		line, err := a.lines.Next()
		long, tooLong := errors.AsType[*process.LongLineError](err)
		switch {
		case tooLong:
			a.tooLong(long)
		case err != nil:
			a.err = err
			a.ended(err)
		case !a.receive(&a.scratch, line):
			a.rest = line
		}
	}
	if len(a.rest) == 0 {
		return 0, a.err
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// watchIO ends the connection when the child exits or closes its output.
func watchIO(c *Conn, p *process.Process, ended <-chan error) {
	if p == nil {
		select {
		case err := <-ended:
			endIO(c, &EndError{Reason: endReason(err), ExitCode: -1, Err: err}, true)
		case <-c.ctx.Done():
		}
		return
	}
	// After an exit the last answers may still have to be read, and after the end of the
	// output the process may still have to exit: wait a moment for either.
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
	endIO(c, e, drained)
}

// endIO ends the connection. If the output was read to its end (drained), the answers in
// it have been delivered, and the library fails the requests that still wait.
func endIO(c *Conn, err error, drained bool) {
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

// waitFor receives a value into v. It reports false if none came within d.
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
