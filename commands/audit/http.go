package audit

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
)

// strangeHost is the host of a page of another site (RFC 6761 reserves .invalid).
const strangeHost = "mcptrack-audit.invalid"

// maxBody limits the bytes that are read of one response.
const maxBody = 1 << 20

// An httpCheck sends requests that a session cannot send: without credentials, or with a strange origin.
// It follows no redirects, and sends requests only to the origin of the server.
type httpCheck struct {
	srv    config.Server
	url    *url.URL // nil if the server is not reached over HTTP
	client *http.Client
}

func newHTTPCheck(srv config.Server) *httpCheck {
	h := &httpCheck{srv: srv}
	if srv.Transport != config.TransportHTTP && srv.Transport != config.TransportSSE {
		return h
	}
	u, err := url.Parse(srv.URL.Reveal())
	if err != nil {
		return h // connecting reports it
	}
	h.url = u
	h.client = &http.Client{Timeout: maxAnswer, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return h
}

// send sends a request and returns the response with its body, which is closed. The body of a stream, which
// may not end, is empty.
func (h *httpCheck) send(ctx context.Context, method string, to *url.URL, header http.Header, message string) (resp *http.Response, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, to.String(), strings.NewReader(message))
	if err != nil {
		return nil, nil, err
	}
	req.Header = header
	if header.Get("Origin") != "" {
		req.Host = strangeHost
	}
	if resp, err = h.client.Do(req); err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body, _ = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	}
	return resp, body, nil
}

// hello sends the first message of a session, in an era.
func (h *httpCheck) hello(ctx context.Context, era session.Era, header http.Header) (*http.Response, error) {
	const client = `{"name":"mcptrack","version":"audit"}`
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	method, message := http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"`+mcp.MethodInitialize+`","params":{"protocolVersion":"`+mcp.LatestLegacy+
		`","capabilities":{},"clientInfo":`+client+`}}`
	if era == session.EraModern {
		header.Set(mcp.HeaderProtocolVersion, mcp.ModernVersion)
		header.Set(mcp.HeaderMethod, mcp.MethodDiscover)
		message = `{"jsonrpc":"2.0","id":1,"method":"` + mcp.MethodDiscover + `","params":{"_meta":{"` + mcp.MetaProtocolVersion + `":"` + mcp.ModernVersion +
			`","` + mcp.MetaClientInfo + `":` + client + `,"` + mcp.MetaClientCapabilities + `":{}}}}`
	}
	if h.srv.Transport == config.TransportSSE {
		header.Set("Accept", "text/event-stream")
		method, message = http.MethodGet, ""
	}
	resp, _, err := h.send(ctx, method, h.url, header, message)
	return resp, err
}

// credentials checks how the server is reached and, if it requires credentials, whether it says how to
// get them. It sends none.
func (h *httpCheck) credentials(ctx context.Context, r *result) {
	if h.url == nil {
		return
	}
	if h.url.Scheme == "http" && !ipscope.Loopback(h.url.Hostname()) {
		r.add("tls", "", "%s is reached without encryption", r.srv.Endpoint())
	}
	anonymous := *h.url
	anonymous.User = nil
	bare := httpCheck{h.srv, &anonymous, h.client}
	resp, err := bare.hello(ctx, session.EraLegacy, http.Header{})
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return
	}
	challenges := resp.Header.Values("WWW-Authenticate")
	if len(challenges) == 0 {
		r.add("auth", "", "status 401 has no WWW-Authenticate header")
	}
	c := login.ParseChallenge(challenges)
	if c.Basic && c.Metadata == "" {
		return // a password is no OAuth
	}
	places := []string{wellKnown + anonymous.EscapedPath(), wellKnown}
	if c.Metadata != "" {
		u, err := anonymous.Parse(c.Metadata)
		if err != nil {
			r.add("auth", "", "resource_metadata of WWW-Authenticate is not a URL")
			return
		}
		if u.Scheme != anonymous.Scheme || u.Host != anonymous.Host {
			return // an audit sends nothing to the other places that a server names
		}
		places = []string{u.RequestURI()}
	}
	problem := ""
	for _, place := range places {
		if problem = bare.metadata(ctx, place); problem == "" {
			return
		}
	}
	r.add("auth", "", "%s", problem)
}

// wellKnown is the path of the metadata of a protected resource (RFC 9728), before the path of the resource.
const wellKnown = "/.well-known/oauth-protected-resource"

// metadata returns what is wrong with the metadata of a protected resource at a path.
func (h *httpCheck) metadata(ctx context.Context, path string) string {
	at, err := h.url.Parse(path)
	if err != nil {
		return "no metadata at " + path
	}
	resp, body, err := h.send(ctx, http.MethodGet, at, http.Header{"Accept": {"application/json"}}, "")
	var m struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	switch {
	case err != nil:
		return "no metadata at " + at.Path
	case resp.StatusCode != http.StatusOK:
		return "no metadata at " + at.Path + ": " + (&session.HTTPError{Status: resp.StatusCode}).Error()
	case json.Unmarshal(body, &m) != nil:
		return "the metadata at " + at.Path + " is not JSON"
	case m.Resource == "" || len(m.Servers) == 0:
		return "the metadata at " + at.Path + " has no resource or no authorization_servers"
	}
	return ""
}

// origin checks that a server on this machine refuses requests from pages of other sites. It sends what a
// browser sends after DNS rebinding: the host of the page, in Origin and in Host.
func (h *httpCheck) origin(ctx context.Context, r *result) {
	if h.url == nil || !ipscope.Loopback(h.url.Hostname()) {
		return
	}
	header := http.Header{}
	for name, value := range h.srv.Headers {
		header.Set(name, value.Reveal())
	}
	header.Set("Origin", "http://"+strangeHost)
	resp, err := h.hello(ctx, r.info.Era, header)
	if err != nil || resp.StatusCode/100 != 2 {
		return
	}
	r.add("origin", "", "a request with Origin: http://%s and Host: %[1]s was answered with status %d", strangeHost, resp.StatusCode)
	if id := resp.Header.Get(mcp.HeaderSession); id != "" {
		header.Del("Origin")
		header.Set(mcp.HeaderSession, id)
		_, _, _ = h.send(ctx, http.MethodDelete, h.url, header, "")
	}
}
