package web

import (
	"cmp"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Time limits for a request.
const (
	headerTimeout    = 5 * time.Second
	handshakeTimeout = 15 * time.Second // instead of headerTimeout with TLS: many simultaneous handshakes are slow
	bodyTimeout      = 10 * time.Second
	refusedTimeout   = time.Second // for the unread body of a refused request
	writeTimeout     = 30 * time.Second
)

// Limits on a request's body, in bytes.
const (
	maxBody    = 64 << 10
	maxMessage = 4<<20 + 4096 // with Options.MCP; core/mcpserver has its own limit, with a better error
)

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP checks a request and serves it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.running.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.running.wg.Done()
	if s.opts.TrustProxy {
		r.RemoteAddr = cmp.Or(forwarded(r), r.RemoteAddr)
	}
	r = s.withoutPathToken(r)
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if r.ContentLength != 0 { // -1: chunked
		_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// With no-referrer, browsers would send "Origin: null" with the login form.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	open := s.openFor(r)
	r, done := s.admit(w, r, open)
	if r == nil {
		return
	}
	defer done()
	limit := int64(maxBody)
	switch {
	case open != nil:
		limit = max(limit, open.MaxBody)
	case s.opts.MCP:
		limit = maxMessage
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	if !canonical(r) {
		s.refuse(w, r, http.StatusNotFound, "404 page not found")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// canonical reports whether the path of a request is in canonical form. Otherwise ServeMux would
// answer with a redirect that repeats the path, which may contain a token, as in //mcp/TOKEN.
func canonical(r *http.Request) bool {
	p := r.URL.EscapedPath()
	c := path.Clean(p)
	return p == c || p == c+"/" && c != "/"
}

// route returns the pattern that a request matches. It is logged instead of the path, which may
// contain a token.
func (s *Server) route(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	if pattern == "" || !canonical(r) {
		return "unknown"
	}
	return pattern
}

// admit checks a request. If it passes, admit returns it with a context that also ends when its
// token is removed; done must be called when the request has ended. Otherwise admit answers it
// and returns nil. open is its handler if that is an [Open], which needs no token, else nil.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, open *Open) (_ *http.Request, done func()) {
	h := w.Header()
	if (open == nil || !open.AnyHost) && !s.hostAllowed(r) {
		s.refuse(w, r, http.StatusForbidden, "the Host header does not name this server; to allow this name, start the server with --allow-origin")
		return nil, nil
	}
	if open != nil && open.Public {
		if setPublic(h, r) {
			w.WriteHeader(http.StatusNoContent)
			return nil, nil
		}
	} else if other, ok := s.originAllowed(r); !ok {
		s.refuse(w, r, http.StatusForbidden, "pages of other sites are not allowed; to allow this one, start the server with --allow-origin "+printable.Line(r.Header.Get("Origin"), 128))
		return nil, nil
	} else if len(s.origins) > 0 {
		h.Add("Vary", "Origin")
		if other != "" && setCORS(h, r, other, s.opts.MCP) {
			w.WriteHeader(http.StatusNoContent)
			return nil, nil
		}
	}
	done = func() {}
	if s.opts.Tokens.Set() && open == nil {
		found, refused := s.authorize(r)
		switch refused {
		case 0:
			r, done = s.opts.Tokens.begin(r, found, http.NewResponseController(w))
		case http.StatusTooManyRequests:
			h.Set("Retry-After", retryAfter)
			s.refuse(w, r, refused, "too many wrong tokens; try again in a few seconds")
			return nil, nil
		default:
			if wantsPage(r) {
				to := "/login"
				if r.URL.RawQuery != "" {
					to += "?next=" + url.QueryEscape("/?"+r.URL.RawQuery)
				}
				http.Redirect(w, r, to, http.StatusSeeOther)
				return nil, nil
			}
			h.Set("WWW-Authenticate", `Bearer realm="mcptrack"`)
			s.refuse(w, r, refused, "a token is required: send it as Authorization: Bearer TOKEN, or log in at /login")
			return nil, nil
		}
	}
	if r.ContentLength != 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		s.refuse(w, r, http.StatusBadRequest, "a request with this method cannot have a body")
		done()
		return nil, nil
	}
	return r, done
}

// refuse responds to a request that failed a check, without reading its body.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.opts.Logger.Debug("request refused", "why", why, "status", status,
		"method", printable.Line(r.Method, 32), "route", s.route(r), "client", r.RemoteAddr)
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTimeout))
	}
	plain(w, status, why)
}

