package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// retryAfter is the Retry-After header, in seconds, of answers to clients that sent too
// many wrong tokens.
const retryAfter = "2"

// authorize returns whether a request has a token or the cookie of a login, and that token, or the
// one of the login.
func (s *Server) authorize(r *http.Request) (outcome, secret) {
	if len(r.Header.Values("Authorization")) > 0 {
		token, ok := bearer(r)
		if !ok {
			return wrongToken, secret{}
		}
		return s.checkToken(r, token)
	}
	now, tokens := time.Now(), s.opts.Tokens.current()
	for _, c := range r.CookiesNamed(s.cookieName(r)) {
		if found, ok := s.tickets.valid(c.Value, now, tokens); ok {
			return rightToken, found
		}
	}
	return wrongToken, secret{}
}

// checkToken checks a token, unless the client sent too many wrong tokens before, and logs
// wrong tokens.
func (s *Server) checkToken(r *http.Request, token string) (result outcome, found secret) {
	client := s.client(r)
	result, quiet := s.throttle.check(client, time.Now(), func() bool {
		found = s.opts.Tokens.current().find(digest(token))
		return found.name != ""
	})
	if result == wrongToken && !quiet {
		s.opts.Logger.Warn("a client sent a wrong token", "client", client.Addr().String(), "route", s.route(r))
	}
	return result, found
}

// client returns the address of the client (IPv6: its /64 network), with TrustProxy as the
// proxy reports it.
func (s *Server) client(r *http.Request) netip.Prefix {
	if s.opts.TrustProxy {
		// The proxy appends the address that it sees; anything before it is unverified.
		values := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if ip, err := netip.ParseAddr(strings.TrimSpace(values[len(values)-1])); err == nil {
			return prefix(ip)
		}
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix(ip)
}

// scheme returns "http" or "https", with TrustProxy as the proxy reports it.
func (s *Server) scheme(r *http.Request) string {
	if r.TLS != nil || s.opts.TrustProxy && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return "https"
	}
	return "http"
}
