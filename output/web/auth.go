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

// authorize checks the token or the login cookie of a request. It also returns the token, or
// the token of the login.
func (s *Server) authorize(r *http.Request) (outcome, token) {
	if len(r.Header.Values("Authorization")) > 0 {
		text, ok := bearer(r)
		if !ok {
			return wrongToken, token{}
		}
		return s.checkToken(r, text)
	}
	now, tokens := time.Now(), s.opts.Tokens.current()
	for _, c := range r.CookiesNamed(s.cookieName(r)) {
		if found, ok := s.tickets.valid(c.Value, now, tokens); ok {
			return rightToken, found
		}
	}
	return wrongToken, token{}
}

// checkToken checks a token. It counts and logs a wrong one. The right one passes however many wrong ones
// were sent: otherwise they would keep out everybody behind the same address.
func (s *Server) checkToken(r *http.Request, text string) (outcome, token) {
	if found := s.opts.Tokens.current().find(digest(text)); found.name != "" {
		return rightToken, found
	}
	client := s.client(r)
	result, quiet := s.throttle.wrong(client, time.Now())
	if !quiet {
		s.opts.Logger.Warn("a client sent a wrong token", "client", client.Addr().String(), "route", s.route(r))
	}
	return result, token{}
}

// client returns the network of the client.
func (s *Server) client(r *http.Request) netip.Prefix {
	addr, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ipscope.Network(addr.Addr())
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

// outcome is the result of checking a token.
type outcome int

const (
	rightToken outcome = iota
	wrongToken
	tooMany // wrong, as were too many tokens of the client, or of all clients together
)

// wrong counts a wrong token of a client. quiet means that they arrive too fast to be logged.
func (t *throttle) wrong(client netip.Prefix, now time.Time) (result outcome, quiet bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.byAddr[client]
	exhausted := t.all.TokensAt(now) < 1
	if own != nil && (exhausted || own.TokensAt(now) < 1) {
		return tooMany, true
	}
	t.all.AllowN(now, 1)
	if own == nil {
		t.forget(now)
		own = rate.NewLimiter(rate.Every(guessInterval), guessesPerAddr)
		t.byAddr[client] = own
	}
	own.AllowN(now, 1)
	return wrongToken, exhausted
}

// forget frees space in byAddr for another network: it drops networks whose limit has fully
// recovered and, if these are not enough, arbitrary others.
func (t *throttle) forget(now time.Time) {
	if len(t.byAddr) < maxGuessers {
		return
	}
	for addr, l := range t.byAddr {
		if l.TokensAt(now) >= guessesPerAddr {
			delete(t.byAddr, addr)
		}
	}
	for addr := range t.byAddr {
		if len(t.byAddr) < maxGuessers {
			return
		}
		delete(t.byAddr, addr)
	}
}
