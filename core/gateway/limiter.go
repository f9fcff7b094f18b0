package gateway

import (
	"context"
	"fmt"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	maxPerServer = 256            // requests in flight at one server
	maxPending   = 1024           // requests to one server, including those that wait for a slot
	maxRequests  = 4 * maxPending // requests in all: a server that hangs holds at most a quarter
)

// limiter bounds the requests to each server, so that a slow one does not hold up
// requests to others, nor one client those of others (see package fair). The zero value is
// ready to use.
type limiter struct {
	mu       sync.Mutex
	byServer map[string]*serverLimit // servers with pending requests
}

type serverLimit struct {
	users fair.Limit // requests that have or wait for a slot; guarded by limiter.mu
	slots *fair.Slots
}

// acquire waits until a request of a principal may be sent to a server. The caller must call
// release.
func (l *limiter) acquire(ctx context.Context, server, principal string) (release func(), err error) {
	l.mu.Lock()
	if l.byServer == nil {
		l.byServer = map[string]*serverLimit{}
	}
	n := l.byServer[server]
	if n == nil {
		n = &serverLimit{users: fair.Limit{Max: maxPending}, slots: fair.NewSlots(maxPerServer)}
		l.byServer[server] = n
	}
	pending := n.users.All()
	room := n.users.Take(principal)
	l.mu.Unlock()
	if !room {
		return nil, &mcpserver.Error{Code: mcp.CodeInternal,
			Message: fmt.Sprintf("server %s is busy: %d requests are pending", printable.Line(server, 128), pending)}
	}
	slot := n.slots.Take(principal)
	release = func() {
		slot.Give()
		l.end(server, principal, n)
	}
	select {
	case <-slot.Ready():
		return release, nil
	case <-ctx.Done():
		release()
		return nil, context.Cause(ctx)
	}
}

func (l *limiter) end(server, principal string, n *serverLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users.Give(principal); n.users.All() == 0 {
		delete(l.byServer, server)
	}
}
