// Package guarded provides an HTTP client for requests to URLs that an untrusted server chooses, such
// as the metadata of its authorization server or its server card.
//
// A server can make mcptrack send requests to private addresses only if all addresses of the server
// are private; package ipscope decides which addresses are. The check applies to the address that
// is dialled. If the environment specifies a proxy, the check applies to the addresses that this
// machine resolves for the host name, if any, and a server that is reached through a proxy is not
// considered private. Requests must use https, or http to this machine or to the server's own origin.
// Redirects of GET requests are followed within one origin. The size of responses is limited.
package guarded

import (
	"cmp"
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
	// maxAnswer is the maximum size of a response, in bytes.
	maxAnswer = 512 << 10
	// answerTimeout limits the time for one request.
	answerTimeout = 20 * time.Second
	// dialTimeout limits the time for dialling and, separately, for the TLS handshake.
	dialTimeout = 10 * time.Second
	// resolveTimeout limits the time to look up a host name that is not dialled directly.
	resolveTimeout = 5 * time.Second
	// maxRedirects is the maximum number of redirects for one request.
	maxRedirects = 3
)

// Options configures a guard. Only Server is required.
type Options struct {
	// Server is the URL that the user chose. All other URLs are chosen by this server.
	Server string
	// OwnHost means that a private server may refer to no private host but its own. All names and
	// addresses of this machine are one host.
	OwnHost bool
	// Resolver resolves host names. The default is [net.DefaultResolver].
	Resolver *net.Resolver
	// Proxy returns the proxy for a request, or nil if none is used. The default is
	// [http.ProxyFromEnvironment].
	Proxy func(*http.Request) (*url.URL, error)
}

// Guard is an HTTP transport that refuses requests to addresses that an untrusted server must not
// make mcptrack contact, and limits the size of responses. It does not keep connections alive.
type Guard struct {
	server   *url.URL // the URL that the user chose
	ownHost  bool
	private  bool // the server is in a private network, so it may refer to private addresses
	resolver *net.Resolver
	proxy    func(*http.Request) (*url.URL, error)
	direct   *http.Transport // checks the address that it dials
	proxied  *http.Transport // connects through the proxy
}

// New returns the guard for a server. It resolves the server's host name.
func New(ctx context.Context, opts Options) *Guard {
	u, err := url.Parse(opts.Server)
	if err != nil {
		u = new(url.URL)
	}
	g := &Guard{server: u, ownHost: opts.OwnHost, resolver: cmp.Or(opts.Resolver, net.DefaultResolver), proxy: opts.Proxy,
		direct: newTransport(), proxied: newTransport()}
	if g.proxy == nil {
		g.proxy = http.ProxyFromEnvironment
	}
	// The host that a proxy connects to is unknown, so a server behind a proxy is treated as
	// public.
	if by, err := g.proxy(&http.Request{URL: u}); err == nil && by == nil {
		all := g.lookup(ctx, u.Hostname())
		g.private = ipscope.Loopback(u.Hostname()) || len(all) > 0 && !slices.ContainsFunc(all, ipscope.Public)
	}
	g.proxied.Proxy = g.proxy
	g.direct.DialContext = g.DialContext
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

// Client returns an HTTP client for requests to URLs that the server chose.
func (g *Guard) Client() *http.Client {
	return &http.Client{Transport: g, Timeout: answerTimeout, CheckRedirect: checkRedirect}
}

// DialContext connects to an address that the server chose, without a proxy.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// Check the address that is dialled, because a host name may resolve to a different address
	// each time.
	d := net.Dialer{Timeout: dialTimeout, Resolver: g.resolver, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return g.CheckDial(host, address)
	}}
	return d.DialContext(ctx, network, address)
}

// Proxied reports whether requests to a URL go through a proxy. DialContext is not for them.
func (g *Guard) Proxied(u *url.URL) bool {
	by, err := g.proxy(&http.Request{URL: u})
	return err != nil || by != nil
}

