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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// maxAnswer is the maximum size of a response from an authorization server, in bytes.
	maxAnswer = 512 << 10
	// answerTimeout limits the time for one request.
	answerTimeout = 20 * time.Second
	// dialTimeout limits the time for dialling and, separately, for the TLS handshake.
	dialTimeout = 10 * time.Second
	// resolveTimeout limits the time to look up a host name that is not dialled directly.
	resolveTimeout = 5 * time.Second
	// maxRedirects is the maximum number of redirects for one metadata request.
	maxRedirects = 3
)

// newGuardedClient returns the HTTP client for requests to the metadata of a server and to its
// authorization servers. It does not keep connections alive.
func newGuardedClient(ctx context.Context, server string) *http.Client {
	return newGuard(ctx, server, net.DefaultResolver, http.ProxyFromEnvironment).client()
}

// guard is an HTTP transport that refuses requests to addresses that an untrusted server must not
// make mcptrack contact, and limits the size of responses.
type guard struct {
	server   *url.URL // the server's URL in the config
	private  bool     // the server is in a private network, so it may refer to private addresses
	resolver *net.Resolver
	proxy    func(*http.Request) (*url.URL, error)
	direct   *http.Transport // checks the address that it dials
	proxied  *http.Transport // connects through the proxy
}

// newGuard returns the guard for a server. proxy returns the proxy for a request, or nil if none is
// used.
func newGuard(ctx context.Context, server string, resolver *net.Resolver, proxy func(*http.Request) (*url.URL, error)) *guard {
	u, err := url.Parse(server)
	if err != nil {
		u = new(url.URL)
	}
	g := &guard{server: u, resolver: resolver, proxy: proxy, direct: newTransport(), proxied: newTransport()}
	// The host that a proxy connects to is unknown, so a server behind a proxy is treated as
	// public.
	if by, err := proxy(&http.Request{URL: u}); err == nil && by == nil {
		all := g.lookup(ctx, u.Hostname())
		g.private = ipscope.Loopback(u.Hostname()) || len(all) > 0 && !slices.ContainsFunc(all, ipscope.Public)
	}
	g.proxied.Proxy = proxy
	g.direct.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		// Check the address that is dialled, because a host name may resolve to a different address
		// each time.
		d := net.Dialer{Timeout: dialTimeout, Resolver: resolver, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return g.checkDial(host, address)
		}}
		return d.DialContext(ctx, network, address)
	}
	return g
}

func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

func (g *guard) client() *http.Client {
	return &http.Client{Transport: g, Timeout: answerTimeout, CheckRedirect: checkRedirect}
}

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(q *http.Request) (*http.Response, error) {
	host := q.URL.Hostname()
	own := origin(q.URL.String()) == origin(g.server.String())
	if q.URL.Scheme != "https" && !(q.URL.Scheme == "http" && (own || ipscope.Loopback(host))) {
		return nil, fmt.Errorf("%s is not https", showURL(q.URL))
	}
	if !g.private && ipscope.Private(host) {
		return nil, fmt.Errorf("%s is a private address; a public server must not refer to it", showURL(q.URL))
	}
	proxy, err := g.proxy(q)
	if err != nil {
		return nil, errors.New("the proxy specified in the environment is not a URL")
	}
	transport := g.direct
	if proxy != nil {
		// The proxy resolves the host name again. Nevertheless, host names in the private network
		// are not sent to it.
		if !g.private && slices.ContainsFunc(g.lookup(q.Context(), host), func(addr netip.Addr) bool { return !ipscope.Public(addr) }) {
			return nil, errPrivate
		}
		transport = g.proxied
	}
	p, err := transport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	p.Body = &boundedBody{p.Body, maxAnswer}
	return p, nil
}

var (
	errPrivate = errors.New("the host has a private address; a public server must not refer to it")
	errMoved   = errors.New("the server had only private addresses before, and now has a public one")
)

// checkDial refuses private addresses, to which a public server's host names may resolve. A private
// server must remain private: otherwise a public server could refer to private addresses by briefly
// resolving to one itself.
func (g *guard) checkDial(host, address string) error {
	at, err := netip.ParseAddrPort(address)
	isPublic := err == nil && ipscope.Public(at.Addr())
	switch {
	case !g.private && !isPublic:
		return errPrivate
	case g.private && isPublic && strings.EqualFold(host, g.server.Hostname()):
		return errMoved
	}
	return nil
}

// lookup returns the addresses of a host, or none if the lookup fails.
func (g *guard) lookup(ctx context.Context, host string) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	all, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	return all
}

func checkRedirect(q *http.Request, via []*http.Request) error {
	switch first := via[0]; {
	case first.Method != http.MethodGet:
		return errors.New("the response is a redirect, which is not followed")
	case origin(first.URL.String()) != origin(q.URL.String()):
		return fmt.Errorf("the response redirects to another origin, %s, which is not followed", showURL(q.URL))
	case len(via) > maxRedirects:
		return fmt.Errorf("the request was redirected more than %d times", maxRedirects)
	}
	return nil
}

// boundedBody is a response body whose Read fails once the size limit is exceeded.
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
		return 0, fmt.Errorf("the response is larger than %d bytes", maxAnswer)
	}
	b.left -= int64(n)
	return n, err
}

// showURL formats a URL without parts that may be secret.
func showURL(u *url.URL) string {
	return printable.Line((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), 200)
}

// withoutQuery removes the URL's query, which may contain codes and tokens, from an error returned
// by net/http.
func withoutQuery(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		if at, parseErr := url.Parse(u.URL); parseErr == nil {
			return fmt.Errorf("%s: %w", showURL(at), u.Err)
		}
		return u.Err
	}
	return err
}
