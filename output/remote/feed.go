package remote

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
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxEvent is the maximum size of an accepted event in bytes.
const MaxEvent = 8 << 20

// FeedOptions configures Follow. Zero fields have their defaults.
type FeedOptions struct {
	URL    string
	Header http.Header // headers sent with every request, such as Authorization
	// LastID is the ID of the event after which to resume. If it is empty, or cannot be sent in a
	// header, the feed chooses the start position.
	LastID string
	// Client sends the requests. If nil, Follow uses a client that follows no redirects and uses
	// the proxy from the environment.
	Client *http.Client
	// Connected is called after each successful connection.
	Connected func()
	// MustConnect makes Follow return the error if its first attempt to connect fails.
	MustConnect bool
	// Logger receives connections at level info and outages at level warn; if nil, they are
	// discarded.
	Logger *slog.Logger
}

// ErrFeedEnded reports that the feed told its clients not to reconnect (status 204).
var ErrFeedEnded = errors.New("the feed has ended permanently")

// idle limits the wait for the response to start and then for each line, including heartbeats: three heartbeat
// intervals of serve-sse.
const idle = 45 * time.Second

// Delays between connection attempts.
const (
	leastWait = time.Second
	mostWait  = 30 * time.Second
)

// feedFollower is the state of one call to Follow.
type feedFollower struct {
	opts    FeedOptions
	log     *slog.Logger
	deliver func(eventstream.Event) error
	last    string        // the ID after which to resume; empty if the feed chooses the start position
	asked   time.Duration // the delay from the last "retry:" field; 0 if there was none
	after   time.Duration // the delay from the last response's Retry-After; 0 if there was none
	retry   *backoff.Backoff

	connected bool // whether a connection has ever succeeded
}

// deliverError marks an error that deliver returned.
type deliverError struct{ error }

func (e deliverError) Unwrap() error { return e.error }

// Follow passes the events of a feed to deliver, and reconnects when the connection is lost. It
// returns nil when ctx ends, deliver's error if deliver fails, and [ErrFeedEnded] or a
// *[RefusedError] if the feed will not resume. With FeedOptions.MustConnect, it also returns
// the error of a failed first attempt.
func Follow(ctx context.Context, o FeedOptions, deliver func(eventstream.Event) error) error {
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
	f := &feedFollower{opts: o, log: o.Logger, deliver: deliver, last: o.LastID, retry: backoff.New(leastWait, mostWait)}
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
		if _, refused := errors.AsType[*RefusedError](err); refused || errors.Is(err, ErrFeedEnded) {
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
		if !lost && !(received && ended(err)) { // a feed may end its streams regularly: not an outage
			lost, level = true, slog.LevelWarn
		}
		f.log.Log(ctx, level, "feed lost", "err", printable.Reason(err, 300), "next", pause.Round(time.Millisecond))
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

// connect opens a connection and delivers its events until the connection ends. It reports whether
// it received an event. *lost means that an outage was logged; connect resets it once the feed is
// connected again.
func (f *feedFollower) connect(ctx context.Context, lost *bool) (received bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(idle, func() { cancel(fmt.Errorf("it sent no line for %v", idle)) })
	defer watch.Stop()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, f.opts.URL, nil)
	if err != nil {
		return false, &RefusedError{Host: "the feed", Problem: "has no valid URL"}
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
			err = fmt.Errorf("no response within %v", idle)
		}
		return false, printable.Unnamed(err) // the error without the URL, whose query may be secret
	}
	defer func() { _ = res.Body.Close() }()
	if err := f.check(q.URL.Host, res); err != nil {
		return false, err
	}
	if *lost {
		*lost = false
		f.log.Warn("feed reconnected")
	}
	f.connected = true
	f.opts.Connected()
	watch.Reset(idle)
	r := eventstream.NewReader(lineWatch{res.Body, func() { watch.Reset(idle) }}, f.last, MaxEvent, nil)
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
		watch.Stop() // the time spent in deliver does not count as idle
		if err := f.deliver(e); err != nil {
			return true, deliverError{err}
		}
		watch.Reset(idle)
		received, f.last = true, e.ID
	}
}

// lineWatch calls ended for every read that contains a line ending. Other bytes do not reset the
// idle timer, because a feed could send single bytes forever without completing an event.
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

// check returns nil if the response is an event stream, ErrFeedEnded or a *RefusedError if a
// retry is pointless, and another error if the failure is temporary.
func (f *feedFollower) check(host string, res *http.Response) error {
	switch {
	case res.StatusCode == http.StatusOK:
		if !eventstream.IsStream(res.Header.Get("Content-Type")) {
			return &RefusedError{host, res.StatusCode, "responded with " + mediaType(res) + " and not with events"}
		}
		return nil
	case res.StatusCode == http.StatusNoContent:
		return ErrFeedEnded
	case res.StatusCode >= 500, res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooManyRequests:
		f.after = backoff.RetryAfter(res.Header)
		return fmt.Errorf("the feed responded with HTTP status %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	}
	return &RefusedError{Host: host, Status: res.StatusCode}
}

// mediaType returns the media type of a response, as a printable word.
func mediaType(res *http.Response) string {
	name, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if name = strings.TrimSpace(name); name == "" {
		return "data without a type"
	}
	return printable.Line(name, 60)
}

// ended reports whether a read failed because the stream ended.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