// RoundTrip implements [http.RoundTripper].
func (g *Guard) RoundTrip(q *http.Request) (*http.Response, error) {
	if err := g.checkURL(q.URL); err != nil {
		return nil, err
	}
	proxy, err := g.proxy(q)
	if err != nil {
		return nil, errors.New("the proxy specified in the environment is not a URL")
	}
	transport := g.direct
	if proxy != nil {
		// The proxy resolves the host name again. Nevertheless, host names in the private network
		// are not sent to it.
		if err := g.checkName(q.Context(), q.URL.Hostname()); err != nil {
			return nil, err
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

// Check returns the reason why a request to a URL would be refused, or nil. It resolves the host name,
// but sends nothing. A name that cannot be resolved is not refused.
func (g *Guard) Check(ctx context.Context, u *url.URL) error {
	if err := g.checkURL(u); err != nil {
		return err
	}
	return g.checkName(ctx, u.Hostname())
}

// checkURL refuses what is evident from a URL.
func (g *Guard) checkURL(u *url.URL) error {
	host := u.Hostname()
	own := Origin(u.String()) == Origin(g.server.String())
	switch {
	case u.Scheme != "https" && !(u.Scheme == "http" && (own || ipscope.Loopback(host))):
		return fmt.Errorf("%s is not https", ShowURL(u))
	case !g.private && ipscope.Private(host):
		return fmt.Errorf("%s is a private address; a public server must not refer to it", ShowURL(u))
	case g.private && g.ownHost && ipscope.Private(host) && !g.isOwn(host):
		return fmt.Errorf("%s is a private address of another host; a server must not refer to it", ShowURL(u))
	}
	return nil
}

// checkName refuses a name that resolves to an address that must not be dialled.
func (g *Guard) checkName(ctx context.Context, host string) error {
	if g.private && (!g.ownHost || g.isOwn(host)) {
		return nil
	}
	if slices.ContainsFunc(g.lookup(ctx, host), func(addr netip.Addr) bool { return !ipscope.Public(addr) }) {
		return g.refused()
	}
	return nil
}

// isOwn reports whether a host is the server's.
func (g *Guard) isOwn(host string) bool {
	own := g.server.Hostname()
	return strings.EqualFold(host, own) || ipscope.Loopback(host) && ipscope.Loopback(own)
}

var (
	errPrivate = errors.New("the host has a private address; a public server must not refer to it")
	errOther   = errors.New("the host has a private address and is not the server's own; a server must not refer to it")
	errMoved   = errors.New("the server had only private addresses before, and now has a public one")
)

func (g *Guard) refused() error {
	if g.private {
		return errOther
	}
	return errPrivate
}

// CheckDial refuses private addresses, to which the host names that a public server chose may resolve.
// A private server must remain private: otherwise a public server could refer to private addresses by
// briefly resolving to one itself.
func (g *Guard) CheckDial(host, address string) error {
	at, err := netip.ParseAddrPort(address)
	isPublic := err == nil && ipscope.Public(at.Addr())
	switch {
	case !isPublic && (!g.private || g.ownHost && !g.isOwn(host)):
		return g.refused()
	case g.private && isPublic && strings.EqualFold(host, g.server.Hostname()):
		return errMoved
	}
	return nil
}

// lookup returns the addresses of a host, or none if the lookup fails.
func (g *Guard) lookup(ctx context.Context, host string) []netip.Addr {
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
	case Origin(first.URL.String()) != Origin(q.URL.String()):
		return fmt.Errorf("the response redirects to another origin, %s, which is not followed", ShowURL(q.URL))
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

// ShowURL returns a URL without the parts that may be secret.
func ShowURL(u *url.URL) string {
	return printable.Line((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), 200)
}

// WithoutQuery removes the URL's query, which may contain codes and tokens, from an error returned
// by net/http.
func WithoutQuery(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		if at, parseErr := url.Parse(u.URL); parseErr == nil {
			return fmt.Errorf("%s: %w", ShowURL(at), u.Err)
		}
		return u.Err
	}
	return err
}

// Origin returns the scheme, host and port of a URL in lower case, or "" if it is not an absolute URL.
func Origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host)
}
