package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/process"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// oneShotGrace is how long the child of a one-shot session may take to exit after its stdin was
// closed, if no request was cancelled.
const oneShotGrace = 100 * time.Millisecond

// dialStdio starts the server's process. The session owns it from then on. Some legacy servers
// exit when the first message is not initialize; they are started again, for that.
func dialStdio(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	s, err := startStdio(ctx, srv, opts)
	if e, ended := errors.AsType[*EndError](err); ended && e.Err == nil && srv.Protocol != config.ProtocolModern &&
		srv.Protocol != config.ProtocolLegacy && opts.Era != EraLegacy && ctx.Err() == nil {
		srv.Protocol = config.ProtocolLegacy
		return startStdio(ctx, srv, opts)
	}
	return s, err
}

func startStdio(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
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
	return s.dialIO(ctx, conn, err, srv.Protocol)
}

// OverIO makes a session with a server that is already running and reads
// newline-delimited JSON from w and writes it to r. ctx bounds the handshake.
// The session closes w, and r if it is an io.Closer.
func OverIO(ctx context.Context, r io.Reader, w io.WriteCloser, srv config.Server, opts Options) (*Session, error) {
	srv.Transport = config.TransportStdio
	s := newSession(srv, opts.withDefaults())
	conn, err := wire.OverIO(r, w, s.wireConfig())
	return s.dialIO(ctx, conn, err, srv.Protocol)
}

// dialIO performs the handshake over pipes, unless err says that they could not be connected.
// The server's process is not started again for another version or era.
func (s *Session) dialIO(ctx context.Context, conn *wire.Conn, err error, protocol config.Protocol) (*Session, error) {
	if err != nil {
		return nil, err
	}
	h := newHandshake(s, conn)
	slow := slowDiscover{h: h}
	info, err := detection{protocol: protocol, known: s.opts.Era, modern: slow.modern, legacy: slow.legacy}.run(ctx)
	slow.end()
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

// slowDiscover makes the attempts of a detection over pipes. A server that is still starting
// answers server/discover late, and answers what was sent after it even later. So the request
// stays open while the legacy handshake is tried, and its answer counts.
type slowDiscover struct {
	h      *handshake
	cancel context.CancelFunc // nil: no request was sent, or it was answered in time
	// answered has room for the one answer, which the goroutine of the request sends. It is
	// received by modern, legacy or end.
	answered chan discovered
}

// lateDiscover is how long the answer to server/discover may come after that to initialize,
// which was sent later.
const lateDiscover = 100 * time.Millisecond

type discovered struct {
	info Info
	err  error
}

func (d *slowDiscover) modern(ctx context.Context) (Info, error) {
	if d.cancel == nil {
		var long context.Context
		long, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
		d.answered = make(chan discovered, 1)
		go func() {
			info, err := d.h.discover(long)
			d.answered <- discovered{info, err}
		}()
	}
	select {
	case a := <-d.answered:
		d.settle()
		return a.info, a.err
	case <-ctx.Done():
		return Info{}, context.Cause(ctx)
	}
}

// settle ends the request that was answered.
func (d *slowDiscover) settle() {
	d.cancel()
	d.cancel = nil
}

func (d *slowDiscover) legacy(ctx context.Context, version string) (Info, error) {
	info, err := d.h.legacy(ctx, version)
	if err != nil || d.cancel == nil {
		return info, err
	}
	late := time.NewTimer(lateDiscover)
	defer late.Stop()
	select {
	case a := <-d.answered:
		d.settle()
		if a.err == nil {
			info.Other = EraModern
		}
	case <-late.C:
	}
	return info, nil
}

// end cancels the request if it was not answered.
func (d *slowDiscover) end() {
	if d.cancel != nil {
		d.cancel()
		<-d.answered
	}
}
