package login

import (
	"context"
	"net"
	"net/http"
	"net/url"
)

// NewClient returns the HTTP client for metadata and tokens.
var NewClient = newGuardedClient

// NewClientIn is NewClient with a different resolver and proxy. check is called before the address
// of a host is dialled directly.
func NewClientIn(ctx context.Context, server string, names *net.Resolver, proxy func(*http.Request) (*url.URL, error)) (client *http.Client, check func(host, address string) error) {
	g := newGuard(ctx, server, names, proxy)
	return g.client(), g.checkDial
}
