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
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// ErrUnknownTool reports that the catalog does not contain a tool with that name.
var ErrUnknownTool = errors.New("unknown tool")

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
	// Changed is called after a different list of tools has become current, and when the API has become reachable or
	// unreachable. It may be nil.
	Changed func()
	// Logger receives warnings about problems that the user should investigate, such as an unreachable API and invalid
	// entries of its catalog; nil discards them.
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

// An Upstream provides the tools of one HTTP API. Its methods are safe for concurrent use.
type Upstream struct {
	opts    Options
	base    *url.URL // base URL without a trailing slash
	display string   // base URL without credentials
	client  *http.Client
	redact  redactor // removes credentials from the API's responses
	log     *slog.Logger

	current atomic.Pointer[Catalog]
	status  atomic.Pointer[Status]
	tried   chan struct{} // closed by Run after the first poll, and when it ends; nothing is sent to it
	settle  func()        // closes tried once
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
	u.settle = sync.OnceFunc(func() { close(u.tried) })
	if opts.Changed == nil {
		u.opts.Changed = func() {}
	}
	u.display = cmp.Or(opts.Display, (&url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path, RawPath: base.RawPath}).String())
	if u.log == nil {
		u.log = slog.New(slog.DiscardHandler)
	}
	u.log = u.log.With("url", printable.Line(u.display, 200))
	u.redact = newRedactor(base, opts.Header, opts.Secrets)
	u.newClient()
	u.current.Store(emptyCatalog())
	u.status.Store(&Status{})
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

// Run polls the API until ctx is done. The first poll starts immediately. Run must be called only once. Calls do not
// depend on it.
func (u *Upstream) Run(ctx context.Context) {
	defer u.client.CloseIdleConnections()
	defer u.settle()
	p := newPoller(u)
	for {
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		u.polled(err)
		if !backoff.Sleep(ctx, p.wait(err)) {
			return
		}
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
	}
	if st := u.Status(); !st.Up {
		return fmt.Errorf("catalog %s: %s", printable.Line(u.display, 200), st.Error)
	}
	return nil
}

// Status describes the current state of polling.
type Status struct {
	Up    bool   // whether the last poll succeeded
	Error string // error of the last poll on one printable line; empty if it succeeded, and before the first
}

// Status returns the current state of polling.
func (u *Upstream) Status() Status { return *u.status.Load() }

// polled records the result of a poll. If the API has become reachable or unreachable, polled logs
// this and calls Changed.
func (u *Upstream) polled(err error) {
	now := Status{Up: err == nil}
	if err != nil {
		now.Error = u.redact.text(printable.Reason(err, 500)) // the error may quote the response
	}
	before := *u.status.Swap(&now)
	u.settle()
	switch {
	case before != Status{} && before.Up == now.Up:
		return
	case now.Up:
		u.log.Info("catalog reachable", "build", bounded(u.Catalog().Build), "tools", len(u.Catalog().Tools))
	default:
		u.log.Warn("catalog unreachable; the last known tools remain in use", "err", now.Error)
	}
	u.opts.Changed()
}
