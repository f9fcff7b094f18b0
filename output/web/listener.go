package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// limitedListener adds the connections that it accepts to a set, and closes those for which
// the set has no room.
type limitedListener struct {
	net.Listener
	set    *connSet
	closed chan struct{} // closed by Close
	once   sync.Once
}

func newLimitedListener(ln net.Listener, set *connSet) *limitedListener {
	return &limitedListener{Listener: ln, set: set, closed: make(chan struct{})}
}

// Accept accepts the next connection. While there is no room, the others wait in the queue of the
// operating system.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := l.set.newConn(nc)
		for {
			admitted, evict, wait := l.set.add(c)
			if evict != nil {
				_ = evict.Conn.Close()
			}
			if admitted {
				return c, nil
			}
			if wait == 0 || !l.await(wait) {
				_ = nc.Close()
				break
			}
		}
	}
}

// await waits until there may be room; false: the listener was closed.
func (l *limitedListener) await(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.set.moved:
	case <-l.closed:
		return false
	}
	return true
}

// Close ends Accept.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type connKey struct{}

// connContext puts the connection into the context of its requests, under connKey.
func connContext(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, unwrap(nc))
}

// connState is called by net/http when a request begins, and when the connection becomes
// idle after the response.
func connState(nc net.Conn, state http.ConnState) {
	c := unwrap(nc)
	switch {
	case c == nil:
	case state == http.StateActive:
		c.used.Store(true)
	case state == http.StateIdle:
		c.rest()
	}
}

func unwrap(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

// network returns the IP address in addr, for IPv6 its /64 network.
func network(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return prefix(tcp.AddrPort().Addr())
}

func prefix(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // never fails: the length is valid
	return p
}
