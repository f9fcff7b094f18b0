package webhook

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/ipscope"
)

const (
	maxURL      = 2048
	dialTimeout = 5 * time.Second
	postTimeout = 10 * time.Second
	idleTimeout = 30 * time.Second
	maxHeader   = 64 << 10 // maximum size of response headers in bytes
)

var errNotPublic = errors.New("the address is not public")

// guard decides which addresses may be dialled.
type guard struct {
	open []netip.AddrPort // non-public addresses that a URL may contain; port 0 means all ports
}

// opens reports whether an address and port that appear literally in a URL may be dialled even if
// they are not public.
func (g *guard) opens(hostPort string) bool {
	at, err := netip.ParseAddrPort(hostPort)
	return err == nil && slices.ContainsFunc(g.open, func(o netip.AddrPort) bool {
		return o.Addr() == at.Addr() && (o.Port() == 0 || o.Port() == at.Port())
	})
}

// allows reports whether an address may be dialled.
func (g *guard) allows(ip netip.Addr) bool { return ipscope.Public(ip) }

// control checks the dialled address after name resolution, so that the name cannot resolve to
// another address between the check and the connection.
func (g *guard) control(_ context.Context, _, addr string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !g.allows(at.Addr()) {
		return errNotPublic
	}
	return nil
}

// newClient returns an HTTP client that dials only addresses that the guard allows or opens; with a
// nil guard it dials any address. It uses no proxy, because a proxy would connect without the
// check.
func newClient(g *guard) *http.Client {
	d := &net.Dialer{Timeout: dialTimeout}
	dial := d.DialContext
	if g != nil {
		d.ControlContext = g.control
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if g.opens(addr) { // the URL contains the address itself, not a name
				return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
			}
			return d.DialContext(ctx, network, addr)
		}
	}
	return &http.Client{
		Timeout:       postTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dial, DisableCompression: true, IdleConnTimeout: idleTimeout,
			MaxIdleConnsPerHost: promptPerHost, TLSHandshakeTimeout: dialTimeout,
			MaxResponseHeaderBytes: maxHeader,
		},
	}
}

// checkURL returns an error if a client's URL is rejected. Plain HTTP is accepted only for the open
// addresses and ports of this machine.
func (g *guard) checkURL(raw string) error {
	if len(raw) > maxURL {
		return errors.New("the URL has more than " + strconv.Itoa(maxURL) + " bytes")
	}
	for _, c := range []byte(raw) {
		if c <= ' ' || c > '~' {
			return errors.New("the URL has characters that must be encoded")
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return errors.New("the URL is malformed")
	}
	if u.User != nil || strings.Contains(raw, "#") {
		return errors.New("the URL must have neither credentials nor a fragment")
	}
	if u.Scheme == "http" && g.opens(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), defaultPort(u.Scheme)))) {
		return nil
	}
	if u.Scheme != "https" {
		return errors.New("the URL must start with https://")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n != 443 && n < 1024 {
			return errors.New("the port must be 443 or at least 1024")
		}
	}
	return nil
}
