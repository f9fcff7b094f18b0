package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/process"
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
	u.User = nil
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
	dialer *HTTPDialer
	sse    bool
	guard  *guard
	client *http.Client
	url    *url.URL // where messages are posted; nil on SSE until the server sends it
	// session returns the server's session id, or an empty string if there is none.
	session func() string
	version atomic.Value // protocol version (string), once it is known
	mirrors mirrors
	stream  *notificationStream // nil until Listen

	replies chan struct{} // semaphore for replies in flight: capacity maxReplies, never closed
	mu      sync.Mutex    // guards url on the SSE transport
}

// conn returns a connection without a transport.
func (d *HTTPDialer) conn() *Conn {
	c := newConn(d.cfg)
	g := &guard{conn: c, base: d.base, origin: d.url, headers: d.headers, credentials: d.login}
	c.http = &httpConn{
		dialer: d, guard: g, url: d.url, replies: make(chan struct{}, maxReplies), session: func() string { return "" },
		client: &http.Client{Transport: g, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	return c
}

// Streamable returns a connection over Streamable HTTP. It sends nothing yet.
func (d *HTTPDialer) Streamable() (*Conn, error) {
	c := d.conn()
	tr, err := transport.NewStreamableHTTP(d.url.String(), transport.WithHTTPBasicClient(c.http.client),
		transport.WithHTTPLogger(d.cfg.Logger))
	if err != nil {
		return nil, errors.New("the server's URL is invalid")
	}
	c.http.session = tr.GetSessionId
	c.attach(tr)
	if err := tr.Start(c.ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// headersFor returns the headers in which a modern request repeats parts of its content.
func (h *httpConn) headersFor(q Request) (http.Header, error) {
	raw, err := json.Marshal(q.Params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.Method, err)
	}
	out := http.Header{}
	for k, v := range sdk.StandardHeaders(q.Version, sdk.MCPMethod(q.Method), raw) {
		out.Set(k, v)
	}
	if strings.HasPrefix(q.Method, "tasks/") {
		if id, ok := q.Params["taskId"].(json.RawMessage); ok {
			var name string
			_ = json.Unmarshal(id, &name) // an empty header is not sent
			if name, ok = sdk.EncodeHeaderValue(name); ok && name != "" {
				out.Set(mcp.HeaderName, name)
			}
		}
	}
	if q.Method == mcp.MethodCallTool {
		for k, v := range h.mirrors.headers(raw) {
			out.Set(k, v)
		}
	}
	return out, nil
}

// endpointEvent is the type of the event in which an SSE server sends the URL for posting messages.
const endpointEvent = "endpoint"

// SSE connects over the HTTP+SSE transport of 2024-11-05. ctx limits the wait for the endpoint.
func (d *HTTPDialer) SSE(ctx context.Context) (*Conn, error) {
	c := d.conn()
	c.http.sse, c.http.url = true, nil
	c.http.guard.onEvent = c.http.checkEndpoint
	tr, err := transport.NewSSE(d.url.String(), transport.WithHTTPClient(c.http.client),
		transport.WithSSELogger(d.cfg.Logger),
		transport.WithEndpointTimeout(time.Hour), transport.WithResponseTimeout(time.Hour)) // never reached, because the contexts have shorter deadlines
	if err != nil {
		return nil, errors.New("the server's URL is invalid")
	}
	c.attach(tr)
	tr.SetConnectionLostHandler(func(err error) {
		if !c.http.guard.closing.Load() {
			c.fail(&EndError{Reason: "the event stream ended", Err: c.cleanError(err)})
		}
	})
	if err := c.startSSE(ctx, tr); err != nil {
		c.Close(ErrClosed)
		return nil, err
	}
	return c, nil
}

// startSSE opens the event stream. ctx limits only the wait for it; the stream continues after ctx
// is done.
func (c *Conn) startSSE(ctx context.Context, tr *transport.SSE) error {
	x := new(exchange)
	start, cancel := context.WithCancelCause(withExchange(c.ctx, x))
	context.AfterFunc(c.ctx, func() { cancel(nil) })
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	err := tr.Start(start)
	stop()
	switch {
	case err == nil:
		return nil
	case c.Err() != nil && x.error() == nil:
		return c.Err()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return c.requestError(ctx, x, err)
}

// checkEndpoint rejects an endpoint on another origin.
func (h *httpConn) checkEndpoint(e eventstream.Event) error {
	if e.Type != endpointEvent {
		return nil
	}
	u, err := h.guard.origin.Parse(e.Data)
	if err != nil {
		return errors.New("the server sent an endpoint that is not a URL")
	}
	if !sameOrigin(u, h.guard.origin) {
		return fmt.Errorf("the server sent an endpoint on another origin: %s",
			h.guard.conn.cfg.Redact((&url.URL{Scheme: u.Scheme, Host: u.Host}).String()))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.url = u
	return nil
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
	address := c.http.address()
	if address == "" {
		return
	}
	select {
	case c.http.replies <- struct{}{}:
	default:
		c.cfg.Logger.Debug("the server sends requests faster than it accepts the replies")
		return
	}
	if !c.group.Go(func() {
		defer func() { <-c.http.replies }()
		_, _ = c.post(c.ctx, address, answer) // the server may repeat the request
	}) {
		<-c.http.replies
	}
}

// postAnswer posts the client's answer to a request from the server and returns when the server has
// received it. The server waits for the answer, possibly while a request of this session waits for
// the server, so posting is retried after temporary failures, for at most answerPatience. At most
// maxInbound goroutines run it.
func (c *Conn) postAnswer(answer []byte) {
	address := c.http.address()
	if address == "" {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, answerPatience)
	defer cancel()
	waits := backoff.New(reopenDelay/4, answerPatience/4)
	for {
		again, err := c.post(ctx, address, answer)
		if err != nil {
			c.cfg.Logger.Debug("a response to the server was not delivered", "err", c.cleanError(err))
		}
		if !again || !backoff.Sleep(ctx, waits.Next()) {
			return
		}
	}
}

// post posts a reply. If it fails, again reports whether a retry may succeed.
func (c *Conn) post(ctx context.Context, address string, reply []byte) (again bool, err error) {
	x := new(exchange)
	ctx, cancel := context.WithTimeout(withExchange(ctx, x), replyTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(reply))
	if err != nil {
		return false, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	c.http.identify(q.Header)
	p, err := c.http.client.Do(q)
	if err != nil {
		return x.error() == nil, err // x records only refusals and redirects that mcptrack itself rejected
	}
	_, _ = io.CopyN(io.Discard, p.Body, maxPeek) // so that the connection can be reused
	_ = p.Body.Close()
	return transient(p.StatusCode), x.error()
}

// identify adds the headers that identify the session.
func (h *httpConn) identify(header http.Header) {
	if id := h.session(); id != "" {
		header.Set(mcp.HeaderSession, id)
	}
	if v, _ := h.version.Load().(string); v != "" {
		header.Set(mcp.HeaderProtocolVersion, v)
	}
}

// address returns the URL for posting messages, or an empty string if it is not known yet.
func (h *httpConn) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.url == nil {
		return ""
	}
	return h.url.String()
}

// mirrors stores which modern tools require arguments to be repeated in HTTP headers
// ("x-mcp-header" in their schemas). Servers reject calls without these headers.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
type mirrors struct {
	mu     sync.Mutex           // guards the fields below
	listed bool                 // the tool list is known
	tools  map[string]*sdk.Tool // tools that require headers, by name
	bad    map[string]error     // errors in the annotations of tools, by tool name
}

// LearnTools records the server's tool list, which specifies the headers that calls need.
func (c *Conn) LearnTools(items []catalog.Item) {
	if c.http != nil {
		c.http.mirrors.learn(items)
	}
}

// ToolsKnown reports whether the headers that calls need are known. Only HTTP needs any.
func (c *Conn) ToolsKnown() bool { return c.http == nil || c.http.mirrors.known() }

// ToolError returns an error if a listed tool must not be called because its annotations are
// invalid, and nil otherwise.
func (c *Conn) ToolError(name string) error {
	if c.http == nil {
		return nil
	}
	c.http.mirrors.mu.Lock()
	defer c.http.mirrors.mu.Unlock()
	return c.http.mirrors.bad[name]
}

func (m *mirrors) learn(items []catalog.Item) {
	tools, bad := map[string]*sdk.Tool{}, map[string]error{}
	for _, it := range items {
		if tool, err := mirrored(it); err != nil {
			bad[it.Key] = err
		} else if tool != nil {
			tools[it.Key] = tool
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed, m.tools, m.bad = true, tools, bad
}

// mirrored returns a tool whose calls need headers, nil for another tool, and an error if the tool's
// definition is invalid.
func mirrored(it catalog.Item) (*sdk.Tool, error) {
	if !bytes.Contains(it.Raw, []byte(`"x-mcp-header"`)) {
		return nil, nil
	}
	var schema struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if json.Unmarshal(it.Raw, &schema) != nil {
		return nil, nil
	}
	tool := &sdk.Tool{Name: it.Key, RawInputSchema: schema.InputSchema}
	return tool, sdk.ValidateParamHeaderAnnotations(tool)
}

// CheckTool returns why a tool must not be called over HTTP in the modern era, or nil if it may be.
func CheckTool(it catalog.Item) error {
	_, err := mirrored(it)
	return err
}

// headers returns the headers that a tools/call with these params needs, or nil if it needs none.
func (m *mirrors) headers(params json.RawMessage) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tools) == 0 {
		return nil
	}
	var call struct{ Name string }
	if json.Unmarshal(params, &call) != nil || m.tools[call.Name] == nil {
		return nil
	}
	return sdk.GenerateParamHeaders(m.tools[call.Name], params)
}

func (m *mirrors) known() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed
}
