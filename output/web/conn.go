package web

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/nowait"
)

// conns contains the open connections of a server and enforces the limits on them. A new connection beyond
// a limit is closed.
type conns struct {
	most        int
	mostPerAddr int // connections from one network; 0 means no limit
	logger      *slog.Logger
	reached     sync.Once // a limit was reached and logged

	mu     sync.Mutex
	used   map[net.Conn]bool // the open connections; false if no request has begun
	byAddr map[netip.Prefix]int
}

func newConns(opts Options) *conns {
	c := &conns{most: opts.MaxConns, logger: opts.Logger, used: map[net.Conn]bool{}, byAddr: map[netip.Prefix]int{}}
	if !opts.TrustProxy {
		c.mostPerAddr = max(1, opts.MaxConns/2)
	}
	return c
}

// changed is the ConnState of the [http.Server].
func (c *conns) changed(nc net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if !c.add(nc) {
			c.reached.Do(func() {
				c.logger.Warn("a connection was closed because too many are open; further ones are closed without a message", "limit", c.most, "perAddress", c.mostPerAddr)
			})
			_ = nc.Close()
		}
	case http.StateActive:
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, open := c.used[nc]; open {
			c.used[nc] = true
		}
	case http.StateClosed, http.StateHijacked:
		c.remove(nc)
	}
}

// add reports whether the limits allow another connection.
func (c *conns) add(nc net.Conn) bool {
	from, limit := c.network(nc)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.used) >= c.most || limit > 0 && c.byAddr[from] >= limit {
		return false
	}
	c.used[nc] = false
	c.byAddr[from]++
	return true
}

func (c *conns) remove(nc net.Conn) {
	from, _ := c.network(nc)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.used[nc]; !open {
		return
	}
	delete(c.used, nc)
	if c.byAddr[from]--; c.byAddr[from] == 0 {
		delete(c.byAddr, from)
	}
}

// network returns the network of a client and the limit on its connections. Connections from this machine
// have no limit of their own, because they may come from a proxy.
func (c *conns) network(nc net.Conn) (from netip.Prefix, limit int) {
	at, _ := netip.ParseAddrPort(nc.RemoteAddr().String())
	ip := at.Addr().Unmap()
	if !ipscope.LoopbackAddr(ip) {
		limit = c.mostPerAddr
	}
	return ipscope.Network(ip), limit
}

// closeUnused closes the connections that never carried a request, such as those that browsers
// open in advance. [http.Server.Shutdown] would wait five seconds for them.
func (c *conns) closeUnused() {
	var unused []net.Conn
	c.mu.Lock()
	for nc, used := range c.used {
		if !used {
			unused = append(unused, nc)
		}
	}
	c.mu.Unlock()
	for _, nc := range unused {
		_ = nc.Close()
	}
}

// listener returns connections that read and write as package nowait does.
type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return nowait.Conn(nc), nil
}
