package wire

import (
	"bufio"
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
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/uri"
)

// guard is the HTTP transport between the library and the network. It sends credentials only to the
// configured origin, limits the size of responses and records details that the library does not
// report.
type guard struct {
	conn    *Conn
	base    http.RoundTripper
	origin  *url.URL
	headers http.Header
	// credentials supplies the Authorization header. If nil, the header is in headers, or none is
	// sent.
	credentials *Credentials
	// onEvent is called for each event before it is passed to the library; an error ends the
	// stream. May be nil.
	onEvent func(eventstream.Event) error

	closing atomic.Bool // the connection is being closed: ignore failures
	gone    atomic.Bool // the server is gone: do not delete the session
}

// maxPeek limits how many bytes of an error response are examined.
const maxPeek = 64 << 10

var errServerGone = errors.New("the server is gone")

// close announces that the connection is about to be closed. gone reports that the server no longer
// exists.
func (g *guard) close(gone bool) {
	g.closing.Store(true)
	g.gone.Store(gone)
}

// RoundTrip implements [http.RoundTripper] for the library. It handles notifications and requests
// from the server and removes them from event streams and batches.
func (g *guard) RoundTrip(q *http.Request) (*http.Response, error) {
	x := exchangeOf(q.Context())
	p, err := g.send(q, x)
	switch {
	case err != nil:
		return nil, err
	case p.StatusCode == http.StatusOK && eventstream.IsStream(p.Header.Get("Content-Type")):
		p.Body = newEventFilter(g, p.Body, x)
	case p.StatusCode == http.StatusOK && g.conn.http.sse && q.Method == http.MethodGet:
		_ = p.Body.Close()
		err := fmt.Errorf("unexpected content type: %s", p.Header.Get("Content-Type")) // as the library says it for other requests
		x.fail(err)
		return nil, err
	case p.StatusCode == http.StatusOK:
		p.Body = &bodyFilter{conn: g.conn, x: x, body: p.Body}
	case g.conn.http.sse && q.Method == http.MethodPost && p.StatusCode < 300:
		p.StatusCode = http.StatusAccepted // the library accepts no other status
	}
	return p, nil
}

