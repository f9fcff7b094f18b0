package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/process"
)

// Endpoint is a server that is reached over HTTP. A session may make several
// connections to it, to find the transport and version that work best.
type Endpoint struct {
	cfg     Config
	url     *url.URL // without user info
	headers http.Header
	login   *Credentials
	base    *http.Transport
}

// NewEndpoint returns the server at the address, an absolute http or https URL.
// Headers are sent with every request; user info of the address becomes an
// Authorization header unless they have one. login supplies that header if neither does;
// nil: nothing does.
func NewEndpoint(address string, headers http.Header, login *Credentials, cfg Config) (*Endpoint, error) {
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
	return &Endpoint{cfg: cfg, url: u, headers: headers, login: login, base: newBase(cfg.DialContext)}, nil
}

// newBase returns the network side of an endpoint. It has no timeout for answers, as
// streams have none; TCP keep-alive finds dead peers, requests have deadlines.
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

// Close drops idle connections; a Conn of the endpoint calls it when it is closed.
func (e *Endpoint) Close() { e.base.CloseIdleConnections() }

// httpConn is the additional state of a connection over HTTP.
type httpConn struct {
	sse    bool
	guard  *guard
	client *http.Client
	url    *url.URL // where messages are posted to; nil on the SSE transport until the server names it
	// session returns the session id that the server gave, or "".
	session func() string
	version atomic.Value // string: the protocol version, once it is known
	mirrors mirrors
	stream  *stream // nil until Listen

	replies chan struct{} // has room for maxReplies: a slot is sent before a reply goes out and received after; never closed
	mu      sync.Mutex    // guards url on the SSE transport
}

// conn returns a connection over HTTP to which no transport is attached yet.
func (e *Endpoint) conn() *Conn {
	c := newConn(e.cfg)
	g := &guard{conn: c, base: e.base, origin: e.url, headers: e.headers, credentials: e.login}
	c.http = &httpConn{
		guard: g, url: e.url, replies: make(chan struct{}, maxReplies), session: func() string { return "" },
		client: &http.Client{Transport: g, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	c.reply = func(answer []byte) { postReply(c, answer) }
	c.release = e.Close
	return c
}

// Streamable returns a connection over Streamable HTTP. It sends nothing yet.
func (e *Endpoint) Streamable() (*Conn, error) {
	c := e.conn()
	tr, err := transport.NewStreamableHTTP(e.url.String(), transport.WithHTTPBasicClient(c.http.client),
		transport.WithHTTPLogger(e.cfg.Logger))
	if err != nil {
		return nil, errors.New("the URL of the server is invalid")
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
			_ = json.Unmarshal(id, &name) // "" is not sent
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
