package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// maxAnswer bounds every answer of an authorization server, in bytes.
	maxAnswer = 512 << 10
	// answerTimeout bounds one request.
	answerTimeout = 20 * time.Second
	// maxRedirects bounds the redirects of one request for metadata.
	maxRedirects = 3
)

// newClient returns the client for the metadata of a server and for its authorization
// servers. It keeps no connections.
func newClient(ctx context.Context, server string) *http.Client {
	u, _ := url.Parse(server)
	g := &guard{server: origin(server), private: u == nil || !public(ctx, u.Hostname())}
	g.base = &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return g.checkDial(address)
		}}).DialContext,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{Transport: g, Timeout: answerTimeout, CheckRedirect: checkRedirect}
}

// guard refuses requests to addresses that a server must not make us send to, and bounds
// answers.
type guard struct {
	base    *http.Transport
	server  string // the server's origin
	private bool   // the server itself is in a private network, so it may name private addresses
}

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(q *http.Request) (*http.Response, error) {
	host := q.URL.Hostname()
	own := origin(q.URL.String()) == g.server // the config chose this origin
	switch {
	case q.URL.Scheme != "https" && !(q.URL.Scheme == "http" && (own || isLoopback(host))):
		return nil, fmt.Errorf("%s is not https", show(q.URL))
	case !g.private && isLoopback(host):
		return nil, fmt.Errorf("%s is an address of this machine; a public server must not refer to it", show(q.URL))
	}
	if addr, err := netip.ParseAddr(host); err == nil && !g.private && !isPublic(addr) {
		return nil, fmt.Errorf("%s is a private address; a public server must not refer to it", show(q.URL))
	}
	p, err := g.base.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	p.Body = &boundedBody{p.Body, maxAnswer}
	return p, nil
}

// checkDial refuses private addresses, to which names chosen by a public server may resolve.
func (g *guard) checkDial(address string) error {
	if g.private || proxied() {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(at.Addr()) {
		return errors.New("the host has a private address; a public server must not refer to it")
	}
	return nil
}

// proxied reports whether connections go through a proxy. Which addresses are private differs
// there, so they are not checked.
func proxied() bool {
	q := &http.Request{URL: &url.URL{Scheme: "https", Host: "proxy.invalid"}}
	proxy, err := http.ProxyFromEnvironment(q)
	return err == nil && proxy != nil
}

func checkRedirect(q *http.Request, via []*http.Request) error {
	switch first := via[0]; {
	case first.Method != http.MethodGet:
		return errors.New("the response is a redirect, which is not followed")
	case origin(first.URL.String()) != origin(q.URL.String()):
		return fmt.Errorf("the response redirects to another origin, %s, which is not followed", show(q.URL))
	case len(via) > maxRedirects:
		return fmt.Errorf("the request was redirected more than %d times", maxRedirects)
	}
	return nil
}

// boundedBody is an answer whose reading fails once it is too large.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		return 0, fmt.Errorf("the response has more than %d bytes", maxAnswer)
	}
	b.left -= int64(n)
	return n, err
}

// public reports whether a host is, as far as can be found out, in the public internet.
func public(ctx context.Context, host string) bool {
	if isLoopback(host) {
		return false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return isPublic(addr)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, addr := range addrs {
		if !isPublic(addr) {
			return false
		}
	}
	return err != nil || len(addrs) > 0
}

func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !sharedSpace().Contains(addr)
}

// sharedSpace is the address block of RFC 6598, which netip does not count as private.
func sharedSpace() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) }

func isLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// show returns a URL without what may be secret.
func show(u *url.URL) string {
	return printable.Line((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), 200)
}

// clean removes from an error of net/http the query of its URL, which may contain codes and
// tokens.
func clean(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		if at, parseErr := url.Parse(u.URL); parseErr == nil {
			return fmt.Errorf("%s: %w", show(at), u.Err)
		}
		return u.Err
	}
	return err
}
