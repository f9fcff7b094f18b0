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

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Errors that callers can check with errors.Is.
var (
	// ErrClosed reports that the upstream has been closed.
	ErrClosed = errors.New("catalog upstream closed")
	// ErrUnknownTool reports that the catalog does not contain a tool with that name.
	ErrUnknownTool = errors.New("unknown tool")
)

// Defaults for Options.
const (
	DefaultInterval = 30 * time.Second
	DefaultTimeout  = 300 * time.Second
)

// Options configures an Upstream. Only URL is required.
type Options struct {
	// URL is the base URL, to which /api/version is appended. It may contain user info, which is
	// sent as Basic authentication and never logged.
	URL string
	// Display replaces the URL in messages and logs. The default is the URL without user info.
	Display string
	// Header is sent with every request and may contain credentials for the API. Its values and
	// Secrets are redacted in errors from the API, because these may echo a request.
	Header  http.Header
	Secrets []string
	// Interval is the time between polls, varied randomly by 20 %; default 30 s. Until the first
	// catalog has been read, failed polls are retried after 1 s, 2 s and so on, up to Interval.
	Interval time.Duration
	// Timeout limits the time for a call; default 300 s.
	Timeout time.Duration
	// Client sends the requests. By default, New creates one. CheckRedirect and Jar of a given
	// client are not used.
	Client *http.Client
	// Version is the version of this program that get_version reports.
	Version string
	// OnChange is called with the differences after a different list of tools has become current.
	OnChange func(*Catalog, catalog.Delta)
	// OnSkip is called when a catalog has invalid entries, unless the previous catalog had the same
	// ones. It receives the first [MaxSkips] of them and their total number.
	OnSkip func(skips []Skip, total int)
	// OnStatus is called when the API becomes reachable or unreachable.
	OnStatus func(Status)
	// Logger receives warnings about problems that the user should investigate; nil discards them.
	Logger *slog.Logger
}

// FromConfig returns the options for a server in the config whose transport is
// [config.TransportCatalog].
func FromConfig(srv config.Server) Options {
	opts := Options{URL: srv.URL.Reveal(), Display: strings.TrimRight(srv.Endpoint(), "/"), Interval: srv.CatalogInterval, Timeout: srv.RequestTimeout, Header: http.Header{}}
	for name, value := range srv.Headers {
		opts.Header.Set(name, value.Reveal())
	}
	for _, secret := range srv.Secrets {
		opts.Secrets = append(opts.Secrets, secret.Reveal())
	}
	return opts
}

// An Upstream provides the tools of one HTTP API. Its methods are safe for concurrent use, but
// Close must not be called from a callback.
type Upstream struct {
	opts      Options
	base      *url.URL // base URL without a trailing slash
	display   string   // base URL without credentials
	client    *http.Client
	redact    redactor        // removes credentials from the API's responses
	transport *http.Transport // nil if the client was supplied by the caller
	log       *slog.Logger

	current atomic.Pointer[Catalog]
	life    context.Context // cancelled by Close
	end     context.CancelCauseFunc
	tried   chan struct{} // closed by Run after the first poll; nothing is sent to it

	mu      sync.Mutex // guards the fields below
	closed  bool
	polling bool
	status  Status
	active  sync.WaitGroup // counts Run and calls; incremented only while not closed
}

// New validates the options and creates an Upstream. It starts no goroutine and sends no request.
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
	u.display = cmp.Or(opts.Display, (&url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path, RawPath: base.RawPath}).String())
	if u.log == nil {
		u.log = slog.New(slog.DiscardHandler)
	}
	u.log = u.log.With("url", printable.Line(u.display, 200))
	u.redact = newRedactor(base, opts.Header, opts.Secrets)
	u.newClient()
	u.life, u.end = context.WithCancelCause(context.Background())
	u.current.Store(emptyCatalog())
	return u, nil
}

func parseBase(raw string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimSpace(raw))
	switch { // messages must not contain the URL, which may include credentials
	case err != nil:
		return nil, errors.New("invalid catalog URL")
	case base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "":
		return nil, errors.New("invalid catalog URL; expected http://HOST or https://HOST")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("invalid catalog URL: a base URL must not have a query or fragment")
	}
	escaped := strings.TrimRight(base.EscapedPath(), "/")
	if base.Path, err = url.PathUnescape(escaped); err != nil {
		return nil, errors.New("invalid catalog URL")
	}
	base.RawPath = escaped
	return base, nil
}

// Catalog returns the current catalog, which is never nil. Before the first successful poll, it
// contains only get_version.
func (u *Upstream) Catalog() *Catalog { return u.current.Load() }

// Run polls the API until ctx is done or Close is called, and returns the cause. The first poll
// starts immediately. Run must not be called concurrently.
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
		return errors.New("catalog upstream is already running")
	}
	defer func() {
		u.mu.Lock()
		u.polling = false
		u.mu.Unlock()
		if u.transport != nil {
			u.transport.CloseIdleConnections()
		}
	}()
	p := newPoller(u)
	for {
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		u.polled(err)
		if !backoff.Sleep(ctx, p.wait(err)) {
			return context.Cause(ctx)
		}
	}
}

// begin registers an operation that Close waits for. The returned context ends with ctx or when
// Close is called. The caller must call done.
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

// Close stops Run and all calls, and returns when they have stopped. It may be called repeatedly
// and concurrently.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.end(ErrClosed)
	u.active.Wait()
	if u.transport != nil {
		u.transport.CloseIdleConnections()
	}
}

// Settled waits until the first poll has completed, so that a server can start with the API's tools
// already listed. It returns the current polling error, if any, or the cause of ctx. Run must have
// been called.
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
		return fmt.Errorf("catalog %s: %s", printable.Line(u.display, 200), st.Error)
	}
	return nil
}

// Status describes the current state of polling.
type Status struct {
	Up       bool   // whether the last poll succeeded
	Error    string // error of the last poll on one printable line; empty if it succeeded
	Failures int    // number of consecutive failed polls
	Build    string // build of the current catalog, on one printable line
}

// Status returns the current state of polling.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	st := u.status
	st.Build = bounded(u.Catalog().Build)
	return st
}

// polled records the result of a poll. If the API has become reachable or unreachable, polled logs
// this and calls OnStatus.
func (u *Upstream) polled(err error) {
	first := false
	select {
	case <-u.tried:
	default:
		first = true
	}
	u.mu.Lock()
	changed := first || u.status.Up != (err == nil)
	if u.status.Up = err == nil; u.status.Up {
		u.status.Error, u.status.Failures = "", 0
	} else {
		u.status.Error = u.redact.text(printable.Reason(err, 500)) // the error may quote the response
		u.status.Failures++
	}
	u.mu.Unlock()
	if first {
		close(u.tried)
	}
	if !changed {
		return
	}
	st := u.Status()
	if st.Up {
		u.log.Info("catalog reachable", "build", st.Build, "tools", len(u.Catalog().Tools))
	} else {
		u.log.Warn("catalog unreachable; the last known tools remain in use", "err", st.Error)
	}
	if u.opts.OnStatus != nil {
		u.opts.OnStatus(st)
	}
}
