package session

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// httpDial is one attempt to connect over HTTP.
type httpDial struct {
	s        *Session
	srv      config.Server
	endpoint *wire.Endpoint
}

func newHTTPDial(srv config.Server, opts Options) (*httpDial, error) {
	headers := make(http.Header, len(srv.Headers)+1)
	for name, value := range srv.Headers {
		headers[http.CanonicalHeaderKey(name)] = []string{value.Reveal()}
	}
	s := newSession(srv, opts)
	e, err := wire.NewEndpoint(srv.URL.Reveal(), headers, credentials(s.login), s.wireConfig())
	if err != nil {
		return nil, err
	}
	return &httpDial{s: s, srv: srv, endpoint: e}, nil
}

func dialHTTP(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	d, err := newHTTPDial(srv, opts)
	if err != nil {
		return nil, err
	}
	conn, info, err := d.dial(ctx)
	if err == nil {
		info.Transport = config.TransportHTTP
		if opts.OneShot {
			d.s.fullInfo = func(ctx context.Context) Info { return tracked(ctx, conn, info) }
		}
		return d.s.attach(conn, info), nil
	}
	d.giveUp()
	if srv.Fallback && srv.Protocol != config.ProtocolModern && turnedDown(err) && ctx.Err() == nil {
		s, sseErr := dialSSE(ctx, srv, opts)
		if sseErr == nil {
			return s, nil
		}
		err = errors.Join(err, sseErr)
	}
	return nil, err
}

// giveUp releases everything that a failed attempt holds.
func (d *httpDial) giveUp() {
	_ = d.s.Close()
	d.endpoint.Close()
}

// dialSSE connects over the HTTP+SSE transport of 2024-11-05, which only knows
// the legacy era.
func dialSSE(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	if srv.Protocol == config.ProtocolModern {
		return nil, errors.New("the sse transport does not support the modern protocol")
	}
	d, err := newHTTPDial(srv, opts)
	if err != nil {
		return nil, err
	}
	conn, err := d.endpoint.SSE(ctx)
	if err != nil {
		d.giveUp()
		return nil, err
	}
	d.s.requests.conn = conn
	info, err := newHandshake(d.s, conn).initialize(ctx, mcp.LatestLegacy)
	if err != nil {
		d.giveUp()
		return nil, err
	}
	info.Transport, info.Push = config.TransportSSE, true
	return d.s.attach(conn, info), nil
}

// dial determines the era and connects. The caller owns the connection.
func (d *httpDial) dial(ctx context.Context) (conn *wire.Conn, info Info, err error) {
	info, err = detection{protocol: d.srv.Protocol, known: d.s.opts.Era,
		modern: func(ctx context.Context) (info Info, err error) {
			conn, info, err = d.dialModern(ctx)
			return info, err
		},
		legacy: func(ctx context.Context, version string) (info Info, err error) {
			conn, info, err = d.dialLegacy(ctx, version)
			return info, err
		}}.run(ctx)
	if err == nil && info.Era == EraLegacy && !d.s.opts.OneShot {
		conn.Listen()
		conn.AwaitStream(ctx)
	}
	return conn, info, err
}

// tracked returns the Info that dial would have led to without OneShot.
func tracked(ctx context.Context, conn *wire.Conn, info Info) Info {
	info.Push = true
	if info.Era == EraLegacy {
		conn.Listen()
		info.Push = conn.AwaitStream(ctx)
	}
	return info
}

// dialLegacy opens a legacy session, if necessary in another version that the server names.
func (d *httpDial) dialLegacy(ctx context.Context, version string) (*wire.Conn, Info, error) {
	conn, err := d.endpoint.Streamable()
	if err != nil {
		return nil, Info{}, err
	}
	info, err := newHandshake(d.s, conn).initialize(ctx, version)
	if err == nil {
		return conn, info, nil
	}
	d.abandon(conn)
	named := namedVersions(err)
	if v := newestOf(named, mcp.IsLegacy); v != "" && v != version && !slices.Contains(named, mcp.ModernVersion) {
		return d.dialLegacy(ctx, v)
	}
	return nil, Info{}, err
}

func (d *httpDial) dialModern(ctx context.Context) (*wire.Conn, Info, error) {
	conn, err := d.endpoint.Streamable()
	if err != nil {
		return nil, Info{}, err
	}
	info, err := newHandshake(d.s, conn).discover(ctx)
	if err != nil {
		d.abandon(conn)
		return nil, Info{}, err
	}
	info.Push = !d.s.opts.OneShot
	return conn, info, nil
}

// abandon closes a connection that is not used. The session on a legacy server is deleted in
// the background; only Close waits for that.
func (d *httpDial) abandon(conn *wire.Conn) {
	if end := func() { conn.Close(ErrClosed) }; !d.s.wg.Go(end) {
		end()
	}
}
