package realtime

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/printable"
)

// handshakeTimeout is how long a handshake may take.
const handshakeTimeout = 15 * time.Second

// dial connects to u. If the endpoint answers the handshake with a refusal, the error is a
// *handshakeError.
func (e *Endpoint) dial(ctx context.Context, u *url.URL, header http.Header, subprotocols []string) (*peer, *http.Response, error) {
	client := e.Client
	if client == nil {
		client = defaultClient()
	}
	spied := *client
	spied.Transport = &spyTransport{base: client.Transport}
	spied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, res, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPClient: &spied, HTTPHeader: header, Subprotocols: subprotocols,
	})
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols {
			return nil, res, newHandshakeError(res)
		}
		return nil, res, fmt.Errorf("connect to %s: %w", printable.Line(u.Host, 200), printable.Unnamed(err))
	}
	limit := e.MaxMessage
	if limit <= 0 {
		limit = DefaultMaxMessage
	}
	conn.SetReadLimit(limit)
	return &peer{Conn: conn, ended: spied.Transport.(*spyTransport).ended}, res, nil
}

func defaultClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		DisableKeepAlives:      true, // a refused handshake leaves no connection behind
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// handshakeError is the HTTP response of an endpoint that refuses the handshake.
type handshakeError struct {
	status     int
	message    string
	retryAfter time.Duration
}

func (e *handshakeError) Error() string {
	return (&RefusedError{Status: e.status, Message: e.message}).Error()
}

func newHandshakeError(res *http.Response) *handshakeError {
	e := &handshakeError{status: res.StatusCode}
	e.retryAfter = min(backoff.RetryAfter(res.Header), time.Hour)
	if res.Body == nil {
		return e
	}
	body, _ := io.ReadAll(res.Body) // at most 1,024 bytes, in memory already
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	var doc struct {
		Error struct {
			Code    any    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &doc) == nil {
		e.message = printable.Line(doc.Error.Message, 300)
		if code, ok := doc.Error.Code.(string); ok && code != "" {
			e.message = strings.TrimSuffix(printable.Line(code, 64)+": "+e.message, ": ")
		}
	}
	return e
}
