package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/process"
)

// probeTimeout bounds a handshake that is only tried because it worked before.
const probeTimeout = 5 * time.Second

// dialStdio starts the server's process. The session owns it from then on.
func dialStdio(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	own := make(map[string]string, len(srv.Env))
	for name, v := range srv.Env {
		own[name] = v.Reveal()
	}
	redact := newRedactor(secretsOf(srv))
	p, err := process.Start(process.Spec{
		Command: srv.Command,
		Args:    srv.Args,
		Env:     process.Environ(opts.Environ, own),
		Dir:     srv.Dir,
		MaxLine: opts.Limits.MaxLine,
		Redact:  redact.text,
		Logger:  opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", &transportError{redact.text(err.Error()), err})
	}
	return overIO(ctx, p.Stdout(), p.Stdin(), p, srv, opts)
}

// OverIO makes a session with a server that is already running and reads
// newline-delimited JSON from w and writes it to r. ctx bounds the handshake.
// The session closes w, and r if it is an io.Closer.
func OverIO(ctx context.Context, r io.Reader, w io.WriteCloser, srv config.Server, opts Options) (*Session, error) {
	srv.Transport = config.TransportStdio
	return overIO(ctx, r, w, nil, srv, opts.withDefaults())
}

func overIO(ctx context.Context, r io.Reader, w io.WriteCloser, p *process.Process, srv config.Server, opts Options) (*Session, error) {
	s := newSession(srv, opts)
	s.stdio = true
	stdin := newLineQueue(w, s.requestTimeout, func(err error) { s.lose(&EndError{Reason: err.Error(), ExitCode: -1}) })
	// ended has room for the one error that lineWatch tells; never closed.
	ended := make(chan error, 1)
	stdout := &lineWatch{r: r, max: opts.Limits.MaxLine, look: s.look, end: func(err error) { ended <- err }}
	s.wg.Go(stdin.run)
	s.flush = func() { stdin.flush(flushPatience) }
	s.wg.Go(func() { s.watchIO(p, ended) })
	s.stop = func() {
		if p != nil {
			grace := process.Grace{}
			if opts.OneShot {
				grace.Stdin = 100 * time.Millisecond
			}
			p.Stop(grace)
		}
		if c, ok := r.(io.Closer); ok {
			_ = c.Close()
		}
	}

	tr := transport.NewIO(stdout, stdin, nil)
	transport.WithCommandLogger(s.logger)(tr)
	s.attach(tr)
	if err := tr.Start(s.ctx); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	info, err := s.handshakeStdio(ctx, tr, srv.Protocol, opts.Era)
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	info.Transport, info.Push = config.TransportStdio, true
	s.setInfo(info)
	return s, nil
}

// handshakeStdio finds the era on one and the same process.
func (s *Session) handshakeStdio(ctx context.Context, tr transport.Interface, protocol config.Protocol, era Era) (Info, error) {
	version := legacyVersion
	var first error
	if modernFirst(protocol, era) {
		dctx, cancel := ctx, context.CancelFunc(func() {})
		if protocol != config.ProtocolModern {
			dctx, cancel = context.WithTimeoutCause(ctx, probeTimeout, errDeadline)
		}
		info, err := s.discover(dctx, tr)
		cancel()
		if err == nil || protocol == config.ProtocolModern || ctx.Err() != nil {
			return info, err
		}
		if !turnedDown(err) && !errors.Is(err, errDeadline) {
			return Info{}, err
		}
		first = err
		version = cmp.Or(newestOf(namedVersions(err), speaksLegacy), version)
	}
	info, err := s.initialize(ctx, tr, version)
	if err == nil || protocol == config.ProtocolLegacy || !turnedDown(err) {
		return info, err
	}
	if v := newestOf(namedVersions(err), speaksLegacy); v != "" && v != version && !slices.Contains(namedVersions(err), modernVersion) {
		return s.initialize(ctx, tr, v)
	}
	if first != nil {
		return Info{}, errors.Join(first, err)
	}
	if info, derr := s.discover(ctx, tr); derr == nil {
		return info, nil
	} else {
		return Info{}, errors.Join(err, derr)
	}
}

// watchIO ends the session when the child exits or its output does.
func (s *Session) watchIO(p *process.Process, ended <-chan error) {
	if p == nil {
		select {
		case err := <-ended:
			s.end(&EndError{Reason: endReason(err), ExitCode: -1, Err: err})
		case <-s.ctx.Done():
		}
		return
	}
	// The last answers may still be on their way after an exit, and the exit
	// after the end of the output: each is given a moment.
	var err error
	drained := false
	select {
	case <-p.Done():
		drained = waitFor(ended, &err, 200*time.Millisecond)
	case err = <-ended:
		drained = true
		waitFor(p.Done(), new(struct{}), 500*time.Millisecond)
	case <-s.ctx.Done():
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
	for _, line := range p.Stderr() {
		e.Stderr = append(e.Stderr, s.redact.text(line))
	}
	if drained {
		s.end(e) // the transport itself fails what is still waiting
	} else {
		s.lose(e)
	}
}

func endReason(err error) string {
	if err == nil || err == io.EOF {
		return "the server closed its output"
	}
	return "reading the server's output: " + err.Error()
}

// waitFor receives into v within d.
func waitFor[T any](c <-chan T, v *T, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case *v = <-c:
		return true
	case <-t.C:
		return false
	}
}
