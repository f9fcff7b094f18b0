package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// guard stands between the transport and the network. It adds the credentials
// and sees to it that they reach the configured origin only, bounds what comes
// back, and tells the session what the transport keeps to itself.
type guard struct {
	base    http.RoundTripper
	origin  *url.URL
	headers http.Header
	maxBody int64
	maxLine int
	redact  redactor

	// onGET is told the outcome of each request for the notification stream: a
	// status, or an error; onGETEnd how such a stream ended. onLost is told that
	// the server does not know the session any more. All must be quick.
	onGET    func(status int, err error)
	onGETEnd func(err error)
	onLost   func(err error)
	// onEvent sees each event of a stream before the transport does; an error ends
	// the stream. nil: not called.
	onEvent func(name, data string) error

	silent atomic.Bool // the session is being closed: tell nothing
	dead   atomic.Bool // the server is gone: no farewell

	// answers has room for maxAnswers: who posts an answer sends, and receives once
	// the server has taken it; never closed.
	answers chan struct{}

	mu      sync.Mutex
	notGet  time.Time     // the stream must not be asked for before
	retryIn time.Duration // the server's retry field
}

// peek is how much of an error answer is looked at.
const peek = 64 << 10

// maxAnswers is how many answers to requests of the server may be on their way. It
// may ask any number of times, and take the answers at leisure.
const maxAnswers = 16

var (
	errFarewell = errors.New("the server is gone")
	errAnswers  = errors.New("the server asks faster than it takes the answers")
)

func (g *guard) RoundTrip(q *http.Request) (*http.Response, error) {
	x := exchangeOf(q.Context())
	fail := func(err error) (*http.Response, error) {
		if q.Body != nil {
			_ = q.Body.Close()
		}
		x.fail(err)
		return nil, err
	}
	if q.URL.Scheme != g.origin.Scheme || q.URL.Host != g.origin.Host {
		return fail(fmt.Errorf("refused to send a request to another origin: %s", g.show(q.URL)))
	}
	taken := func() {}
	if q.Method == http.MethodPost && !x.claim() {
		x = new(exchange) // nobody looks at how an answer of ours fares
		select {
		case g.answers <- struct{}{}:
			taken = func() { <-g.answers }
		default:
			return fail(errAnswers)
		}
	}
	isGET := q.Method == http.MethodGet && q.Header.Get("Last-Event-ID") == ""
	ctx := q.Context()
	if q.Method == http.MethodDelete {
		if g.dead.Load() {
			return fail(errFarewell)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel() // the transport does not read the answer
	}
	if isGET {
		if err := g.waitGET(ctx); err != nil {
			return fail(err)
		}
	}
	q = q.Clone(ctx)
	maps.Copy(q.Header, g.headers)
	p, err := g.base.RoundTrip(q)
	if err != nil {
		taken()
		if isGET && ctx.Err() == nil {
			g.tellGET(0, err)
		}
		return nil, err
	}
	p.Body = &endBody{ReadCloser: p.Body, end: func(error) { taken() }}
	return g.inspect(q, p, x, isGET)
}

// inspect looks at an answer before the transport does.
func (g *guard) inspect(q *http.Request, p *http.Response, x *exchange, isGET bool) (*http.Response, error) {
	if p.StatusCode >= 300 && p.StatusCode < 400 {
		_ = p.Body.Close()
		err := fmt.Errorf("the server redirects to %s, which is not followed", g.target(p))
		x.fail(err)
		if isGET {
			g.tellGET(0, err)
		}
		return nil, err
	}
	media, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
	if p.StatusCode >= 400 {
		g.refused(q, p, x)
	} else {
		x.answered(p, nil)
	}
	stream := media == "text/event-stream" && p.StatusCode == http.StatusOK
	if stream {
		p.Body = &eventBody{ReadCloser: p.Body, limit: g.maxLine, tooLarge: x.fail, retry: g.setRetry, event: g.onEvent}
	} else {
		p.Body = &limitBody{ReadCloser: p.Body, left: g.maxBody, limit: g.maxBody, tooLarge: x.fail}
	}
	if isGET {
		if stream {
			p.Body = &endBody{ReadCloser: p.Body, end: g.endGET}
		}
		g.tellGET(p.StatusCode, x.error())
	}
	return p, nil
}

// refused reads the beginning of an error answer and leaves it in place.
func (g *guard) refused(q *http.Request, p *http.Response, x *exchange) {
	body, _ := io.ReadAll(io.LimitReader(p.Body, peek))
	p.Body = &joinedBody{io.MultiReader(bytes.NewReader(body), p.Body), p.Body}
	x.answered(p, body)
	// 2026-07-28 has no sessions: its 404 is an unknown method.
	if q.Method != http.MethodPost || q.Header.Get("Mcp-Session-Id") == "" || g.silent.Load() {
		return
	}
	if p.StatusCode == http.StatusNotFound ||
		p.StatusCode == http.StatusBadRequest && bytes.Contains(bytes.ToLower(body), []byte("session")) {
		g.onLost(&EndError{Reason: fmt.Sprintf("the server does not know the session any more (HTTP status %d)", p.StatusCode), ExitCode: -1})
	}
}

// show names a URL without anything that may be secret.
func (g *guard) show(u *url.URL) string {
	return g.redact.text((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

func (g *guard) target(p *http.Response) string {
	u, err := p.Location()
	if err != nil {
		return "nowhere"
	}
	return g.show(u)
}

func (g *guard) tellGET(status int, err error) {
	if g.onGET != nil && !g.silent.Load() {
		g.onGET(status, err)
	}
}

func (g *guard) endGET(err error) {
	g.mu.Lock()
	if g.retryIn > 0 {
		g.notGet = time.Now().Add(g.retryIn)
	}
	g.mu.Unlock()
	if g.onGETEnd != nil && !g.silent.Load() {
		g.onGETEnd(err)
	}
}

// setRetry remembers the retry field of a stream. The transport reopens after a
// second on its own; a longer wait is enforced here.
func (g *guard) setRetry(d time.Duration) {
	g.mu.Lock()
	g.retryIn = min(d, maxWait)
	g.mu.Unlock()
}

func (g *guard) waitGET(ctx context.Context) error {
	g.mu.Lock()
	wait := time.Until(g.notGet)
	g.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
