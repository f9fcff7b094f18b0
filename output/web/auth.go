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

// authorize returns whether a request has the token or the cookie of a login.
func (s *Server) authorize(r *http.Request) outcome {
	if len(r.Header.Values("Authorization")) > 0 {
		token, ok := bearer(r)
		if !ok {
			return wrongToken
		}
		return s.checkToken(r, token)
	}
	now := time.Now()
	for _, c := range r.CookiesNamed(s.cookieName(r)) {
		if s.tickets.valid(c.Value, now) {
			return rightToken
		}
	}
	return wrongToken
}

// checkToken checks a token, unless the client sent too many wrong tokens before, and logs
// wrong tokens.
func (s *Server) checkToken(r *http.Request, token string) outcome {
	client := s.client(r)
	result, quiet := s.throttle.check(client, time.Now(), func() bool { return s.opts.Token.Is(token) })
	if result == wrongToken && !quiet {
		s.opts.Logger.Warn("a client sent a wrong token", "client", client.Addr().String(), "route", s.route(r))
	}
	return result
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
