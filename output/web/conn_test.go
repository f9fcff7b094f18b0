package web

import (
	"net"
	"testing"
)

// from is a connection from an address.
type from struct {
	net.Conn
	addr string
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.addr), Port: 1} }
func (f from) Close() error         { return nil }

// Clients that pass the checks cannot occupy all connections. One address cannot occupy all
// that remain, unless it stands for many clients.
func TestBusyConnectionsOfOneAddress(t *testing.T) {
	t.Parallel()
	take := func(s *connSet, addr string) (conns []*conn) {
		for range 1000 {
			c := s.newConn(from{addr: addr})
			admitted, evict, _ := s.add(c)
			if evict != nil {
				t.Fatal("evicted")
			}
			if !admitted || !c.trust() {
				return conns
			}
			conns = append(conns, c)
		}
		t.Fatal("no limit")
		return nil
	}
	s := newConnSet(400, true)
	first := take(s, "192.0.2.1")
	second := take(s, "192.0.2.2")
	if len(first) != 262 || len(second) != 88 {
		t.Errorf("%d connections of one address and %d of another", len(first), len(second))
	}
	if admitted, evict, _ := s.add(s.newConn(from{addr: "192.0.2.3"})); !admitted || evict != nil {
		t.Error("there is no room for a health check")
	}
	first[0].rest() // between requests
	if len(take(s, "192.0.2.3")) != 1 {
		t.Error("an idle connection does not make room")
	}
	for _, c := range append(first, second...) {
		_ = c.Close()
	}
	if len(s.busyOf) != 1 || s.busy != 1 {
		t.Errorf("%d busy connections of %d addresses are left", s.busy, len(s.busyOf))
	}
	for addr, proxy := range map[string]bool{"192.0.2.1": true, "127.0.0.1": false, "::1": false} {
		if n := len(take(newConnSet(400, !proxy), addr)); n != 350 {
			t.Errorf("%d connections of %s", n, addr)
		}
	}
}
