package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcptrack/mcptrack/core/config"
)

// getPatience is how long a legacy server gets to open its notification stream.
// Some send the headers only with the first event.
const getPatience = 2 * time.Second

// httpDial is one attempt to connect over HTTP.
type httpDial struct {
	s       *Session
	srv     config.Server
	opts    Options
	url     *url.URL // without user info
	headers http.Header
	base    *http.Transport
}

func newHTTPDial(srv config.Server, opts Options) (*httpDial, error) {
	u, err := url.Parse(srv.URL.Reveal())
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("connect: the URL is not an absolute http or https URL")
	}
	h := make(http.Header, len(srv.Headers)+1)
	for name, value := range srv.Headers {
		h[http.CanonicalHeaderKey(name)] = []string{value.Reveal()}
	}
	if u.User != nil && h.Get("Authorization") == "" {
		password, _ := u.User.Password()
		q := &http.Request{Header: h}
		q.SetBasicAuth(u.User.Username(), password)
	}
	u.User = nil
	return &httpDial{s: newSession(srv, opts), srv: srv, opts: opts, url: u, headers: h, base: newBase()}, nil
}

// newBase makes a transport for one session. It has no timeout for answers, as
// streams have none; TCP keep-alive finds dead peers, requests have deadlines.
func newBase() *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{
			Timeout:         10 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		}).DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// client makes an HTTP client and the guard in it.
func (d *httpDial) client() (*http.Client, *guard) {
	g := &guard{base: d.base, origin: d.url, headers: d.headers, redact: d.s.redact, answers: make(chan struct{}, maxAnswers),
		onEvent: func(_, data string) error { d.s.look([]byte(data)); return nil },
		maxBody: d.opts.Limits.MaxBody, maxLine: d.opts.Limits.MaxLine, onLost: d.s.lose}
	return &http.Client{Transport: g, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, g
}

// httpConn is one transport with what is needed to give it up.
type httpConn struct {
	tr   *transport.StreamableHTTP
	g    *guard
	get  *getWatch
	stop context.CancelFunc // ends the notification stream and its retries
}

// open makes a transport; with listening it will hold a notification stream.
func (d *httpDial) open(listening bool) (*httpConn, error) {
	hc, g := d.client()
	options := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(hc), transport.WithHTTPLogger(d.s.logger)}
	c := &httpConn{g: g}
	if listening {
		options = append(options, transport.WithContinuousListening())
		c.get = newGetWatch(d.s)
		g.onGET, g.onGETEnd = c.get.answered, c.get.ended
	}
	tr, err := transport.NewStreamableHTTP(d.url.String(), options...)
	if err != nil {
		return nil, errors.New("connect: the URL cannot be used")
	}
	ctx, stop := context.WithCancel(d.s.ctx)
	c.tr, c.stop = tr, stop
	d.s.attach(tr)
	if err := tr.Start(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}

// abandon gives a transport up; a legacy server is told in the background.
func (d *httpDial) abandon(c *httpConn) {
	c.g.silent.Store(true)
	c.stop()
	if end := func() { _ = c.tr.Close() }; !d.s.wg.Go(end) {
		end()
	}
}

// keep makes a transport that of the session.
func (d *httpDial) keep(c *httpConn, info Info) *Session {
	d.s.tr = c.tr
	d.s.hush = func(lost bool) {
		c.g.silent.Store(true)
		c.g.dead.Store(lost)
	}
	d.s.stop = func() {
		c.stop()
		d.base.CloseIdleConnections()
	}
	info.Transport = config.TransportHTTP
	d.s.setInfo(info)
	if c.get != nil {
		c.get.publish()
	}
	return d.s
}

func dialHTTP(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	d, err := newHTTPDial(srv, opts)
	if err != nil {
		return nil, err
	}
	s, err := d.dial(ctx)
	if err == nil {
		return s, nil
	}
	_ = d.s.Close()
	d.base.CloseIdleConnections()
	if srv.Fallback && srv.Protocol != config.ProtocolModern && turnedDown(err) && ctx.Err() == nil {
		s, sseErr := dialSSE(ctx, srv, opts)
		if sseErr == nil {
			return s, nil
		}
		err = errors.Join(err, sseErr)
	}
	return nil, fmt.Errorf("connect: %w", err)
}

func (d *httpDial) dial(ctx context.Context) (*Session, error) {
	protocol := d.srv.Protocol
	version := legacyVersion
	var first error
	if modernFirst(protocol, d.opts.Era) {
		pctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errDeadline)
		if protocol == config.ProtocolModern {
			pctx = ctx
		}
		s, err := d.dialModern(pctx)
		cancel()
		if err == nil || protocol == config.ProtocolModern || !turnedDown(err) && !errors.Is(err, errDeadline) {
			return s, err
		}
		first = err
		version = cmp.Or(newestOf(namedVersions(err), speaksLegacy), version)
	}
	c, info, err := d.initialize(ctx, version)
	if err != nil {
		if protocol == config.ProtocolLegacy || first != nil || !turnedDown(err) {
			return nil, errors.Join(first, err)
		}
		s, modernErr := d.dialModern(ctx)
		if modernErr != nil {
			return nil, errors.Join(err, modernErr)
		}
		return s, nil
	}
	if d.opts.OneShot {
		return d.keep(c, info), nil
	}
	if status := c.get.wait(ctx); status == http.StatusOK {
		info.Push = true
		return d.keep(c, info), nil
	} else if protocol != config.ProtocolLegacy && first == nil {
		pctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errDeadline)
		s, err := d.dialModern(pctx)
		cancel()
		if err == nil {
			d.abandon(c)
			return s, nil
		}
		d.s.attach(c.tr)
	}
	if c.get.refused() {
		c.stop() // or the transport would ask again every second
	}
	return d.keep(c, info), nil
}

// initialize opens a legacy session, in another version if the server asks so.
func (d *httpDial) initialize(ctx context.Context, version string) (*httpConn, Info, error) {
	c, err := d.open(!d.opts.OneShot)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := d.s.initialize(ctx, c.tr, version)
	if err == nil {
		return c, info, nil
	}
	d.abandon(c)
	named := namedVersions(err)
	if v := newestOf(named, speaksLegacy); v != "" && v != version && !slices.Contains(named, modernVersion) {
		return d.initialize(ctx, v)
	}
	return nil, Info{}, err
}

func (d *httpDial) dialModern(ctx context.Context) (*Session, error) {
	c, err := d.open(false)
	if err != nil {
		return nil, err
	}
	info, err := d.s.discover(ctx, c.tr)
	if err != nil {
		d.abandon(c)
		return nil, err
	}
	info.Push = !d.opts.OneShot
	return d.keep(c, info), nil
}
