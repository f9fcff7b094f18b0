package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Options are what to follow. A zero field means its default.
type Options struct {
	URL    string
	Header http.Header // of every request: Authorization, above all
	// LastID is where to go on; "", or one that no header can carry: where the feed
	// begins by itself.
	LastID string
	// Idle is how long a feed may say nothing, not even a heartbeat; 90 s.
	Idle time.Duration
	// Client makes the requests; nil: one that follows no redirects and minds the
	// proxy of the environment.
	Client *http.Client
	// Connected is called whenever a connection was made.
	Connected func()
	// Logger gets connections at info and outages at warn; nil discards.
	Logger *slog.Logger
}

// RefusedError is the answer of a feed that trying again would not change.
type RefusedError struct{ Status int }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the feed refused: %d %s", e.Status, http.StatusText(e.Status))
}

// ErrStopped is the error of a feed that says that there is nothing more to come
// back for: 204.
var ErrStopped = errors.New("the feed has ended for good")

// Times between attempts.
const (
	leastWait = time.Second
	mostWait  = 30 * time.Second
)

// follower is one Run.
type follower struct {
	opts  Options
	log   *slog.Logger
	take  func(Event) error
	last  string        // id
	retry time.Duration // what the feed asked for
	wait  time.Duration // before the next attempt
}

// takeError marks an error of the taker.
type takeError struct{ error }

func (e takeError) Unwrap() error { return e.error }

// Run follows a feed until ctx ends (nil) or take fails (its error), or with
// [ErrStopped] or a *[RefusedError].
func Run(ctx context.Context, o Options, take func(Event) error) error {
	if o.Idle <= 0 {
		o.Idle = 90 * time.Second
	}
	if o.Client == nil {
		o.Client = defaultClient()
		defer o.Client.CloseIdleConnections()
	}
	if o.Connected == nil {
		o.Connected = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if !sendable(o.LastID) {
		o.LastID = ""
	}
	f := &follower{opts: o, log: o.Logger, take: take, last: o.LastID, retry: leastWait, wait: leastWait}
	lost := false
	for {
		began := time.Now()
		heard, err := f.connect(ctx, &lost)
		if ctx.Err() != nil {
			return nil
		}
		if t, ok := errors.AsType[takeError](err); ok {
			return t.error
		}
		if _, refused := errors.AsType[*RefusedError](err); refused || errors.Is(err, ErrStopped) {
			return err
		}
		if heard {
			f.wait = f.retry
		}
		f.wait = max(f.wait, f.retry)
		pause := max(f.wait+rand.N(f.wait/4), time.Until(began.Add(leastWait)))
		f.wait = min(2*f.wait, mostWait)
		level := slog.LevelInfo
		if !lost && !(heard && ended(err)) { // a feed may end its streams now and then
			lost, level = true, slog.LevelWarn
		}
		f.log.Log(ctx, level, "feed lost", "err", err, "next", min(pause, mostWait).Round(time.Millisecond))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(pause, mostWait)):
		}
	}
}

func defaultClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 15 * time.Second,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// connect reads one connection to its end. heard tells whether an event came.
func (f *follower) connect(ctx context.Context, lost *bool) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, f.opts.URL, nil)
	if err != nil {
		return false, &RefusedError{Status: http.StatusBadRequest}
	}
	maps.Copy(q.Header, f.opts.Header)
	q.Header.Set("Accept", "text/event-stream")
	q.Header.Set("Cache-Control", "no-store")
	if f.last != "" {
		q.Header.Set("Last-Event-ID", f.last)
	}
	res, err := f.opts.Client.Do(q)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, whose query may be secret
		}
		return false, err
	}
	defer func() { _ = res.Body.Close() }()
	if err := f.judge(res); err != nil {
		return false, err
	}
	if *lost {
		*lost = false
		f.log.Warn("feed connected again")
	}
	f.opts.Connected()
	silence := fmt.Errorf("it said nothing for %v", f.opts.Idle)
	watch := time.AfterFunc(f.opts.Idle, func() { cancel(silence) })
	defer watch.Stop()
	p := newParser(&watched{res.Body, watch, f.opts.Idle}, f.last)
	for {
		e, err := p.next()
		if p.retry > 0 {
			f.retry = min(max(p.retry, leastWait), mostWait)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return heard, fmt.Errorf("read the feed: %w", err)
		}
		watch.Stop() // the taker's time is not the feed's
		if err := f.take(e); err != nil {
			return true, takeError{err}
		}
		watch.Reset(f.opts.Idle)
		heard, f.last = true, e.ID
	}
}

// judge decides what the beginning of an answer means.
func (f *follower) judge(res *http.Response) error {
	switch {
	case res.StatusCode == http.StatusOK:
		if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
			return &RefusedError{Status: http.StatusUnsupportedMediaType}
		}
		return nil
	case res.StatusCode == http.StatusNoContent:
		return ErrStopped
	case res.StatusCode >= 500, res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooManyRequests:
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
			f.wait = max(f.wait, min(time.Duration(min(s, 60))*time.Second, mostWait))
		}
		return fmt.Errorf("the feed answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	}
	return &RefusedError{Status: res.StatusCode}
}

// watched puts off the end for silence with every byte.
type watched struct {
	io.Reader
	watch *time.Timer
	idle  time.Duration
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if n > 0 {
		w.watch.Reset(w.idle)
	}
	return n, err
}
