package gateway

import (
	"context"
	"fmt"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/serve"
)

const (
	maxPerServer = 256            // requests in flight at one server
	maxPending   = 1024           // requests to one server, including those that wait for a slot
	maxRequests  = 4 * maxPending // requests in all: a server that hangs holds at most a quarter
)

// limiter bounds the requests to each server, so that a slow one does not hold up
// requests to others. The zero value is ready to use.
type limiter struct {
	mu       sync.Mutex
	byServer map[string]*serverLimit // servers with pending requests
}

type serverLimit struct {
	users int // requests that have or wait for a slot; guarded by limiter.mu
	// slots is a semaphore: requests send to acquire a slot and receive to release it;
	// never closed.
	slots chan struct{}
}

// acquire waits until a request may be sent to a server. The caller must call release.
func (l *limiter) acquire(ctx context.Context, server string) (release func(), err error) {
	l.mu.Lock()
	if l.byServer == nil {
		l.byServer = map[string]*serverLimit{}
	}
	n := l.byServer[server]
	if n == nil {
		n = &serverLimit{slots: make(chan struct{}, maxPerServer)}
		l.byServer[server] = n
	}
	if n.users == maxPending {
		l.mu.Unlock()
		return nil, &serve.Error{Code: mcp.CodeInternal,
			Message: fmt.Sprintf("server %s is busy: %d requests are pending", printable.Line(server, 128), maxPending)}
	}
	n.users++
	l.mu.Unlock()
	select {
	case n.slots <- struct{}{}:
		return func() { <-n.slots; l.end(server, n) }, nil
	case <-ctx.Done():
		l.end(server, n)
		return nil, context.Cause(ctx)
	}
}

func (l *limiter) end(server string, n *serverLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.byServer, server)
	}
}
