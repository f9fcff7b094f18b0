package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/process"
	"github.com/mcptrack/mcptrack/core/uri"
)

// HTTPDialer connects to one server over HTTP. A session may make several connections to find the
// best transport and version.
type HTTPDialer struct {
	cfg     Config
	url     *url.URL // without user info
	headers http.Header
	login   *Credentials
	base    *http.Transport
}

// NewHTTPDialer returns a dialer for the server at an absolute http or https URL. headers are sent
// with every request. If they do not contain Authorization, user info in the URL supplies that
// header. If neither does, login supplies it; login may be nil.
func NewHTTPDialer(address string, headers http.Header, login *Credentials, cfg Config) (*HTTPDialer, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the URL is not an absolute http or https URL")
	}
	if u.User != nil && headers.Get("Authorization") == "" {
		password, _ := u.User.Password()
		q := &http.Request{Header: headers}
		q.SetBasicAuth(u.User.Username(), password)
	}
	u.User, u.RawQuery = nil, uri.Query(u.RawQuery)
	if headers.Get("Authorization") != "" {
		login = nil
	}
	return &HTTPDialer{cfg: cfg, url: u, headers: headers, login: login, base: newBase(cfg.DialContext)}, nil
}

// newBase returns the HTTP transport for a dialer. It has no response timeout because streams stay
// open. TCP keep-alive detects dead peers, and requests have deadlines.
func newBase(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{
			Timeout:         10 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		}).DialContext
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, process.Explain(err)
			}
			if err := process.RoomForFiles(); err != nil {
				_ = c.Close()
				return nil, err
			}
			return c, nil
		},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// Close closes idle connections. Each Conn of the dialer calls it when it is closed.
func (d *HTTPDialer) Close() { d.base.CloseIdleConnections() }

// httpConn is the state of a connection over HTTP.
type httpConn struct {
	conn    *Conn
	dialer  *HTTPDialer
	base    http.RoundTripper // of the dialer
	sse     bool
	session atomic.Value // the server's session id (string); empty or nil if there is none
	version atomic.Value // protocol version (string), once it is known
	mirrors mirrors
	stream  *notificationStream // nil until Listen

	replies chan struct{} // semaphore for replies in flight: capacity maxReplies, never closed
	// endpoint is where messages are posted; nil on SSE until the server sends it.
	endpoint atomic.Pointer[url.URL]
}

// Streamable returns a connection over Streamable HTTP. It sends nothing yet.
func (d *HTTPDialer) Streamable() *Conn {
	c := newConn(d.cfg)
	c.http = &httpConn{conn: c, dialer: d, base: d.base, replies: make(chan struct{}, maxReplies)}
	c.http.endpoint.Store(d.url)
	return c
}

// close deletes the session, unless the server is gone.
func (h *httpConn) close(gone bool) {
	if id, _ := h.session.Load().(string); id != "" && !gone {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if p, err := h.send(ctx, http.MethodDelete, h.dialer.url, nil, nil, new(exchange)); err == nil {
			discard(p)
		}
	}
	h.dialer.Close()
}

// post sends a message.
func (h *httpConn) post(ctx context.Context, message []byte, header http.Header, x *exchange) (*http.Response, error) {
	to := h.endpoint.Load()
	if to == nil {
		return nil, x.fail(errConnectionLost)
	}
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", jsonType)
	header.Set("Accept", jsonType+", "+eventstream.ContentType)
	return h.send(ctx, http.MethodPost, to, header, message, x)
}

// deliver posts a message that has no response.
func (h *httpConn) deliver(ctx context.Context, message []byte, x *exchange) error {
	p, err := h.post(ctx, message, nil, x)
	if err == nil {
		discard(p)
	}
	return err
}

// jsonType is the media type of JSON.
const jsonType = "application/json"

