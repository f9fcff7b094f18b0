package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcptrack/mcptrack/core/ipscope"
)

// retryAfter is the Retry-After header, in seconds, of responses that a limit rejected.
const retryAfter = "2"

// authorize returns the token of a request, or of its login, or else the status with which the request is refused.
func (s *Server) authorize(r *http.Request) (found token, refused int) {
	if len(r.Header.Values("Authorization")) > 0 {
		if text, ok := bearer(r); ok {
			return s.checkToken(r, text)
		}
		return token{}, http.StatusUnauthorized
	}
	for _, c := range r.CookiesNamed(s.cookieName(r)) {
		if found := s.opts.Tokens.current().find(s.logins.token(c.Value, time.Now())); found.name != "" {
			return found, 0
		}
	}
	return token{}, http.StatusUnauthorized
}

// checkToken returns the token with a text, or else the status with which the request is refused. It counts and
// logs a wrong one. The right one passes however many wrong ones were sent: otherwise they would keep out
// everybody behind the same address.
func (s *Server) checkToken(r *http.Request, text string) (found token, refused int) {
	if found := s.opts.Tokens.current().find(digest(text)); found.name != "" {
		return found, 0
	}
	addr, _ := netip.ParseAddrPort(r.RemoteAddr)
	client := ipscope.Network(addr.Addr())
	if !s.throttle.allow(client, time.Now()) {
		return token{}, http.StatusTooManyRequests
	}
	s.opts.Logger.Warn("a client sent a wrong token", "client", client.Addr().String(), "route", s.route(r))
	return token{}, http.StatusUnauthorized
}

// forwarded returns the address of the client that a proxy reports, or "" if it reports none. A proxy
// appends the address that it sees; anything before it is unverified.
func forwarded(r *http.Request) string {
	values := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	ip, err := netip.ParseAddr(strings.TrimSpace(values[len(values)-1]))
	if err != nil {
		return ""
	}
	return netip.AddrPortFrom(ip, 0).String()
}

// scheme returns "http" or "https", with TrustProxy as reported by the proxy.
func (s *Server) scheme(r *http.Request) string {
	if r.TLS != nil || s.opts.TrustProxy && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return "https"
	}
	return "http"
}

// withoutPathToken moves a token at the end of the path, as in /mcp/TOKEN, to the Authorization
// header, so that it is checked like any other token and no path that is logged contains it. A
// token that may not be in a path is replaced by a wrong one. Other requests, and those for paths below
// /mcp/ that have a handler, are returned unchanged.
func (s *Server) withoutPathToken(r *http.Request) *http.Request {
	const endpoint = "/mcp"
	text, ok := strings.CutPrefix(r.URL.Path, endpoint+"/")
	if !ok || !s.opts.MCP || !s.opts.Tokens.Set() {
		return r
	}
	if _, pattern := s.mux.Handler(r); strings.HasPrefix(pattern, endpoint+"/") {
		return r
	}
	if !s.opts.Tokens.current().find(digest(text)).inPath {
		text = "-"
	}
	out := new(http.Request)
	*out = *r
	out.URL = &url.URL{Path: endpoint, RawQuery: r.URL.RawQuery}
	out.RequestURI = out.URL.RequestURI()
	out.Header = r.Header.Clone()
	out.Header.Set("Authorization", "Bearer "+text)
	return out
}

// Limits on wrong tokens; those beyond them are answered with 429 and not logged.
const (
	guessesPerAddr = 5               // burst per address
	guessInterval  = 2 * time.Second // then one token per interval
	guesses        = 50              // burst for all addresses together
	guessesPerSec  = 10              // rate for all addresses after the burst
	maxGuessers    = 10_000          // maximum number of stored addresses
)

// throttle counts wrong tokens, per address and in total.
type throttle struct {
	mu     sync.Mutex
	byAddr map[netip.Prefix]*rate.Limiter // networks that sent a wrong token
	all    *rate.Limiter
}

func newThrottle() *throttle {
	return &throttle{byAddr: make(map[netip.Prefix]*rate.Limiter), all: rate.NewLimiter(guessesPerSec, guesses)}
}

// allow counts a wrong token of a client, and reports whether it is within the limits.
func (t *throttle) allow(client netip.Prefix, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.byAddr[client]
	if own == nil {
		if len(t.byAddr) >= maxGuessers {
			clear(t.byAddr) // the limit for all clients remains
		}
		own = rate.NewLimiter(rate.Every(guessInterval), guessesPerAddr)
		t.byAddr[client] = own
	}
	return own.AllowN(now, 1) && t.all.AllowN(now, 1)
}
