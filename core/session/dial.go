package session

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
)

// Dial connects to a server and completes the handshake. It gives up when ctx ends or after the
// connect timeout, and then leaves nothing behind. ctx does not bound the session that Dial
// returns. If the server needs something that this machine lacks, or the user has not approved
// its entry, the error is the one of [config.Server.Unusable] and nothing is tried.
//
// The era is chosen as basic/versioning of 2026-07-28 says, unless the server's entry fixes it:
// server/discover comes first. If its answer is not one that only a modern server gives, or there
// is none within 5 s, or a child exits, the legacy handshake follows, over HTTP in the end that of
// SSE on the same URL if the entry allows a fallback. A version that the server names instead of
// ours is used in the same process. If Options.Era is legacy, the legacy handshake comes first.
func Dial(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	if err := srv.Unusable(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	timeout := opts.ConnectTimeout
	if srv.ConnectTimeout > 0 {
		timeout = srv.ConnectTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not connected within %s%s", timeout, slowStart(srv)))
	defer cancel()
	switch srv.Transport {
	case config.TransportStdio:
		return dialStdio(ctx, srv, opts)
	case config.TransportHTTP:
		return dialHTTP(ctx, srv, opts)
	case config.TransportSSE:
		return dialSSE(ctx, srv, opts)
	}
	return nil, fmt.Errorf("unknown transport %q", srv.Transport)
}

var _ DialFunc = Dial

// slowStart explains why a program that downloads its server may need longer; it returns "" for
// other programs.
func slowStart(srv config.Server) string {
	if srv.Transport != config.TransportStdio {
		return ""
	}
	program := strings.ToLower(filepath.Base(srv.Command))
	program = strings.TrimSuffix(strings.TrimSuffix(program, ".exe"), ".cmd")
	switch program {
	case "npx", "uvx", "bunx", "pnpx", "pipx", "uv", "npm", "pnpm", "yarn", "bun", "deno", "docker", "podman":
		return ": " + program + " may still be downloading; raise connectTimeout"
	}
	return ""
}
