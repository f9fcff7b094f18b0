package web

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Time limits of a request.
const (
	bodyTimeout    = 10 * time.Second
	refusedTimeout = time.Second // for the body of a refused request, which is not read
	writeTimeout   = 30 * time.Second
)

// Limits of a request's body, in bytes: in general, and of an MCP message.
const (
	maxBody    = 64 << 10
	maxMessage = 4<<20 + 4096 // core/mcpserver has its own limit, with a better error
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
	r = s.endpoint(r)
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if r.ContentLength != 0 { // -1: chunked
		_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: browsers would send "Origin: null" with the login form.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	open := openFor(s.mux, r)
	r, done := s.admit(w, r, open != nil)
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
	if c, _ := r.Context().Value(connKey{}).(*conn); c != nil && open == nil {
		if !c.trust() {
			s.overloaded(w, r)
			return
		}
		if r.ContentLength == 0 {
			_ = rc.SetReadDeadline(time.Time{}) // removes the deadline of an untrusted connection
		}
	}
	if !canonical(r) {
		s.refuse(w, r, http.StatusNotFound, "404 page not found")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// canonical reports whether the path of a request is in the form that routes have. For others
// ServeMux would answer with a redirect that repeats the path, which may be almost that of a
// token: //mcp/TOKEN.
func canonical(r *http.Request) bool {
	p := r.URL.EscapedPath()
	c := path.Clean(p)
	return p == c || p == c+"/" && c != "/"
}

// route returns the pattern that a request matches. Logs have it instead of the path, which may
// contain a token.
func (s *Server) route(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	if pattern == "" || !canonical(r) {
		return "unknown"
	}
	return pattern
}

// overloaded refuses a request because too many connections are busy. For a stream of events
// it cuts the connection off instead: browsers then connect again later, which they would not
// do after any status but 200.
func (s *Server) overloaded(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") && r.Method == http.MethodGet {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Retry-After", retryAfter)
	w.Header().Set("Connection", "close")
	s.refuse(w, r, http.StatusServiceUnavailable, "too many connections")
}

// admit returns a request that passes all checks, with a context that also ends when its token is
// removed; done must be called when it has ended. A request that does not pass has been answered,
// and admit returns nil. open says that its handler is an [Open], which needs no token.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, open bool) (_ *http.Request, done func()) {
	h := w.Header()
	if !s.hostAllowed(r) {
		s.refuse(w, r, http.StatusForbidden, "the Host header does not name this server; to allow the name, start the server with --allow-origin")
		return nil, nil
	}
	other, ok := s.originAllowed(r)
	if !ok {
		s.refuse(w, r, http.StatusForbidden, "pages of other sites are not allowed; to allow this one, start the server with --allow-origin "+printable.Line(r.Header.Get("Origin"), 128))
		return nil, nil
	}
	if len(s.origins) > 0 {
		h.Add("Vary", "Origin")
	}
	if other != "" && allow(h, r, other, s.opts.MCP) {
		w.WriteHeader(http.StatusNoContent)
		return nil, nil
	}
	done = func() {}
	if s.opts.Tokens.Set() && !open {
		result, found := s.authorize(r)
		switch result {
		case rightToken:
			r, done = s.opts.Tokens.begin(r, found, http.NewResponseController(w))
		case notChecked:
			h.Set("Retry-After", retryAfter)
			s.refuse(w, r, http.StatusTooManyRequests, "too many wrong tokens; try again in a few seconds")
			return nil, nil
		case wrongToken:
			if wantsPage(r) {
				to := "/login"
				if r.URL.RawQuery != "" {
					to += "?next=" + url.QueryEscape("/?"+r.URL.RawQuery)
				}
				http.Redirect(w, r, to, http.StatusSeeOther)
				return nil, nil
			}
			h.Set("WWW-Authenticate", `Bearer realm="mcptrack"`)
			s.refuse(w, r, http.StatusUnauthorized, "a token is required: send it as Authorization: Bearer TOKEN, or log in at /login")
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

// refuse answers a request that did not pass a check. Its body is not read.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.opts.Logger.Debug("request refused", "why", why, "status", status,
		"method", printable.Line(r.Method, 32), "route", s.route(r), "client", r.RemoteAddr)
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTimeout))
	}
	plain(w, status, why)
}

// wantsPage reports whether the request is that of a browser that opens the dashboard.
func wantsPage(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}