// wantsPage reports whether a browser opens the dashboard with this request.
func wantsPage(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// hostAllowed reports whether Host names this server. An IP address must be the local address of
// the connection. A name other than localhost must be configured, since anybody can make a name
// resolve to this address.
func (s *Server) hostAllowed(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	if _, ok := s.named(host); ok {
		return true
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	at, ok := local.(*net.TCPAddr)
	if !ok {
		return false
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil { // without a port
		name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "80"
		if r.TLS != nil {
			port = "443"
		}
	}
	if port != fmt.Sprint(at.Port) {
		return false
	}
	here := at.AddrPort().Addr().Unmap()
	if name == "localhost" {
		return ipscope.LoopbackAddr(here)
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.Unmap() == here || ipscope.LoopbackAddr(ip) && ipscope.LoopbackAddr(here))
}

// named returns the origin of Options.Origins whose host, in lower case, a request names.
func (s *Server) named(host string) (o origin, ok bool) {
	for _, o := range s.origins {
		if host == o.host || host == o.host+o.defaultPort() {
			return o, true
		}
	}
	return origin{}, false
}

// originAllowed reports whether the request comes from no web page, from a page of this server,
// or from a page of Options.Origins. In the last case it returns that origin.
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

// origin is the scheme and host[:port] of a site, in lower case and without a default port, as
// in the Origin header.
type origin struct{ scheme, host string }

func (o origin) String() string { return o.scheme + "://" + o.host }

// defaultPort is the port that a Host header may contain even if the origin does not.
func (o origin) defaultPort() string {
	if o.scheme == "https" {
		return ":443"
	}
	return ":80"
}

// CheckOrigin returns an error of type *[OptionError] if the value of a flag is not an origin.
func CheckOrigin(flag, text string) error {
	_, err := parseOrigin(flag, text)
	return err
}

func parseOrigin(flag, text string) (origin, error) {
	refuse := func(why string) (origin, error) {
		return origin{}, &OptionError{flag, fmt.Sprintf("%q %s", printable.Line(text, 128), why)}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return refuse(`is not an origin; expected "https://HOST[:PORT]"`)
	case u.User != nil: // not shown, because it may be a password
		return origin{}, &OptionError{flag, "an origin has no user name and no password"}
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return refuse("must have only scheme, host and port")
	case strings.ContainsAny(u.Host, "*") || strings.HasSuffix(u.Hostname(), "."):
		return refuse("must have an exact host name")
	}
	o := origin{u.Scheme, strings.ToLower(u.Host)}
	o.host = strings.TrimSuffix(o.host, o.defaultPort())
	return o, nil
}

// CORS headers for MCP's Streamable HTTP transport.
const (
	mcpMethods = "GET, POST, DELETE"
	// Tools choose the names of the headers that repeat arguments (Mcp-Param-…), so all names are allowed. The
	// asterisk does not include Authorization, and some browsers do not know it.
	mcpHeaders = "Authorization, Content-Type, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, *"
	mcpExposed = "Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version"
)

// setCORS sets the CORS headers for a page of the origin other; mcp allows the headers of MCP.
// It reports whether the request is a preflight, whose response consists of these headers.
func setCORS(h http.Header, r *http.Request, other string, mcp bool) (preflight bool) {
	h.Set("Access-Control-Allow-Origin", other)
	methods, headers, exposed := "GET", "Authorization, Last-Event-ID", "Last-Event-ID"
	if mcp {
		methods, headers, exposed = mcpMethods, mcpHeaders, mcpExposed
	}
	h.Set("Access-Control-Expose-Headers", exposed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Max-Age", "600")
	return true
}

// Open is a handler for [Server.Handle] that needs no token, because its content is public or
// because the handler itself authenticates requests, for example by a signature. All other
// checks apply, and the limits of untrusted clients.
type Open struct {
	http.Handler
	MaxBody int64 // bytes of a request's body; less than 64 KiB means 64 KiB
	// Public means that pages of all sites may read the responses to GET requests, as the Server Cards
	// of MCP require. The handler must answer no other method but HEAD, and all requests alike.
	Public bool
	// AnyHost accepts requests whatever their Host is: other programs reach the server by names that it
	// does not know. The responses must reveal nothing, because pages can make such requests.
	AnyHost bool
}

// setPublic sets the CORS headers of a public document, as the extension for Server Cards requires. It
// reports whether the request is a preflight, whose response consists of these headers.
func setPublic(h http.Header, r *http.Request) (preflight bool) {
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET")
	h.Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match")
	h.Set("Access-Control-Expose-Headers", "ETag")
	return r.Method == http.MethodOptions
}

// Base returns the scheme, host and port by which a request came, such as "https://dash.example". The
// host is one that the server accepts.
func (s *Server) Base(r *http.Request) string {
	host := strings.ToLower(r.Host)
	if o, ok := s.named(host); ok {
		return o.String()
	}
	return s.scheme(r) + "://" + host
}

// Write is a handler for [Server.Handle] whose requests change something for the user. In addition to
// the checks of all requests, the body must be JSON, and the request must come from a page of this
// server, which its Origin says. Pages of other origins are refused, also of Options.Origins. A request
// that has no header of a browser must have a token in its Authorization header: a login is not enough.
type Write struct{ http.Handler }

func (h Write) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !ownPage(r) && !ownProgram(r):
		plain(w, http.StatusForbidden, "only the dashboard can do this; a program must send the address of the dashboard as Origin, or a token as Authorization: Bearer TOKEN")
	case err != nil || kind != "application/json":
		plain(w, http.StatusUnsupportedMediaType, "the body must be JSON, with Content-Type: application/json")
	default:
		h.Handler.ServeHTTP(w, r)
	}
}

// ownPage reports whether a request, which has passed originAllowed, comes from a page of this server. A
// browser says so itself, except for pages without HTTPS on other machines: their host must be the
// host of the request, which it is unless a reverse proxy changes it.
func ownPage(r *http.Request) bool {
	o, err := parseOrigin("", r.Header.Get("Origin"))
	if site := r.Header.Values("Sec-Fetch-Site"); err != nil || len(site) > 0 {
		return err == nil && len(site) == 1 && site[0] == "same-origin"
	}
	return o.host == strings.TrimSuffix(strings.ToLower(r.Host), o.defaultPort())
}

// ownProgram reports whether a request comes from a program that is no browser, and has a token.
func ownProgram(r *http.Request) bool {
	_, ok := bearer(r)
	return ok && len(r.Header.Values("Origin"))+len(r.Header.Values("Sec-Fetch-Site")) == 0
}

// openFor returns the handler of a request if it is an Open, else nil. It asks the mux that will
// serve the request, so that a request for any other handler needs a token.
func (s *Server) openFor(r *http.Request) *Open {
	h, _ := s.mux.Handler(r)
	if o, ok := h.(Open); ok {
		return &o
	}
	return nil
}
