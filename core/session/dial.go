package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/process"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Dial connects to a server and completes the handshake. It fails when ctx is done or after the
// connect timeout, and then leaves nothing behind. ctx does not limit the lifetime of the session
// that Dial returns. If this machine lacks something that the server needs, or the user has not
// approved its entry, Dial does not connect and returns the error from [config.Server.Unusable].
//
// Unless the server's entry specifies the era, Dial detects it as described under basic/versioning
// in the 2026-07-28 specification: it sends server/discover first. It falls back to the legacy
// handshake if the response is not one that only a modern server gives, if there is no response within
// half of the connect timeout, at most 30 s, or if a child process exits. Over HTTP, it finally tries SSE on the same URL if the
// entry allows a fallback. If the server requests another version, Dial continues with the same
// process. If Options.Era is legacy, Dial tries the legacy handshake first.
func Dial(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	if err := srv.Unusable(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	timeout := opts.ConnectTimeout
	if srv.ConnectTimeout > 0 {
		timeout = srv.ConnectTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("did not answer within %s%s; raise connectTimeout", timeout, slowStart(srv)))
	defer cancel()
	dial := map[config.Transport]DialFunc{config.TransportStdio: dialStdio, config.TransportHTTP: dialHTTP, config.TransportSSE: dialSSE}[srv.Transport]
	if dial == nil {
		return nil, fmt.Errorf("unknown transport %q", srv.Transport)
	}
	s, err := dial(ctx, srv, opts)
	if err != nil {
		return nil, explain(srv, err)
	}
	return s, nil
}

var _ DialFunc = Dial

// slowStart returns the reason why a program that downloads its server may start slowly. It returns
// an empty string for other programs.
func slowStart(srv config.Server) string {
	if srv.Transport != config.TransportStdio {
		return ""
	}
	program := strings.ToLower(filepath.Base(srv.Command))
	program = strings.TrimSuffix(strings.TrimSuffix(program, ".exe"), ".cmd")
	switch program {
	case "npx", "uvx", "bunx", "pnpx", "pipx", "uv", "npm", "pnpm", "yarn", "bun", "deno", "docker", "podman":
		return ": " + program + " may still be downloading"
	}
	return ""
}

// httpDial is one attempt to connect over HTTP.
type httpDial struct {
	s      *Session
	dialer *wire.HTTPDialer
	conn   *wire.Conn // set by the handshake that succeeded
}

func newHTTPDial(srv config.Server, opts Options) (*httpDial, error) {
	headers := make(http.Header, len(srv.Headers)+1)
	for name, value := range srv.Headers {
		headers[http.CanonicalHeaderKey(name)] = []string{value.Reveal()}
	}
	s := newSession(srv, opts)
	e, err := wire.NewHTTPDialer(srv.URL.Reveal(), headers, credentials(s.login), s.wireConfig())
	if err != nil {
		return nil, err
	}
	return &httpDial{s: s, dialer: e}, nil
}

func dialHTTP(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	d, err := newHTTPDial(srv, opts)
	if err != nil {
		return nil, err
	}
	info, err := detection{protocol: srv.Protocol, known: d.s.opts.Era, modern: d.modern, legacy: d.legacy}.run(ctx)
	if err == nil {
		info.Transport = config.TransportHTTP
		if opts.OneShot {
			d.s.fullInfo = func(ctx context.Context) Info { return d.tracked(ctx, info) }
		} else if info.Era == EraLegacy {
			d.conn.Listen()
			d.conn.AwaitStream(ctx)
		}
		return d.s.attach(d.conn, info), nil
	}
	d.giveUp()
	// A server that has named a version speaks Streamable HTTP.
	_, named := errors.AsType[*versionError](err)
	if srv.Fallback && srv.Protocol != config.ProtocolModern && turnedDown(err) && !named && ctx.Err() == nil {
		s, sseErr := dialSSE(ctx, srv, opts)
		if _, spoke := errors.AsType[*sseError](sseErr); sseErr == nil || spoke {
			return s, sseErr
		}
		err = errors.Join(err, sseErr)
	}
	return nil, err
}

// giveUp releases all resources of a failed attempt.
func (d *httpDial) giveUp() {
	_ = d.s.Close()
	d.dialer.Close()
}

// dialSSE connects over the HTTP+SSE transport of 2024-11-05, which supports only the legacy era.
func dialSSE(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	if srv.Protocol == config.ProtocolModern {
		return nil, errors.New("the sse transport does not support the modern protocol")
	}
	d, err := newHTTPDial(srv, opts)
	if err != nil {
		return nil, err
	}
	conn, err := d.dialer.SSE(ctx)
	if err != nil {
		d.giveUp()
		return nil, err
	}
	d.s.conn = conn
	info, err := handshake{d.s, conn}.legacy(ctx, mcp.LatestLegacy)
	if err != nil {
		d.giveUp()
		return nil, &sseError{err}
	}
	info.Transport, info.Push = config.TransportSSE, true
	return d.s.attach(conn, info), nil
}

// sseError is the error of a server that speaks HTTP+SSE: it has named the endpoint for messages.
type sseError struct{ error }

func (e *sseError) Unwrap() error { return e.error }

// tracked returns the Info that dialHTTP would have returned if OneShot were false.
func (d *httpDial) tracked(ctx context.Context, info Info) Info {
	info.Push = true
	if info.Era == EraLegacy {
		d.conn.Listen()
		info.Push = d.conn.AwaitStream(ctx)
	}
	return info
}

// legacy opens a legacy session. If the server supports only another version, it retries with that
// version.
func (d *httpDial) legacy(ctx context.Context, version string) (Info, error) {
	conn := d.dialer.Streamable()
	info, err := handshake{d.s, conn}.initialize(ctx, version)
	if err == nil {
		d.conn = conn
		return info, nil
	}
	d.abandon(conn)
	if v := legacyInstead(err, version); v != "" {
		return d.legacy(ctx, v)
	}
	return Info{}, err
}

func (d *httpDial) modern(ctx context.Context) (Info, error) {
	conn := d.dialer.Streamable()
	info, err := handshake{d.s, conn}.discover(ctx)
	if err != nil {
		d.abandon(conn)
		return Info{}, err
	}
	info.Push = !d.s.opts.OneShot
	d.conn = conn
	return info, nil
}

// abandon closes an unused connection. Deleting the session on a legacy server happens in the
// background; only Close waits for it.
func (d *httpDial) abandon(conn *wire.Conn) {
	if end := func() { conn.Close(ErrClosed) }; !d.s.wg.Go(end) {
		end()
	}
}

// oneShotGrace is how long the child process of a one-shot session may take to exit after its stdin
// is closed, provided that no request was cancelled.
const oneShotGrace = 100 * time.Millisecond

// dialStdio starts the server's process, which the session then owns. Some legacy servers exit if
// the first message is not initialize; dialStdio restarts such a server with the legacy handshake. A server
// that exits without reading the message is not restarted.
func dialStdio(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	s, err := startStdio(ctx, srv, opts)
	if e, ended := errors.AsType[*EndError](err); ended && e.Err == nil && !e.Unread && srv.Protocol != config.ProtocolModern &&
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
	grace := process.Grace{Stdin: opts.Grace}
	if opts.OneShot && opts.Grace == 0 {
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

// OverIO returns a session with a running server that reads newline-delimited JSON from w and
// writes it to r. ctx limits only the handshake. The session closes w, and also r if it is an
// io.Closer.
func OverIO(ctx context.Context, r io.Reader, w io.WriteCloser, srv config.Server, opts Options) (*Session, error) {
	srv.Transport = config.TransportStdio
	s := newSession(srv, opts.withDefaults())
	return s.dialIO(ctx, wire.OverIO(r, w, s.wireConfig()), nil, srv.Protocol)
}

// dialIO performs the handshake over pipes. If err is not nil, the pipes could not be connected. It
// does not restart the process to try another version or era.
func (s *Session) dialIO(ctx context.Context, conn *wire.Conn, err error, protocol config.Protocol) (*Session, error) {
	if err != nil {
		return nil, err
	}
	h := handshake{s, conn}
	slow := slowDiscover{h: h}
	info, err := detection{protocol: protocol, known: s.opts.Era, modern: slow.modern, legacy: slow.legacy}.run(ctx)
	slow.end()
	if err != nil {
		if _, ended := errors.AsType[*EndError](err); !ended {
			err = conn.WithOutput(err) // the output often explains the missing response
		}
		s.conn = conn
		_ = s.Close()
		return nil, err
	}
	info.Transport, info.Push, info.PID = config.TransportStdio, true, conn.PID()
	return s.attach(conn, info), nil
}

// slowDiscover detects the era over pipes. A server that is still starting responds late to
// server/discover, and even later to subsequent messages. The request therefore stays open while
// the legacy handshake is tried, and a late response is still used.
type slowDiscover struct {
	h      handshake
	cancel context.CancelFunc // nil if no request was sent, or if it was answered in time
	// answered receives the response from the goroutine that sent the request; modern, legacy or
	// end reads it. It has capacity 1.
	answered chan discovered
}

// lateDiscover is how long to wait for the response to server/discover after the response to
// initialize has arrived.
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

// settle releases the resources of the answered request.
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

// end cancels the request if it has not been answered.
func (d *slowDiscover) end() {
	if d.cancel != nil {
		d.cancel()
		<-d.answered
	}
}

// loginOf returns the token source for a server. It returns nil if the server's entry contains
// credentials or the server is not reached over HTTP.
func loginOf(srv config.Server, logins *login.Store) *login.TokenSource {
	if logins == nil {
		return nil
	}
	for name := range srv.Headers {
		if strings.EqualFold(name, "Authorization") {
			return nil
		}
	}
	t := login.TargetOf(srv)
	if t.URL == "" {
		return nil
	}
	return logins.TokenSource(t)
}

func credentials(from *login.TokenSource) *wire.Credentials {
	if from == nil {
		return nil
	}
	return &wire.Credentials{
		Header: func(ctx context.Context) (string, error) {
			header, err := from.Header(ctx)
			return header, authError(err, 0, login.Challenge{})
		},
		Refused: func(ctx context.Context, r wire.Refusal) (wire.Advice, error) {
			c := login.ParseChallenge(r.Challenge)
			again, err := from.Refused(ctx, r.Header, r.Status, c)
			if err != nil {
				if e, ok := errors.AsType[*wire.AuthError](authError(err, r.Status, c)); ok {
					return wire.Advice{Reason: e.Reason, Remedy: e.Remedy}, nil // shown in addition to the response
				}
				return wire.Advice{}, err
			}
			return wire.Advice{Again: again, Reason: c.Reason(), Remedy: remedy(from.Target(), r, c)}, nil
		},
	}
}

// authError converts a [*login.RequiredError] to an [*AuthError]; it returns other errors
// unchanged.
func authError(err error, status int, c login.Challenge) error {
	required, ok := errors.AsType[*login.RequiredError](err)
	if !ok {
		return err
	}
	return &wire.AuthError{Status: status, Reason: c.Reason(), Remedy: required.Error()}
}

// remedy returns what the user can do after the server refused a request.
func remedy(t login.Target, r wire.Refusal, c login.Challenge) string {
	const header = `an Authorization header in the server's "headers" in the config`
	switch {
	case c.Basic && c.Metadata == "":
		return "add " + header
	case r.Status == http.StatusForbidden && r.Header != "":
		return "the login is valid but does not permit this request"
	case c.Metadata == "" && r.Header == "":
		return "run " + t.Command() + ", or add " + header
	}
	return "run " + t.Command()
}