// request posts a request and handles the messages in the response. It returns nil once the request is
// answered or, over SSE, accepted. f.cancel ends ctx.
func (h *httpConn) request(ctx context.Context, q Request, message []byte, f flight, x *exchange) error {
	header, err := h.headersFor(q)
	if err != nil {
		return x.fail(err)
	}
	p, err := h.post(x.trace(ctx), message, header, x)
	if err != nil {
		return err
	}
	if h.sse {
		discard(p)
		return nil
	}
	if id := p.Header.Get(mcp.HeaderSession); id != "" && q.Method == mcp.MethodInitialize {
		h.session.Store(id)
	}
	kind := p.Header.Get("Content-Type")
	switch media, _, _ := mime.ParseMediaType(kind); media {
	case jsonType:
		return h.read(p.Body, p, f, x)
	case eventstream.ContentType:
		body := bufio.NewReaderSize(p.Body, 16) // an eventstream.Reader has its own buffer
		// No field of an event begins like this: it is JSON with the wrong media type.
		if first, _ := body.Peek(1); len(first) > 0 && (first[0] == '{' || first[0] == '[') {
			return h.read(body, p, f, x)
		}
		return h.follow(ctx, q, body, p, f, x)
	}
	_ = p.Body.Close()
	return fmt.Errorf("unexpected content type: %s", kind)
}

// byteOrderMark may precede JSON.
const byteOrderMark = "\ufeff"

// read handles the messages in the body of p. It returns an error if they do not answer the request.
func (h *httpConn) read(body io.Reader, p *http.Response, f flight, x *exchange) error {
	defer p.Body.Close()
	limit := h.conn.cfg.MaxBody // after decompression, so that a small response cannot expand without limit
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return err
	}
	if int64(len(data)) > limit {
		return x.fail(&TooLargeError{"body", "body", limit})
	}
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	m := scratch{request: x.id}
	switch decoded := h.conn.receive(&m, data); {
	case len(f.answer) > 0:
		return nil
	case len(data) == 0 || m.Method != "":
		return io.EOF
	case !decoded:
		return errors.New("the response is not JSON")
	case parseID(m.ID) == 0:
		return errors.New("the response has no id")
	}
	return errors.New("the response belongs to another request")
}

// follow handles the messages in the body of p, an event stream, until the request is answered. In the
// legacy era, it resumes a stream that ends before.
func (h *httpConn) follow(ctx context.Context, q Request, body io.Reader, p *http.Response, f flight, x *exchange) error {
	m, lastID := scratch{request: x.id}, ""
	for {
		events := eventstream.NewReader(body, lastID, h.conn.cfg.MaxLine, func() {
			if x.alive != nil {
				x.alive()
			}
		})
		var err error
		for err == nil && len(f.answer) == 0 {
			err = h.handleNext(events, &m)
		}
		if err == nil {
			x.alive = nil
			if !h.conn.group.Go(func() { h.finish(events, &m, p, f) }) {
				_ = p.Body.Close()
			}
			return nil
		}
		_ = p.Body.Close()
		if _, tooLarge := errors.AsType[*TooLargeError](err); tooLarge {
			return x.fail(err)
		}
		if err == io.EOF {
			err = errors.New("the server closed the event stream before it sent the response")
		} else {
			err = fmt.Errorf("the event stream was interrupted before the response: %w", h.conn.cleanError(err))
		}
		wait := max(min(cmp.Or(events.Retry(), reopenDelay), maxWait), minResumeDelay)
		if lastID = events.LastID(); lastID == "" || q.Version == mcp.ModernVersion || !backoff.Sleep(ctx, wait) {
			return x.fail(&InterruptedError{Sent: true, Err: err})
		}
		var failed error
		if p, failed = h.open(ctx, lastID, new(exchange)); failed != nil {
			return x.fail(&InterruptedError{Sent: true, Err: err})
		}
		body = p.Body
	}
}

// minResumeDelay is the shortest delay after which the event stream of a response is resumed, whatever the server
// requests.
const minResumeDelay = 10 * time.Millisecond

