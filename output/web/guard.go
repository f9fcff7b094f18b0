package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Time that a client has for its part of a request.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
)

// The largest body of a request: a login, or a message.
const (
	maxBody    = 64 << 10
	maxMessage = 4<<20 + 4096 // the endpoint has its own limit and says so
)

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP guards and then serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.running.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.running.wg.Done()
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	refuse := func(status int, why string) {
		s.opts.Logger.Debug("request refused", "why", why, "status", status,
			"method", printable.Line(r.Method, 32), "path", printable.Line(r.URL.Path, 128), "client", r.RemoteAddr)
		plain(w, status, why)
	}
	if !s.hostAllowed(r) {
		refuse(http.StatusForbidden, "this server has another name; see --allow-origin")
		return
	}
	other, ok := s.originAllowed(r)
	if !ok {
		refuse(http.StatusForbidden, "pages of other sites may not ask; see --allow-origin")
		return
	}
	if len(s.origins) > 0 {
		h.Add("Vary", "Origin")
	}
	if other != "" {
		if s.allow(h, r, other) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if s.opts.Token.Set() && r.URL.Path != "/healthz" && r.URL.Path != "/login" && !s.authorized(r) {
		h.Set("WWW-Authenticate", `Bearer realm="mcptrack"`)
		if s.wantsPage(r) {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		refuse(http.StatusUnauthorized, "a token is needed: Authorization: Bearer, or /login")
		return
	}
	if r.ContentLength != 0 { // -1: chunked
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			h.Set("Connection", "close") // instead of reading it
			refuse(http.StatusBadRequest, "a body without a purpose")
			return
		}
		_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
		limit := int64(maxBody)
		if s.opts.MCP {
			limit = maxMessage
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
	}
	s.mux.ServeHTTP(w, r)
}

// wantsPage reports whether a person opened the front page in a browser.
func (s *Server) wantsPage(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// hostAllowed reports whether Host is a name of this server. An IP address must
// be the one that the connection came in on; names other than localhost must have
// been configured, since anybody can point theirs here.
func (s *Server) hostAllowed(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	for _, o := range s.origins {
		if host == o.host || host == o.host+o.defaultPort() {
			return true
		}
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	at, ok := local.(*net.TCPAddr)
	if !ok {
		return false
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil { // without a port: that of http
		name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "80"
	}
	if port != fmt.Sprint(at.Port) {
		return false
	}
	here := at.AddrPort().Addr().Unmap()
	if name == "localhost" {
		return here.IsLoopback()
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.Unmap() == here || ip.IsLoopback() && here.IsLoopback())
}

// originAllowed reports whether the page that asks, if one does, may. other is its
// origin when it is of another site.
func (s *Server) originAllowed(r *http.Request) (other string, ok bool) {
	switch values := r.Header.Values("Origin"); len(values) {
	case 0:
	case 1:
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		text := strings.ToLower(values[0])
		if slices.ContainsFunc(s.origins, func(o origin) bool { return o.String() == text }) {
			return values[0], true
		}
		if text != scheme+strings.ToLower(r.Host) {
			return "", false
		}
	default:
		return "", false
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return "", false
		}
	}
	return "", true
}

// origin is scheme, host and port of a site, in lower case and without a default
// port, as browsers write it.
type origin struct{ scheme, host string }

func (o origin) String() string { return o.scheme + "://" + o.host }

// defaultPort is what a Host header may add to a host without a port.
func (o origin) defaultPort() string {
	if o.scheme == "https" {
		return ":443"
	}
	return ":80"
}

func parseOrigin(text string) (origin, error) {
	refuse := func(why string) (origin, error) {
		return origin{}, &OptionError{"allow-origin", fmt.Sprintf("%q %s", printable.Line(text, 128), why)}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return refuse(`is no origin; write "https://dash.example"`)
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return refuse("has more than scheme, host and port")
	case strings.ContainsAny(u.Host, "*") || strings.HasSuffix(u.Hostname(), "."):
		return refuse("is no exact name")
	}
	o := origin{u.Scheme, strings.ToLower(u.Host)}
	o.host = strings.TrimSuffix(o.host, o.defaultPort())
	return o, nil
}
