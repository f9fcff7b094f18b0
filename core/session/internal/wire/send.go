package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/uri"
)

// maxPeek limits how many bytes are read from a body whose messages are not handled.
const maxPeek = 64 << 10

// send makes a request. It sends credentials only to the configured origin. A status other than 2xx is an
// error.
func (h *httpConn) send(ctx context.Context, method string, to *url.URL, header http.Header, body []byte, x *exchange) (*http.Response, error) {
	if !sameOrigin(to, h.dialer.url) {
		return nil, x.fail(fmt.Errorf("refused to send a request to another origin: %s", h.show(to)))
	}
	q, err := http.NewRequestWithContext(ctx, method, "", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.URL = to
	h.identify(q.Header)
	maps.Copy(q.Header, header)
	maps.Copy(q.Header, h.dialer.headers)
	x.credentials = q.Header.Get("Authorization") != ""
	p, err := h.authorized(q, x)
	for range maxRedirects {
		if err != nil || !h.follows(q, p) {
			break
		}
		p, err = h.authorized(q, x)
	}
	if err != nil {
		return nil, err
	}
	x.status, x.retry = p.StatusCode, min(backoff.RetryAfter(p.Header), maxWait)
	switch {
	case p.StatusCode >= 400:
		return nil, x.fail(h.refused(q, p, x))
	case p.StatusCode >= 300:
		_ = p.Body.Close()
		return nil, x.fail(h.redirected(q.URL, p))
	}
	return p, nil
}

// identify adds the headers that identify the session.
func (h *httpConn) identify(header http.Header) {
	if id, _ := h.session.Load().(string); id != "" {
		header.Set(mcp.HeaderSession, id)
	}
	if v, _ := h.version.Load().(string); v != "" {
		header.Set(mcp.HeaderProtocolVersion, v)
	}
}

// discard closes a response whose content does not matter. It reads a short body that ends soon, so that the
// connection can be reused.
func discard(p *http.Response) {
	if eventstream.IsStream(p.Header.Get("Content-Type")) {
		_ = p.Body.Close()
		return
	}
	readStart(p, restPatience)
}

// readStart returns what arrives of a body within patience, at most maxPeek bytes, and closes the response.
func readStart(p *http.Response, patience time.Duration) []byte {
	defer time.AfterFunc(patience, func() { _ = p.Body.Close() }).Stop()
	body, _ := io.ReadAll(io.LimitReader(p.Body, maxPeek))
	_ = p.Body.Close()
	return body
}

// refused returns the error in a response, and closes it. If the server does not know the session, the
// connection ends. A JSON-RPC error with the id of the request is an answer: the server knows the
// session, whatever the HTTP status is.
func (h *httpConn) refused(q *http.Request, p *http.Response, x *exchange) error {
	body := readStart(p, replyTimeout)
	var r struct {
		ID          ID              `json:"id"`
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	_ = json.Unmarshal(bytes.TrimPrefix(body, []byte(byteOrderMark)), &r) // stays empty if it is something else
	var err error = &HTTPError{p.StatusCode}
	answered := false
	if len(r.Error) > 0 && string(r.Error) != "null" {
		e, proper := h.conn.rpcError(r.Error)
		ours := r.ID != 0 && r.ID == x.id
		switch {
		case unauthorized(p) && r.Error[0] == '"': // of OAuth: RFC 6749, section 5.2
			x.advice.Reason = cmp.Or(x.advice.Reason, h.conn.cfg.Redact(r.Description), e.Message)
		case proper || ours:
			err, answered = e, ours && e.Code != mcp.CodeSessionUnknown
		}
	}
	// 2026-07-28 has no sessions: a 404 response means that the method is unknown.
	if q.Method == http.MethodPost && q.Header.Get(mcp.HeaderSession) != "" && !answered &&
		(p.StatusCode == http.StatusNotFound || p.StatusCode == http.StatusBadRequest && bytes.Contains(bytes.ToLower(body), []byte("session"))) {
		x.unknown = true
		h.conn.expire(&EndError{Reason: fmt.Sprintf("the server no longer knows the session (HTTP status %d)", p.StatusCode)})
	}
	if unauthorized(p) {
		err = &AuthError{Status: p.StatusCode, Sent: x.credentials, Err: err, Reason: x.advice.Reason, Remedy: x.advice.Remedy, Challenge: p.Header.Values("WWW-Authenticate")}
	}
	if x.retry > 0 && (p.StatusCode == http.StatusTooManyRequests || p.StatusCode == http.StatusServiceUnavailable) {
		err = &RetryAfter{Wait: x.retry, Err: err}
	}
	return err
}

// show returns a URL without the parts that may be secret: the query, user info, and path segments
// that look like tokens.
func (h *httpConn) show(u *url.URL) string { return ShowURL(u, h.conn.cfg.Redact) }

// ShowURL returns a URL as it may be displayed: without its user, its query and path segments that
// may be tokens.
func ShowURL(u *url.URL, redact func(string) string) string {
	path := strings.Split(u.Path, "/")
	for i, segment := range path {
		if len(segment) >= minToken && strings.ContainsAny(segment, "0123456789") {
			path[i] = "[redacted]"
		}
	}
	return redact(u.Scheme + "://" + u.Host + strings.Join(path, "/"))
}

// minToken is the minimum length at which a path segment that contains digits is treated as a
// token.
const minToken = 12

// maxRedirects limits the redirects of one request.
const maxRedirects = 3

// follows reports whether a response redirects to another path of the same origin, as frameworks do
// that add a slash to a path. It then changes the request to that path, and closes the response.
func (h *httpConn) follows(q *http.Request, p *http.Response) bool {
	if p.StatusCode != http.StatusTemporaryRedirect && p.StatusCode != http.StatusPermanentRedirect {
		return false
	}
	to, err := p.Location()
	if err != nil || !sameOrigin(to, h.dialer.url) || to.String() == q.URL.String() {
		return false
	}
	if q.Body, err = q.GetBody(); err != nil {
		return false
	}
	discard(p)
	q.URL = to
	return true
}

// sameOrigin reports whether two URLs have the same scheme, host and port, however they are spelled.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Host == b.Host || uri.Normal(a.Scheme+"://"+a.Host) == uri.Normal(b.Scheme+"://"+b.Host)
}

// redirected returns the error for a redirect that is not followed, because it could send messages and
// credentials to any server.
func (h *httpConn) redirected(from *url.URL, p *http.Response) error {
	to, err := p.Location()
	switch {
	case err != nil:
		return fmt.Errorf("%s redirects without saying where (HTTP %d)", h.show(from), p.StatusCode)
	case to.String() == from.String():
		return fmt.Errorf("%s redirects to itself (HTTP %d); check the server and the proxies in front of it", h.show(from), p.StatusCode)
	}
	return fmt.Errorf("the server redirects to %s; if you trust that address, use it as the URL in the config", h.show(to))
}

// Credentials supplies an Authorization header that may change while a connection is open. It is
// sent only to the server's origin.
type Credentials struct {
	// Header returns the value of the Authorization header, or an empty string if there is none. If
	// it returns an error, the request is not sent.
	Header func(ctx context.Context) (string, error)
	// Refused is called after the server has rejected a request with status 401 or 403. If it
	// returns an error, the request fails with that error.
	Refused func(ctx context.Context, r Refusal) (Advice, error)
}

// Refusal is a response that rejected the credentials or required some.
type Refusal struct {
	Header    string   // the Authorization header that was sent; empty if none was sent
	Status    int      // 401 or 403
	Challenge []string // values of the WWW-Authenticate headers
}

// Advice specifies how to react to a refusal.
type Advice struct {
	Again  bool   // whether to retry with a new header
	Reason string // why the server refused; printable
	Remedy string // what the user can do; printable
}

// authorized sends a request with the credentials. If the server rejects them and they can be
// renewed, it retries once.
func (h *httpConn) authorized(q *http.Request, x *exchange) (*http.Response, error) {
	login := h.dialer.login
	if login == nil {
		return h.base.RoundTrip(q)
	}
	for again := false; ; again = true {
		header, err := login.Header(q.Context())
		if err != nil {
			return nil, x.fail(err)
		}
		q.Header.Del("Authorization")
		if header != "" {
			q.Header.Set("Authorization", header)
		}
		x.credentials = header != ""
		p, err := h.base.RoundTrip(q)
		if err != nil || !unauthorized(p) {
			return p, err
		}
		x.advice, err = login.Refused(q.Context(), Refusal{header, p.StatusCode, p.Header.Values("WWW-Authenticate")})
		if err != nil {
			_ = p.Body.Close()
			return nil, x.fail(err)
		}
		if !x.advice.Again || again {
			return p, nil
		}
		discard(p)
		if q.Body, err = q.GetBody(); err != nil {
			return nil, err
		}
	}
}

func unauthorized(p *http.Response) bool {
	return p.StatusCode == http.StatusUnauthorized || p.StatusCode == http.StatusForbidden
}

// maxWait is the longest delay that a server can request.
const maxWait = 30 * time.Second

// exchange records what happened on the network during one request.
type exchange struct {
	alive func() // called when bytes arrive on an event stream; may be nil
	id    ID     // of the request; 0 for other messages

	status int           // last HTTP status; 0 if there was no response
	retry  time.Duration // delay from Retry-After, at most maxWait; 0 if none
	// err is why the request failed, if neither the network nor a malformed response is to blame.
	err         error
	credentials bool   // an Authorization header was sent
	advice      Advice // how to react to the last refusal
	// unknown reports that the server does not know the session and therefore did not process the
	// request.
	unknown bool
	sent    atomic.Bool // the whole request was written
}

func (x *exchange) fail(err error) error {
	x.err = err
	return err
}

// trace returns a context that records when the request was sent.
func (x *exchange) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			x.sent.Store(true)
		}
	}})
}

// interrupted wraps err in an [*InterruptedError] if the connection failed or the server did not
// process the request.
func (x *exchange) interrupted(err error, stdio bool) error {
	if _, ok := errors.AsType[*InterruptedError](err); ok || IsAnswer(err) {
		return err
	}
	refused := x.unknown || x.status == http.StatusServiceUnavailable
	if !refused && x.err != nil {
		return err
	}
	return &InterruptedError{Sent: !refused && (x.sent.Load() || stdio), Err: err}
}