// restPatience limits the wait for the end of an event stream after the response. Most servers send both
// together.
const restPatience = 250 * time.Millisecond

// finish reads the rest of an event stream after the response, so that the connection can be reused.
func (h *httpConn) finish(events *eventstream.Reader, m *scratch, p *http.Response, f flight) {
	ctx, cancel := context.WithTimeout(h.conn.ctx, restPatience)
	defer cancel()
	defer context.AfterFunc(ctx, f.cancel)()
	for h.handleNext(events, m) == nil {
	}
	_ = p.Body.Close()
}

// handleNext handles the messages in the next event of a stream. The error ends the stream.
func (h *httpConn) handleNext(events *eventstream.Reader, m *scratch) error {
	e, err := h.next(events)
	if err == nil {
		h.conn.handle(m, []byte(e.Data))
	}
	return err
}

func (h *httpConn) next(events *eventstream.Reader) (eventstream.Event, error) {
	e, err := events.Read()
	if errors.Is(err, eventstream.ErrTooLarge) {
		err = &TooLargeError{"event", "line", int64(h.conn.cfg.MaxLine)}
	}
	return e, err
}

// open requests an event stream, to be resumed after the event lastID.
func (h *httpConn) open(ctx context.Context, lastID string, x *exchange) (*http.Response, error) {
	header := http.Header{"Accept": {eventstream.ContentType}}
	if lastID != "" {
		header.Set(mcp.HeaderLastEventID, lastID)
	}
	p, err := h.send(ctx, http.MethodGet, h.dialer.url, header, nil, x)
	if err != nil {
		return nil, err
	}
	if kind := p.Header.Get("Content-Type"); !eventstream.IsStream(kind) {
		_ = p.Body.Close()
		if x.status == http.StatusOK {
			x.status = http.StatusNotAcceptable
		}
		return nil, x.fail(fmt.Errorf("unexpected content type: %s", kind))
	}
	return p, nil
}

const (
	// maxReplies limits the replies in flight, because a server may send any number of requests but
	// read the replies slowly.
	maxReplies = 16
	// replyTimeout limits the time for sending one reply.
	replyTimeout = 5 * time.Second
	// answerPatience is how long sending a client's answer is retried. The answer may be large or
	// come from a person, who cannot be asked again.
	answerPatience = 30 * time.Second
)

// postReply posts a reply that needed no client. It runs in the background so that the caller can
// read the next message. Replies beyond maxReplies are dropped.
func (c *Conn) postReply(answer []byte) {
	select {
	case c.http.replies <- struct{}{}:
	default:
		c.cfg.Logger.Debug("the server sends requests faster than it accepts the replies")
		return
	}
	if !c.group.Go(func() {
		defer func() { <-c.http.replies }()
		_, _ = c.post(c.ctx, answer) // the server may repeat the request
	}) {
		<-c.http.replies
	}
}

// postAnswer posts the client's answer to a request from the server and returns when the server has
// received it. The server waits for the answer, possibly while a request of this session waits for
// the server, so posting is retried after temporary failures, for at most answerPatience. At most
// maxInbound goroutines run it.
func (c *Conn) postAnswer(answer []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, answerPatience)
	defer cancel()
	waits := backoff.New(reopenDelay/4, answerPatience/4)
	for {
		again, err := c.post(ctx, answer)
		if err != nil {
			c.cfg.Logger.Debug("a response to the server was not delivered", "err", c.cleanError(err))
		}
		if !again || !backoff.Sleep(ctx, waits.Next()) {
			return
		}
	}
}

// post posts a reply. If it fails, again reports whether a retry may succeed.
func (c *Conn) post(ctx context.Context, reply []byte) (again bool, err error) {
	x := new(exchange)
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	err = c.http.deliver(ctx, reply, x)
	return err != nil && (x.err == nil || transient(x.status)), err
}
