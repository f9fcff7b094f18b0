package login

import (
	"context"
	"net"
	"net/http"
	"net/url"
)

// NewClient is what requests for metadata and tokens are made with.
var NewClient = newGuardedClient

// NewClientIn is NewClient with other names and proxies than those of this machine. check is
// asked before the address of a host is dialled directly.
func NewClientIn(ctx context.Context, server string, names *net.Resolver, proxy func(*http.Request) (*url.URL, error)) (client *http.Client, check func(host, address string) error) {
	g := newGuard(ctx, server, names, proxy)
	return g.client(), g.checkDial
}
