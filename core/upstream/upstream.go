package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Errors that callers tell apart.
var (
	// ErrClosed: the upstream was closed.
	ErrClosed = errors.New("catalog upstream closed")
	// ErrUnknownTool: the catalog has no tool of that name.
	ErrUnknownTool = errors.New("unknown tool")
)

// Defaults of Options.
const (
	DefaultInterval = 30 * time.Second
	DefaultTimeout  = 300 * time.Second
)

// Options are where an API is and how it is followed. Only URL is needed.
type Options struct {
	// URL is the base that /api/version comes after. It may hold user info, which
	// is sent as basic authentication and never shown.
	URL string
	// Shown stands for the URL in messages and logs; by default it is the URL without
	// user info.
	Shown string
	// Header is sent with every request: credentials for the API.
	Header http.Header
	// Interval is the time between two polls, ± 10 %; 30 s. Until there is a first
	// catalog, polls begin at 1 s apart.
	Interval time.Duration
	// Timeout bounds one call; 300 s.
	Timeout time.Duration
	// Client sends the requests; nil: one of its own. Its CheckRedirect and Jar are
	// not used.
	Client *http.Client
	// Self is what get_version says of this program.
	Self Version
	// OnChange is called after a list that differs from the one before was swapped
	// in, with what differs.
	OnChange func(*Catalog, catalog.Delta)
	// OnSkip is called when a catalog was read with entries that cannot be served,
	// once for the same ones: the first [MaxSkips] of them, and how many there are.
	// nil: they are logged.
	OnSkip func(skips []Skip, total int)
	// OnStatus is called when the API became reachable or unreachable.
	OnStatus func(Status)
	// Logger gets at warn what a user should look into; nil discards.
	Logger *slog.Logger
}

// FromConfig are the options for a server of the config whose transport is
// [config.TransportCatalog].
func FromConfig(srv config.Server) Options {
	opts := Options{URL: srv.URL.Reveal(), Shown: strings.TrimRight(srv.Endpoint(), "/"), Interval: srv.CatalogInterval, Timeout: srv.RequestTimeout, Header: http.Header{}}
	for name, value := range srv.Headers {
		opts.Header.Set(name, value.Reveal())
	}
	return opts
}

// An Upstream is one HTTP API whose catalog is followed. Its methods may be called
// from anywhere, but Close not from a callback.
type Upstream struct {
	opts   Options
	base   *url.URL // without trailing slash
	shown  string   // the base without credentials
	client *http.Client
	own    *http.Transport // nil: the client is the caller's
	log    *slog.Logger

	current atomic.Pointer[Catalog]
	life    context.Context // ends with Close
	end     context.CancelCauseFunc
	tried   chan struct{} // closed by Run after the first poll; nothing is sent

	mu      sync.Mutex // guards what follows
	closed  bool
	polling bool
	status  Status
	active  sync.WaitGroup // Run and calls; added to only while not closed
}

// New checks the options. It starts nothing and sends nothing.
func New(opts Options) (*Upstream, error) {
	base, err := parseBase(opts.URL)
	if err != nil {
		return nil, err
	}
	opts.Interval = cmp.Or(opts.Interval, DefaultInterval)
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	if opts.Interval < 0 || opts.Timeout < 0 {
		return nil, errors.New("catalog: interval and timeout must be positive")
	}
	opts.Header = opts.Header.Clone()
	u := &Upstream{opts: opts, base: base, log: opts.Logger, tried: make(chan struct{})}
	u.shown = cmp.Or(opts.Shown, (&url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path, RawPath: base.RawPath}).String())
	if u.log == nil {
		u.log = slog.New(slog.DiscardHandler)
	}
	u.log = u.log.With("url", printable.Line(u.shown, 200))
	u.newClient()
	u.life, u.end = context.WithCancelCause(context.Background())
	u.current.Store(emptyCatalog())
	return u, nil
}

func parseBase(raw string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimSpace(raw))
	switch { // no message quotes the URL: it may hold credentials
	case err != nil:
		return nil, errors.New("catalog URL: it is not a URL")
	case base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "":
		return nil, errors.New("catalog URL: want http://HOST or https://HOST")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("catalog URL: a base URL has no query and no fragment")
	}
	escaped := strings.TrimRight(base.EscapedPath(), "/")
	if base.Path, err = url.PathUnescape(escaped); err != nil {
		return nil, errors.New("catalog URL: it is not a URL")
	}
	base.RawPath = escaped
	return base, nil
}

// Catalog returns the tools as they are now, never nil. Before the first
// successful poll it has get_version alone.
func (u *Upstream) Catalog() *Catalog { return u.current.Load() }

// Endpoint is the base URL without credentials: for messages and logs.
func (u *Upstream) Endpoint() string { return u.shown }

// Run polls until ctx ends or Close is called, and returns why. The first poll is
// made at once. It must not run twice at a time.
func (u *Upstream) Run(ctx context.Context) error {
	ctx, done, err := u.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	u.mu.Lock()
	again := u.polling
	u.polling = true
	u.mu.Unlock()
	if again {
		return errors.New("catalog upstream is running already")
	}
	defer func() {
		u.mu.Lock()
		u.polling = false
		u.mu.Unlock()
		if u.own != nil {
			u.own.CloseIdleConnections()
		}
	}()
	p := newPoller(u)
	for {
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		u.polled(err)
		if !sleep(ctx, p.wait(err)) {
			return context.Cause(ctx)
		}
	}
}

// begin registers work that Close waits for. Its context ends with ctx or with
// Close; done has to be called.
func (u *Upstream) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, nil, ErrClosed
	}
	u.active.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(u.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		u.active.Done()
	}, nil
}

// Close ends Run and all calls in work and returns when they have ended. It may be
// called more than once and at the same time.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.end(ErrClosed)
	u.active.Wait()
	if u.own != nil {
		u.own.CloseIdleConnections()
	}
}

// Settled waits until the API was asked once, with success or not, so that a
// server can begin with its tools. It returns the error of that poll's state, or
// the cause of ctx. Run must have been called.
func (u *Upstream) Settled(ctx context.Context) error {
	select {
	case <-u.tried:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-u.life.Done():
	}
	if u.life.Err() != nil {
		return ErrClosed
	}
	if st := u.Status(); !st.Up {
		return fmt.Errorf("catalog %s: %s", printable.Line(u.shown, 200), st.Error)
	}
	return nil
}

// sleep waits, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
