package realtime

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/coder/websocket"
)

// target returns the URL of the endpoint to which the request of a client leads.
func (p *Proxy) target(r *http.Request) *url.URL {
	u := *p.url
	if p.anyPath && r.URL.Path != "/" {
		u.Path, u.RawPath = r.URL.Path, r.URL.RawPath
	}
	if q := r.URL.RawQuery; q != "" && u.RawQuery == "" {
		u.RawQuery = q
	} else if q != "" {
		u.RawQuery = replaced(r.URL.Query(), u.Query(), q)
	}
	return &u
}

// dial connects to the endpoint with the headers and subprotocols of the client's
// handshake; headers in Upstream.Header replace those of the client.
func (p *Proxy) dial(r *http.Request) (*peer, *http.Response, error) {
	header := http.Header{}
	endToEnd(header, r.Header)
	for name, values := range p.opts.Upstream.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // none, rather than Go's
	}
	var offered []string
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			offered = append(offered, strings.TrimSpace(name))
		}
	}
	return p.opts.Upstream.dial(r.Context(), p.target(r), header, offered)
}

// accept answers the client's handshake as the endpoint answered ours: with the same headers
// and subprotocol.
func (p *Proxy) accept(w http.ResponseWriter, r *http.Request, upstream *peer, res *http.Response) (*peer, error) {
	endToEnd(w.Header(), res.Header)
	var chosen []string
	if name := upstream.Subprotocol(); name != "" {
		chosen = []string{name}
	}
	spy := &spyWriter{w, new(atomic.Bool)}
	conn, err := websocket.Accept(spy, r, &websocket.AcceptOptions{
		Subprotocols:       chosen,
		InsecureSkipVerify: true, // the server has checked Origin already
	})
	if err != nil {
		return nil, err
	}
	limit := p.opts.Upstream.MaxMessage
	if limit <= 0 {
		limit = DefaultMaxMessage
	}
	conn.SetReadLimit(limit)
	return &peer{Conn: conn, ended: spy.ended}, nil
}

// refuse forwards the refusal of the endpoint, or reports that there was no response.
func refuse(w http.ResponseWriter, res *http.Response) {
	if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
		http.Error(w, "the realtime endpoint cannot be reached", http.StatusBadGateway)
		return
	}
	endToEnd(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	if res.Body != nil {
		_, _ = io.Copy(w, res.Body) // only its first 1,024 bytes, which are in memory
	}
}
