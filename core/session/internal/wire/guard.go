package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// guard stands between the library and the network. It adds the credentials and
// sends them to the configured origin only, bounds what comes back, and records what
// the library does not report.
type guard struct {
	conn    *Conn
	base    http.RoundTripper
	origin  *url.URL
	headers http.Header
	// credentials supply the header Authorization; nil: headers has it, or none is sent.
	credentials *Credentials
	// onEvent is called for each event of a stream before the library gets it: an
	// error ends the stream. nil: not called.
	onEvent func(eventstream.Event) error

	closing atomic.Bool // the connection is being closed: failures are our own doing
	gone    atomic.Bool // the server is gone: the session is not deleted
}

// maxPeek is how many bytes of an error answer are looked at.
const maxPeek = 64 << 10

var errServerGone = errors.New("the server is gone")

// close announces that the connection is about to be closed. gone says that the server is
// gone.
func (g *guard) close(gone bool) {
	g.closing.Store(true)
	g.gone.Store(gone)
}

// RoundTrip implements [http.RoundTripper] for the library: notifications and
// requests of the server are handled here and left out of event streams.
func (g *guard) RoundTrip(q *http.Request) (*http.Response, error) {
	x := exchangeOf(q.Context())
	p, err := g.send(q, x)
	if err == nil && p.StatusCode == http.StatusOK && eventstream.IsStream(p.Header.Get("Content-Type")) {
		p.Body = newEventFilter(g, p.Body, x)
	}
	return p, err
}

// send makes a request. The body of an answer is bounded unless it is an event
// stream.
func (g *guard) send(q *http.Request, x *exchange) (*http.Response, error) {
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
	ctx := q.Context()
	if q.Method == http.MethodDelete {
		if g.gone.Load() {
			return fail(errServerGone)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel() // the library does not read the answer
	}
	q = q.Clone(x.trace(ctx))
	maps.Copy(q.Header, g.headers)
	x.sentCredentials(q.Header.Get("Authorization") != "")
	p, err := g.authorized(q, x)
	if err != nil {
		return nil, err
	}
	if p.StatusCode >= 300 && p.StatusCode < 400 {
		_ = p.Body.Close()
		err := fmt.Errorf("the server redirects to %s; mcptrack does not follow the redirect", g.target(p))
		x.fail(err)
		return nil, err
	}
	if p.StatusCode >= 400 {
		g.refused(q, p, x)
	} else {
		x.answered(p, nil)
	}
	if p.StatusCode != http.StatusOK || !eventstream.IsStream(p.Header.Get("Content-Type")) {
		limit := g.conn.cfg.MaxBody
		p.Body = &limitBody{ReadCloser: p.Body, left: limit, limit: limit, tooLarge: x.fail}
	}
	return p, nil
}

// refused records the beginning of an error answer in x; the library can still read it.
// An answer that says that the server does not know the session ends the connection.
func (g *guard) refused(q *http.Request, p *http.Response, x *exchange) {
	body, _ := io.ReadAll(io.LimitReader(p.Body, maxPeek))
	p.Body = &joinedBody{io.MultiReader(bytes.NewReader(body), p.Body), p.Body}
	x.answered(p, body)
	// 2026-07-28 has no sessions: its 404 is an unknown method.
	if q.Method != http.MethodPost || q.Header.Get(mcp.HeaderSession) == "" || g.closing.Load() {
		return
	}
	if p.StatusCode == http.StatusNotFound ||
		p.StatusCode == http.StatusBadRequest && bytes.Contains(bytes.ToLower(body), []byte("session")) {
		x.unknownSession()
		g.conn.expire(&EndError{Reason: fmt.Sprintf("the server does not know the session any more (HTTP status %d)", p.StatusCode), ExitCode: -1})
	}
}

// show returns a URL without anything that may be secret: query, user info, and segments
// of the path that look like tokens.
func (g *guard) show(u *url.URL) string {
	path := strings.Split(u.Path, "/")
	for i, segment := range path {
		if len(segment) >= minToken && strings.ContainsAny(segment, "0123456789") {
			path[i] = "[redacted]"
		}
	}
	return g.conn.cfg.Redact(u.Scheme + "://" + u.Host + strings.Join(path, "/"))
}

// minToken is the length from which a segment with digits is taken for a token.
const minToken = 12

func (g *guard) target(p *http.Response) string {
	u, err := p.Location()
	if err != nil {
		return "nowhere"
	}
	return g.show(u)
}
