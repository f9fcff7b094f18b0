package realtime

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

// DefaultURL is the URL of OpenAI's endpoint.
const DefaultURL = "wss://api.openai.com/v1/realtime"

// maxMessage limits the size of a message in bytes: slightly more than the largest audio event that the API
// accepts. A larger message ends its connection.
const maxMessage = 16 << 20

// Endpoint specifies an API endpoint that hosts conversations. It contains secrets, which String
// omits.
type Endpoint struct {
	// URL is a WebSocket URL with scheme wss or ws, or the equivalent https or http. If empty, it
	// defaults to the URL of the dialect's vendor, for OpenAI DefaultURL. If it has no path, or a
	// path that ends in /v1, the dialect's path is appended, such as /v1/realtime.
	URL     string
	Dialect Dialect
	// Session is the ID of a running GPT-Live session or ElevenLabs conversation to attach to. The
	// path is then /v1/live/sessions/ID/attach or /v1/convai/conversations/ID/monitor.
	Session string
	// Query overrides members of the URL's query, such as call_id and model.
	Query url.Values
	// Header contains headers that are sent with every handshake, such as Authorization.
	Header http.Header
	// Insecure allows unencrypted connections to other machines.
	Insecure bool
	// Client performs the handshakes. If nil, a client is used that follows no redirects and uses
	// the proxy from the environment.
	Client *http.Client
}