// send makes a request. It limits the size of the response body unless that is an event stream.
func (g *guard) send(q *http.Request, x *exchange) (*http.Response, error) {
	fail := func(err error) (*http.Response, error) {
		if q.Body != nil {
			_ = q.Body.Close()
		}
		x.fail(err)
		return nil, err
	}
	if !sameOrigin(q.URL, g.origin) {
		return fail(fmt.Errorf("refused to send a request to another origin: %s", g.show(q.URL)))
	}
	ctx := q.Context()
	if q.Method == http.MethodDelete {
		if g.gone.Load() {
			return fail(errServerGone)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel() // the library does not read the response
	}
	q = q.Clone(x.trace(ctx))
	q.URL.RawQuery = uri.Query(q.URL.RawQuery)
	maps.Copy(q.Header, g.headers)
	x.sentCredentials(q.Header.Get("Authorization") != "")
	p, err := g.authorized(q, x)
	for range maxRedirects {
		if err != nil || !g.follows(q, p) {
			break
		}
		p, err = g.authorized(q, x)
	}
	if err != nil {
		return nil, err
	}
	if p.StatusCode >= 300 && p.StatusCode < 400 {
		_ = p.Body.Close()
		err := g.redirected(q.URL, p)
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

// refused records the start of an error response in x; the library can still read the response. If
// the server does not know the session, the connection ends. A JSON-RPC error with the id of the
// request is an answer: the server knows the session, whatever the HTTP status is.
func (g *guard) refused(q *http.Request, p *http.Response, x *exchange) {
	body, _ := io.ReadAll(io.LimitReader(p.Body, maxPeek))
	p.Body = &joinedBody{io.MultiReader(bytes.NewReader(body), p.Body), p.Body}
	x.answered(p, body)
	// 2026-07-28 has no sessions: a 404 response means that the method is unknown.
	if q.Method != http.MethodPost || q.Header.Get(mcp.HeaderSession) == "" || g.closing.Load() {
		return
	}
	if x.isAnswered() {
		p.StatusCode = http.StatusBadRequest // after 404, the library would send nothing more
		return
	}
	if p.StatusCode == http.StatusNotFound ||
		p.StatusCode == http.StatusBadRequest && bytes.Contains(bytes.ToLower(body), []byte("session")) {
		x.unknownSession()
		g.conn.expire(&EndError{Reason: fmt.Sprintf("the server no longer knows the session (HTTP status %d)", p.StatusCode)})
	}
}

// show returns a URL without the parts that may be secret: the query, user info, and path segments
// that look like tokens.
func (g *guard) show(u *url.URL) string { return ShowURL(u, g.conn.cfg.Redact) }

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
func (g *guard) follows(q *http.Request, p *http.Response) bool {
	if p.StatusCode != http.StatusTemporaryRedirect && p.StatusCode != http.StatusPermanentRedirect || q.Body != nil && q.GetBody == nil {
		return false
	}
	to, err := p.Location()
	if err != nil || !sameOrigin(to, g.origin) || to.String() == q.URL.String() {
		return false
	}
	if q.Body != nil {
		if q.Body, err = q.GetBody(); err != nil {
			return false
		}
	}
	_, _ = io.CopyN(io.Discard, p.Body, maxPeek) // so that the connection can be reused
	_ = p.Body.Close()
	q.URL = to
	return true
}

// sameOrigin reports whether two URLs have the same scheme, host and port, however they are spelled.
func sameOrigin(a, b *url.URL) bool {
	return uri.Normal(a.Scheme+"://"+a.Host) == uri.Normal(b.Scheme+"://"+b.Host)
}

// redirected returns the error for a redirect that is not followed, because it could send messages and
// credentials to any server.
func (g *guard) redirected(from *url.URL, p *http.Response) error {
	to, err := p.Location()
	switch {
	case err != nil:
		return fmt.Errorf("%s redirects without saying where (HTTP %d)", g.show(from), p.StatusCode)
	case to.String() == from.String():
		return fmt.Errorf("%s redirects to itself (HTTP %d); check the server and the proxies in front of it", g.show(from), p.StatusCode)
	}
	return fmt.Errorf("the server redirects to %s; if you trust that address, use it as the URL in the config", g.show(to))
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
func (g *guard) authorized(q *http.Request, x *exchange) (*http.Response, error) {
	if g.credentials == nil {
		p, err := g.base.RoundTrip(q)
		if err == nil && unauthorized(p) {
			x.advise(Advice{}, p)
		}
		return p, err
	}
	for again := false; ; again = true {
		header, err := g.credentials.Header(q.Context())
		if err != nil {
			return nil, x.refuse(err, q)
		}
		q.Header.Del("Authorization")
		if header != "" {
			q.Header.Set("Authorization", header)
		}
		x.sentCredentials(header != "")
		p, err := g.base.RoundTrip(q)
		if err != nil || !unauthorized(p) {
			return p, err
		}
		advice, err := g.credentials.Refused(q.Context(), Refusal{header, p.StatusCode, p.Header.Values("WWW-Authenticate")})
		if err != nil {
			_ = p.Body.Close()
			return nil, x.refuse(err, nil)
		}
		x.advise(advice, p)
		if !advice.Again || again || q.Body != nil && q.GetBody == nil {
			return p, nil
		}
		_, _ = io.CopyN(io.Discard, p.Body, maxPeek) // so that the connection can be reused
		_ = p.Body.Close()
		if q.GetBody != nil {
			if q.Body, err = q.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

func unauthorized(p *http.Response) bool {
	return p.StatusCode == http.StatusUnauthorized || p.StatusCode == http.StatusForbidden
}

// refuse makes the exchange fail with err. q is the request if it will not be sent; its body is
// then closed. q is nil if the request was sent.
func (x *exchange) refuse(err error, q *http.Request) error {
	if q != nil && q.Body != nil {
		_ = q.Body.Close()
	}
	x.fail(err)
	return err
}

func (x *exchange) advise(a Advice, p *http.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reason, x.remedy, x.challenge = a.Reason, a.Remedy, p.Header.Values("WWW-Authenticate")
}

// limitBody is an HTTP body whose Read fails beyond a limit. It counts bytes after decompression,
// so that a small response cannot expand without limit.
type limitBody struct {
	io.ReadCloser
	left, limit int64       // bytes
	tooLarge    func(error) // called with the error that Read returns
}

func (b *limitBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		err = &TooLargeError{"body", "body", b.limit}
		b.tooLarge(err)
		n = int(b.left)
	}
	b.left -= int64(n)
	return n, err
}

// joinedBody reads from one reader and closes another.
type joinedBody struct {
	io.Reader
	io.Closer
}

// bodyFilter is the body of a response without a byte order mark and without the messages that this
// package handles itself. The library reads from it.
type bodyFilter struct {
	conn    *Conn
	x       *exchange
	body    io.ReadCloser
	content io.Reader // nil until the first Read
}

func (b *bodyFilter) Close() error { return b.body.Close() }

func (b *bodyFilter) Read(p []byte) (int, error) {
	if b.content == nil {
		data, err := io.ReadAll(b.body)
		if err != nil {
			return 0, err
		}
		data = bytes.TrimPrefix(data, []byte("\ufeff"))
		b.x.received(data)
		if !torn(data) { // the library reports what is torn
			data = bytes.Join(b.conn.unhandled(new(scratch), data), nil)
		}
		b.content = bytes.NewReader(data)
	}
	return b.content.Read(p)
}

// eventFilter is an event stream without the messages that this package handles itself. The library
// reads from it.
type eventFilter struct {
	guard  *guard
	body   io.Closer
	events *eventstream.Reader
	x      *exchange

	scratch scratch
	// answered is set once the library has received an event that may be the response.
	answered bool
	out      []byte        // filtered data for the next reads
	rest     []byte        // unread part of out
	id       string        // last event id that was passed to the library
	retry    time.Duration // last retry delay that was passed to the library; 0 if none
	err      error         // returned once rest has been read, and by every later Read
}

func newEventFilter(g *guard, body io.ReadCloser, x *exchange) *eventFilter {
	return &eventFilter{guard: g, body: body, x: x, events: eventstream.NewReader(&oneEvent{r: bufio.NewReader(body)}, "", g.conn.cfg.MaxLine, x.alive)}
}

// oneEvent is an event stream. A body that begins with a brace or a bracket, as no field of an event does, is JSON
// with the wrong media type: it becomes the data of one event.
type oneEvent struct {
	r     *bufio.Reader
	began bool
	json  bool
	tail  string // what follows the JSON
}

func (o *oneEvent) Read(p []byte) (int, error) {
	if !o.began {
		o.began = true
		if first, _ := o.r.Peek(1); len(first) > 0 && (first[0] == '{' || first[0] == '[') {
			o.json, o.tail = true, "\n\n"
			o.r = bufio.NewReader(io.MultiReader(strings.NewReader("data:"), o.r))
		}
	}
	n, err := o.r.Read(p)
	if o.json {
		for i, c := range p[:n] {
			if c == '\n' || c == '\r' { // white space of JSON
				p[i] = ' '
			}
		}
		if n == 0 && err == io.EOF && o.tail != "" {
			n = copy(p, o.tail)
			o.tail, err = o.tail[n:], nil
		}
	}
	return n, err
}

func (b *eventFilter) Close() error { return b.body.Close() }

func (b *eventFilter) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.err == nil {
		b.out = b.out[:0]
		b.next()
		b.rest = b.out
	}
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// brokenOff returns the error for a request whose event stream ended before the response.
func (c *Conn) brokenOff(err error) error {
	if err == io.EOF {
		return errors.New("the server closed the event stream before it sent the response")
	}
	return fmt.Errorf("the event stream was interrupted before the response: %w", c.cleanError(err))
}

// next reads one event and handles its message. It appends to out what the library needs: events
// that were not handled here, and the ids and retry fields with which the library resumes a stream.
func (b *eventFilter) next() {
	e, err := b.events.Read()
	if err != nil {
		if errors.Is(err, eventstream.ErrTooLarge) {
			err = &TooLargeError{"event", "line", int64(b.guard.conn.cfg.MaxLine)}
			b.x.fail(err)
		} else if !b.answered {
			b.x.fail(&InterruptedError{Sent: true, Err: b.guard.conn.brokenOff(err)})
		}
		b.err = err
	} else if b.guard.onEvent != nil {
		if b.err = b.guard.onEvent(e); b.err != nil {
			return
		}
	}
	if retry := b.events.Retry(); retry != b.retry {
		b.retry = retry
		b.out = eventstream.AppendRetry(b.out, retry)
	}
	id := b.events.LastID()
	var forLibrary [][]byte
	switch {
	case err != nil:
	case e.Type == endpointEvent:
		forLibrary = [][]byte{[]byte(e.Data)}
	default:
		forLibrary = b.guard.conn.unhandled(&b.scratch, []byte(e.Data))
	}
	for _, data := range forLibrary {
		b.answered = true
		b.out = eventstream.Append(b.out, id, e.Type, data)
	}
	if len(forLibrary) == 0 && id != b.id {
		b.out = eventstream.AppendID(b.out, id)
	}
	b.id = id
}

// maxWait is the longest delay that a server can request.
const maxWait = 30 * time.Second

// exchange records what happened on the network during one of the library's requests. The guard
// fills it in, and Conn uses it if the library's error is less specific. It is passed in the
// request's context.
type exchange struct {
	alive func() // called when bytes arrive on an event stream; may be nil
	id    ID     // of the request; 0 for other messages

	mu     sync.Mutex    // guards the fields below
	status int           // last HTTP status; 0 on other transports
	retry  time.Duration // delay from Retry-After, at most maxWait; 0 if none
	err    error         // error that is more specific than the library's; nil if none
	body   []byte        // start of an error response; nil if none
	// credentials reports whether an Authorization header was sent.
	credentials bool
	// reason, remedy and challenge describe why the server refused the credentials.
	reason, remedy string
	challenge      []string
	sent           bool // the whole request was written
	// unknown reports that the server does not know the session and therefore did not process the
	// request.
	unknown bool
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange in a request's context, or a new one that is discarded.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return new(exchange)
}

func (x *exchange) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
}

func (x *exchange) sentCredentials(sent bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.credentials = sent
}

func (x *exchange) answered(p *http.Response, body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.retry, x.body = p.StatusCode, min(backoff.RetryAfter(p.Header), maxWait), body
}

// trace returns a context that records when the request was sent.
func (x *exchange) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.sent = true
		}
	}})
}

