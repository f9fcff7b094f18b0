package session

import (
	"context"
	"fmt"

	"github.com/mcptrack/mcptrack/core/config"
)

// Dial connects to a server and completes the handshake. It gives up when ctx
// ends or after the connect timeout, and leaves nothing behind then. The context
// has no meaning for the session that it returns.
//
// The era is chosen as follows, unless the server's entry fixes it. The legacy
// handshake comes first. Over HTTP it is kept only if the server also opens a
// notification stream; otherwise a server that speaks the modern era is used
// that way, then SSE on the same URL is tried if the entry allows a fallback,
// and last comes a legacy session that cannot push. A remembered modern era
// (Options.Era) turns the order around.
func Dial(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	opts = opts.withDefaults()
	timeout := opts.ConnectTimeout
	if srv.ConnectTimeout > 0 {
		timeout = srv.ConnectTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not connected within %s", timeout))
	defer cancel()
	switch srv.Transport {
	case config.TransportStdio:
		return dialStdio(ctx, srv, opts)
	case config.TransportHTTP:
		return dialHTTP(ctx, srv, opts)
	case config.TransportSSE:
		return dialSSE(ctx, srv, opts)
	}
	return nil, fmt.Errorf("connect: unknown transport %q", srv.Transport)
}

var _ DialFunc = Dial