// OptionError reports an invalid option.
type OptionError struct {
	Option string // one of "url", "header", "role", "session-id", "dialect"
	Reason string // one line
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

// RefusedError reports that the endpoint refused a session, and that another attempt would fail
// too.
type RefusedError struct {
	Status  int    // HTTP status of the handshake, or close code; 0 if neither is known
	Message string // message from the endpoint, one printable line; empty if none
}

func (e *RefusedError) Error() string {
	s := "the endpoint refused the session"
	if e.Status > 0 {
		s += fmt.Sprintf(": %d", e.Status)
	}
	if text := http.StatusText(e.Status); text != "" {
		s += " " + text
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Address returns the URL without its query and user information, which may be secret.
func (e *Endpoint) Address() string {
	u, _, err := e.parse()
	if err != nil {
		return ""
	}
	return printable.Line(u.Scheme+"://"+u.Host+u.EscapedPath(), 256)
}

// String returns the same text as Address.
func (e Endpoint) String() string { return e.Address() }

// GoString returns the same text as Address.
func (e Endpoint) GoString() string { return e.Address() }

// Check validates the endpoint. It returns nil or an *[OptionError].
func (e *Endpoint) Check() error {
	_, _, err := e.resolve(MessageOptions{})
	return err
}

// resolve validates the endpoint and the options, and returns the URL and the dialect for sessions.
// Its error is an *[OptionError].
func (e *Endpoint) resolve(o MessageOptions) (*url.URL, *dialect, error) {
	u, lang, err := e.parse()
	switch {
	case err != nil:
		return nil, nil, err
	case u.Scheme == "ws" && !e.Insecure && !ipscope.Loopback(u.Hostname()):
		return nil, nil, &OptionError{"url", e.Address() + " is not encrypted: others could read the conversation and the key; use wss"}
	case o.Role != "" && o.Role != RoleUser && o.Role != RoleSystem:
		return nil, nil, &OptionError{"role", fmt.Sprintf("unknown role %q; choose user or system", printable.Line(string(o.Role), 32))}
	}
	for name, values := range e.Header {
		why := ""
		switch {
		case !headerName(name):
			why = "is not a valid name"
		case hopByHop(name):
			why = "is a connection header and cannot be set"
		case strings.EqualFold(name, "OpenAI-Beta"):
			why = "selects a protocol that no longer exists: the endpoint would close the connection"
		case slices.ContainsFunc(values, func(v string) bool { return strings.ContainsFunc(v, controls) }):
			why = "has a value with characters that are invalid in headers"
		default:
			continue
		}
		return nil, nil, &OptionError{"header", fmt.Sprintf("%q %s", printable.Line(name, 64), why)}
	}
	return u, lang, nil
}

func (e *Endpoint) parse() (*url.URL, *dialect, error) {
	lang, err := e.dialect()
	if err != nil {
		return nil, nil, err
	}
	bad := func(format string, text string) (*url.URL, *dialect, error) {
		return nil, nil, &OptionError{"url", fmt.Sprintf(format, printable.Line(text, 200))}
	}
	text := cmp.Or(e.URL, lang.home)
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return bad("invalid URL %q; expected one such as "+DefaultURL, text)
	}
	switch strings.ToLower(u.Scheme) {
	case "wss", "https":
		u.Scheme = "wss"
	case "ws", "http":
		u.Scheme = "ws"
	default:
		return bad("unsupported scheme %q; use wss or ws", u.Scheme)
	}
	if u.User != nil {
		return bad("the URL of %s has a password, which would end up in logs; use a header", u.Host)
	}
	u.Fragment = ""
	path := strings.TrimSuffix(u.Path, "/")
	if path == "" || e.URL == "" {
		path = "/v1"
	}
	if strings.HasSuffix(path, "/v1") {
		u.Path = path + "/" + lang.path
	}
	u.RawQuery = replaced(u.Query(), e.Query, u.RawQuery)
	return u, lang, nil
}

// dialect returns the dialect for the endpoint's sessions.
func (e *Endpoint) dialect() (*dialect, error) {
	if e.Session != "" && !sessionID(e.Session) {
		return nil, &OptionError{"session-id", fmt.Sprintf("invalid session id %q", printable.Line(e.Session, 64))}
	}
	lang, ok := e.Dialect.of(e.Session)
	switch {
	case lang == nil:
		return nil, &OptionError{"dialect", fmt.Sprintf("unknown dialect %q", printable.Line(string(e.Dialect), 32))}
	case !ok:
		return nil, &OptionError{"session-id", "use a call id to attach to a running session of the Realtime API"}
	}
	return lang, nil
}

// sessionID reports whether an ID is safe to use as a path segment.
func sessionID(id string) bool {
	return len(id) <= 256 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// replaced returns query q, encoded, after replacing the members that are also in with. It returns
// raw if with is empty.
func replaced(q, with url.Values, raw string) string {
	if len(with) == 0 {
		return raw
	}
	maps.Copy(q, with)
	return q.Encode()
}

const handshakeTimeout = 15 * time.Second

// dial opens a WebSocket connection to u. If the endpoint refuses the handshake, the error is a
// *handshakeError.
func (e *Endpoint) dial(ctx context.Context, u *url.URL, header http.Header, subprotocols []string) (*peer, *http.Response, error) {
	client := e.Client
	if client == nil {
		client = defaultClient()
	}
	spy := &spyTransport{base: client.Transport}
	spied := *client
	spied.Transport = spy
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
	conn.SetReadLimit(maxMessage)
	return &peer{Conn: conn, ended: &spy.ended}, res, nil
}

func defaultClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		DisableKeepAlives:      true, // a refused handshake must not leave an idle connection
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// handshakeError contains the response with which an endpoint refused the handshake.
type handshakeError struct {
	RefusedError
	retryAfter time.Duration
}

func newHandshakeError(res *http.Response) *handshakeError {
	e := &handshakeError{RefusedError: RefusedError{Status: res.StatusCode}}
	e.retryAfter = min(backoff.RetryAfter(res.Header), time.Hour)
	if res.Body == nil {
		return e
	}
	body, _ := io.ReadAll(res.Body) // at most 1,024 bytes, already in memory
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	var doc struct {
		Error struct {
			Code    any    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &doc) == nil {
		e.Message = printable.Line(doc.Error.Message, 300)
		if code, ok := doc.Error.Code.(string); ok && code != "" {
			e.Message = strings.TrimSuffix(printable.Line(code, 64)+": "+e.Message, ": ")
		}
	}
	return e
}

// headerName reports whether s is a valid header name: a token as defined in RFC 9110, §5.6.2.
func headerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// controls reports whether a character is invalid in the value of a header.
func controls(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// hopByHop reports whether a header must not be forwarded, because it applies to one connection or
// is part of the WebSocket handshake.
func hopByHop(name string) bool {
	switch name = textproto.CanonicalMIMEHeaderKey(name); name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host":
		return true
	}
	return strings.HasPrefix(name, "Sec-Websocket-")
}

// addEndToEnd copies the end-to-end headers in from to to.
func addEndToEnd(to, from http.Header) {
	named := map[string]bool{} // headers listed in Connection are also hop-by-hop
	for _, line := range from.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			named[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range from {
		if !hopByHop(name) && !named[name] {
			to[name] = append(to[name], values...)
		}
	}
}
