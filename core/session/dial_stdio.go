package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/process"
	"github.com/mcptrack/mcptrack/core/session/wire"
)

// probeTimeout bounds a handshake in the era that worked in an earlier session.
const probeTimeout = 5 * time.Second

// oneShotGrace is how long the child of a one-shot session may take to exit after its stdin was
// closed, if no request was cancelled.
const oneShotGrace = 100 * time.Millisecond

// dialStdio starts the server's process. The session owns it from then on.
func dialStdio(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	own := make(map[string]string, len(srv.Env))
	for name, v := range srv.Env {
		own[name] = v.Reveal()
	}
	grace := process.Grace{}
	if opts.OneShot {
		grace.Stdin = oneShotGrace
	}
	s := newSession(srv, opts)
	conn, err := wire.StartProcess(process.Spec{
		Command: srv.Command,
		Args:    srv.Args,
		Env:     process.Environ(opts.Environ, own),
		Dir:     srv.Dir,
		MaxLine: opts.Limits.MaxLine,
		Redact:  s.redact.text,
		Logger:  opts.Logger,
	}, grace, s.wireConfig())
	return dialIO(s, ctx, conn, err, srv.Protocol)
}

// OverIO makes a session with a server that is already running and reads
// newline-delimited JSON from w and writes it to r. ctx bounds the handshake.
// The session closes w, and r if it is an io.Closer.
func OverIO(ctx context.Context, r io.Reader, w io.WriteCloser, srv config.Server, opts Options) (*Session, error) {
	srv.Transport = config.TransportStdio
	s := newSession(srv, opts.withDefaults())
	conn, err := wire.OverIO(r, w, s.wireConfig())
	return dialIO(s, ctx, conn, err, srv.Protocol)
}

// dialIO performs the handshake over pipes, unless err says that they could not be connected.
func dialIO(s *Session, ctx context.Context, conn *wire.Conn, err error, protocol config.Protocol) (*Session, error) {
	if err != nil {
		return nil, err
	}
	info, err := newHandshake(s, conn).anyEra(ctx, protocol, s.opts.Era)
	if err != nil {
		if _, ended := errors.AsType[*EndError](err); !ended {
			err = conn.WithOutput(err) // it often says why there is no answer
		}
		s.requests.conn = conn
		_ = s.Close()
		return nil, err
	}
	info.Transport, info.Push = config.TransportStdio, true
	return s.attach(conn, info), nil
}
