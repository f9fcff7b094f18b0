package gateway

import (
	"context"
	"fmt"
	"sync"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/serve"
)

const (
	// laneWidth is how many requests are under way at one server, laneLength how
	// many there are with those that wait for their turn. A server that hangs has so
	// many of the places that there are for requests, which is a quarter of them.
	laneWidth  = 256
	laneLength = 1024
	places     = 4 * laneLength
)

// lanes keep the requests to one server out of the way of those to others. The zero
// value is ready.
type lanes struct {
	mu sync.Mutex
	by map[string]*lane // those in use
}

type lane struct {
	users int // guarded by lanes.mu
	// width has a slot for each request under way, which its own goroutine takes and
	// gives back.
	width chan struct{}
}

// enter waits for a request's turn at a server; leave ends it.
func (l *lanes) enter(ctx context.Context, server string) (leave func(), err error) {
	l.mu.Lock()
	if l.by == nil {
		l.by = map[string]*lane{}
	}
	n := l.by[server]
	if n == nil {
		n = &lane{width: make(chan struct{}, laneWidth)}
		l.by[server] = n
	}
	if n.users == laneLength {
		l.mu.Unlock()
		return nil, &serve.Error{Code: serve.CodeInternal,
			Message: fmt.Sprintf("server %s is busy: %d requests wait for it", printable.Line(server, 128), laneLength)}
	}
	n.users++
	l.mu.Unlock()
	select {
	case n.width <- struct{}{}:
		return func() { <-n.width; l.end(server, n) }, nil
	case <-ctx.Done():
		l.end(server, n)
		return nil, context.Cause(ctx)
	}
}

func (l *lanes) end(server string, n *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.by, server)
	}
}
