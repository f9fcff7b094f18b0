package feedclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxEvent is the size of the largest event that is accepted, in bytes.
const MaxEvent = 8 << 20

// Options configure Run. A zero field means its default.
type Options struct {
	URL    string
	Header http.Header // of every request: Authorization, above all
	// LastID is the id of the event after which to resume. If it is "" or cannot be sent in
	// a header, the feed decides where to begin.
	LastID string
	// Idle is how long a feed may take for its response to begin, and for each line after that,
	// a heartbeat or any other; 45 s, three of the heartbeats of serve-sse.
	Idle time.Duration
	// Client makes the requests; nil: one that follows no redirects and uses the proxy
	// of the environment.
	Client *http.Client
	// Connected is called after each successful connection.
	Connected func()
	// MustConnect makes Run return the error of the first attempt to connect if that fails,
	// rather than try again.
	MustConnect bool
	// Logger gets connections at info and outages at warn; nil discards.
	Logger *slog.Logger
}

// RefusedError is a response of the feed that a retry would not change.
type RefusedError struct{ Status int }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the feed refused the request: %d %s", e.Status, http.StatusText(e.Status))
}

// ErrStopped is the error of a feed that asks its clients not to reconnect: status 204.
var ErrStopped = errors.New("the feed has ended permanently")

// Times between attempts.
const (
	leastWait = time.Second
	mostWait  = 30 * time.Second
)

// follower is the state of one call of Run.
type follower struct {
	opts    Options
	log     *slog.Logger
	deliver func(eventstream.Event) error
	last    string        // the id after which to resume; "": the feed decides where to begin
	asked   time.Duration // the wait that the feed asked for with retry:; 0: none
	after   time.Duration // the wait that the last answer asked for with Retry-After; 0: none
	retry   *backoff.Backoff

	connected bool // at least one connection was made
}

// deliverError marks an error that the function deliver returned.
type deliverError struct{ error }

func (e deliverError) Unwrap() error { return e.error }

// Run follows a feed until ctx ends (it returns nil), deliver fails (its error), the feed
// ends ([ErrStopped] or a *[RefusedError]), or, with Options.MustConnect, the first attempt
// to connect fails.
func Run(ctx context.Context, o Options, deliver func(eventstream.Event) error) error {
	if o.Idle <= 0 {
		o.Idle = 45 * time.Second
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
	if !eventstream.ValidID(o.LastID) {
		o.LastID = ""
	}
	f := &follower{opts: o, log: o.Logger, deliver: deliver, last: o.LastID, retry: backoff.New(leastWait, mostWait)}
	lost := false
	for {
		began := time.Now()
		received, err := f.connect(ctx, &lost)
		if ctx.Err() != nil {
			return nil
		}
		if t, ok := errors.AsType[deliverError](err); ok {
			return t.error
		}
		if _, refused := errors.AsType[*RefusedError](err); refused || errors.Is(err, ErrStopped) {
			return err
		}
		if o.MustConnect && !f.connected {
			return err
		}
		if received {
			f.retry.Reset()
		}
		pause := max(f.retry.NextAfter(max(f.asked, f.after)), time.Until(began.Add(leastWait)))
		f.after = 0
		level := slog.LevelInfo
		if !lost && !(received && ended(err)) { // feeds may end their streams routinely
			lost, level = true, slog.LevelWarn
		}
		f.log.Log(ctx, level, "feed lost", "err", err, "next", pause.Round(time.Millisecond))
		if !backoff.Sleep(ctx, pause) {
			return nil
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

// connect makes a connection and delivers its events until it ends. It reports whether an
// event was received. *lost says that an outage was logged, and is reset when that is over.
func (f *follower) connect(ctx context.Context, lost *bool) (received bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(f.opts.Idle, func() { cancel(fmt.Errorf("it sent no line for %v", f.opts.Idle)) })
	defer watch.Stop()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, f.opts.URL, nil)
	if err != nil {
		return false, &RefusedError{Status: http.StatusBadRequest}
	}
	maps.Copy(q.Header, f.opts.Header)
	q.Header.Set("Accept", eventstream.ContentType)
	q.Header.Set("Cache-Control", "no-store")
	if f.last != "" {
		q.Header.Set("Last-Event-ID", f.last)
	}
	res, err := f.opts.Client.Do(q)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("no response within %v", f.opts.Idle)
		}
		return false, printable.Unnamed(err) // without the URL, whose query may be secret
	}
	defer func() { _ = res.Body.Close() }()
	if err := f.check(res); err != nil {
		return false, err
	}
	if *lost {
		*lost = false
		f.log.Warn("feed connected again")
	}
	f.connected = true
	f.opts.Connected()
	watch.Reset(f.opts.Idle)
	r := eventstream.NewReader(lineWatch{res.Body, func() { watch.Reset(f.opts.Idle) }}, f.last, MaxEvent, nil)
	for {
		e, err := r.Read()
		if r.Retry() > 0 {
			f.asked = r.Retry()
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return received, fmt.Errorf("read the feed: %w", err)
		}
		watch.Stop() // the time of the consumer does not count
		if err := f.deliver(e); err != nil {
			return true, deliverError{err}
		}
		watch.Reset(f.opts.Idle)
		received, f.last = true, e.ID
	}
}

// lineWatch calls ended when what was read has the end of a line. Other bytes are no sign of
// life: a feed could send one now and then for ever, and no event.
type lineWatch struct {
	io.Reader
	ended func()
}

func (l lineWatch) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if bytes.ContainsAny(p[:n], "\r\n") {
		l.ended()
	}
	return n, err
}

// check returns nil for a response that is an event stream, ErrStopped or a *RefusedError for
// one that a retry would not change, and another error for one that may pass.
func (f *follower) check(res *http.Response) error {
	switch {
	case res.StatusCode == http.StatusOK:
		if !eventstream.IsStream(res.Header.Get("Content-Type")) {
			return &RefusedError{Status: http.StatusUnsupportedMediaType}
		}
		return nil
	case res.StatusCode == http.StatusNoContent:
		return ErrStopped
	case res.StatusCode >= 500, res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooManyRequests:
		f.after = backoff.RetryAfter(res.Header)
		return fmt.Errorf("the feed responded with HTTP status %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	}
	return &RefusedError{Status: res.StatusCode}
}

// ended reports whether a read error is the end of the stream.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