// unknownSession records that the server does not know the session.
func (x *exchange) unknownSession() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unknown = true
}

// interrupted wraps err in an [*InterruptedError] if the connection failed or the server did not
// process the request.
func (x *exchange) interrupted(err error, stdio bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := errors.AsType[*InterruptedError](err); ok || IsAnswer(err) {
		return err
	}
	refused := x.unknown || x.status == http.StatusServiceUnavailable
	if !refused && (x.err != nil || x.status >= 300) {
		return err
	}
	return &InterruptedError{Sent: !refused && (x.sent || stdio), Err: err}
}

// received records the body of a response that has no id but an error. It can only be the answer to the
// request, which some servers could not read.
func (x *exchange) received(body []byte) {
	if len(body) > maxPeek || !bytes.Contains(body, []byte(`"error"`)) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.body = body
	if _, id := x.rpcErrorLocked(); id != 0 {
		x.body = nil // the library finds the request
	}
}

// rpcError returns the JSON-RPC error in the body of a response, or nil if there is none.
func (x *exchange) rpcError() *sdk.JSONRPCErrorDetails {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, _ := x.rpcErrorLocked()
	return e
}

func (x *exchange) rpcErrorLocked() (*sdk.JSONRPCErrorDetails, ID) {
	var r struct {
		ID    ID              `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	body := bytes.TrimPrefix(x.body, []byte("\ufeff"))
	if len(body) == 0 || x.oauthErrorLocked() != "" || json.Unmarshal(body, &r) != nil || len(r.Error) == 0 || string(r.Error) == "null" {
		return nil, 0
	}
	var e struct { // not the library's type, which invents a code for an error that is a string
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}
	switch err := json.Unmarshal(r.Error, &e); {
	case err == nil && e.Code != 0:
		return &sdk.JSONRPCErrorDetails{Code: e.Code, Message: e.Message, Data: e.Data}, r.ID
	case r.ID == 0 || r.ID != x.id:
		return nil, 0
	}
	return malformedError(r.Error), r.ID
}

// isAnswered reports whether the body of a rejected request is a JSON-RPC error with the id of the
// request, other than one that says that the session is unknown.
func (x *exchange) isAnswered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, id := x.rpcErrorLocked()
	return e != nil && id != 0 && id == x.id && e.Code != mcp.CodeSessionUnknown
}

// oauthErrorLocked returns the OAuth error in the body of a 401 or 403 response (RFC 6749, section
// 5.2: {"error": "invalid_token", "error_description": "…"}), or an empty string. The library
// mistakes such a body for a JSON-RPC error and invents a code for it.
func (x *exchange) oauthErrorLocked() string {
	var r struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if x.status != http.StatusUnauthorized && x.status != http.StatusForbidden || json.Unmarshal(x.body, &r) != nil {
		return ""
	}
	return cmp.Or(r.Description, r.Error)
}

// oauthRefused uses the OAuth error in the body as the reason for a refusal that has no other
// reason.
func (x *exchange) oauthRefused(redact func(string) string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if reason := x.oauthErrorLocked(); x.reason == "" && reason != "" {
		x.reason = redact(reason)
	}
}

// failed reports whether the HTTP status was an error.
func (x *exchange) failed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status >= 300
}

// error returns why a request failed, as recorded by the exchange, or nil if no reason was
// recorded.
func (x *exchange) error() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.err != nil:
		return x.err
	case x.status < 300:
		return nil
	}
	return x.wrapLocked(&HTTPError{x.status})
}

// wrap wraps err in an [*AuthError] or [*RetryAfter] if the HTTP status indicates one.
func (x *exchange) wrap(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.wrapLocked(err)
}

func (x *exchange) wrapLocked(err error) error {
	if x.status == http.StatusUnauthorized || x.status == http.StatusForbidden {
		err = &AuthError{Status: x.status, Sent: x.credentials, Err: err, Reason: x.reason, Remedy: x.remedy, Challenge: x.challenge}
	}
	if x.retry > 0 && (x.status == http.StatusTooManyRequests || x.status == http.StatusServiceUnavailable) {
		err = &RetryAfter{Wait: x.retry, Err: err}
	}
	return err
}
