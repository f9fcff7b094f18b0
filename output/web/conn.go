package web

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of connections on which no request has passed the checks.
const (
	maxUntrustedPerAddr = 128
	maxUntrusted        = 512
	untrustedTimeout    = 5 * time.Second // for each wait for bytes
)

// maxReserved bounds how many connections are kept free of requests, so that there is always
// room for a new connection: an eighth of all, but not more than this.
const maxReserved = 256

// connSet holds the open connections and enforces their limits.
type connSet struct {
	most        int // connections of all kinds
	mostBusy    int // trusted connections with a request in progress
	mostPerAddr int // such connections from one address; 0: not limited

	mu        sync.Mutex
	open      int                         // connections in the set
	busy      int                         // trusted connections with a request in progress
	untrusted list.List                   // connections on which no request has passed the checks, of *conn, oldest first
	byAddr    map[netip.Prefix]*list.List // the connections in untrusted, by address
	busyOf    map[netip.Prefix]int        // like busy, by address
	idle      list.List                   // trusted connections without a request, of *conn, idle for longest first
	refused   uint64                      // see Stats
	evicted   uint64                      // see Stats
}

// newConnSet returns a set of at most most connections. perAddr says whether the busy
// connections of one address are limited.
func newConnSet(most int, perAddr bool) *connSet {
	s := &connSet{most: most, mostBusy: most - min(most/8, maxReserved), byAddr: map[netip.Prefix]*list.List{}, busyOf: map[netip.Prefix]int{}}
	if perAddr {
		s.mostPerAddr = s.mostBusy * 3 / 4
	}
	return s
}

// conn is one client connection of a connSet. The fields after the empty line are guarded by
// the mutex of the set.
type conn struct {
	net.Conn
	set     *connSet
	addr    netip.Prefix
	local   bool // from this machine, and so possibly a proxy
	trusted atomic.Bool
	used    atomic.Bool // a request has begun

	closed  bool          // it was removed from the set
	busy    bool          // it counts in set.busy
	pending *list.Element // its place in set.untrusted; nil: it is not there
	peer    *list.Element // its place in set.byAddr; nil with pending
	waiting *list.Element // its place in set.idle; nil: it is not there
}

// add admits a new connection, or returns nil if all connections are busy. evict, unless nil, is
// a connection that was removed to make room, which the caller must close.
func (s *connSet) add(nc net.Conn) (c, evict *conn) {
	c = &conn{Conn: nc, set: s, addr: network(nc.RemoteAddr())}
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.local = tcp.IP.IsLoopback()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	same := s.byAddr[c.addr]
	switch {
	case same != nil && same.Len() >= maxUntrustedPerAddr:
		evict = same.Front().Value.(*conn)
	case s.untrusted.Len() >= maxUntrusted, s.open >= s.most && s.untrusted.Len() > 0:
		evict = s.untrusted.Front().Value.(*conn)
	case s.open >= s.most && s.idle.Len() > 0:
		evict = s.idle.Front().Value.(*conn)
	case s.open >= s.most:
		s.refused++
		return nil, nil
	}
	if evict != nil {
		s.evicted++
		evict.remove()
	}
	s.open++
	c.pending = s.untrusted.PushBack(c)
	if same = s.byAddr[c.addr]; same == nil {
		same = list.New()
		s.byAddr[c.addr] = same
	}
	c.peer = same.PushBack(c)
	return c, evict
}

// remove takes a connection out of the set. set.mu must be held.
func (c *conn) remove() {
	if c.closed {
		return
	}
	c.closed = true
	c.set.open--
	c.unlist()
	c.setBusy(false)
}

// setBusy records whether the connection has a request in progress. set.mu must be held.
func (c *conn) setBusy(busy bool) {
	if c.busy == busy {
		return
	}
	c.busy = busy
	of := c.set.busyOf
	if busy {
		c.set.busy++
		of[c.addr]++
		return
	}
	c.set.busy--
	if of[c.addr]--; of[c.addr] == 0 {
		delete(of, c.addr)
	}
}

// unlist removes a connection from the lists of connections that can be evicted. set.mu must
// be held.
func (c *conn) unlist() {
	if c.pending != nil {
		c.set.untrusted.Remove(c.pending)
		same := c.set.byAddr[c.addr]
		if same.Remove(c.peer); same.Len() == 0 {
			delete(c.set.byAddr, c.addr)
		}
		c.pending, c.peer = nil, nil
	}
	if c.waiting != nil {
		c.set.idle.Remove(c.waiting)
		c.waiting = nil
	}
}

// trust is called when a request on the connection has passed all checks. It reports whether
// the request may be served: whether there is room for one more busy connection.
func (c *conn) trust() bool {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closed {
		return true // evicted just now; the response goes nowhere
	}
	limit := s.mostPerAddr
	if limit == 0 || c.local {
		limit = s.mostBusy
	}
	if !c.busy && (s.busy >= s.mostBusy || s.busyOf[c.addr] >= limit) {
		s.refused++
		return false
	}
	c.trusted.Store(true)
	c.unlist()
	c.setBusy(true)
	return true
}

// rest is called when a request has ended and the connection stays open.
func (c *conn) rest() {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	if !c.closed && c.trusted.Load() && c.waiting == nil {
		c.setBusy(false)
		c.waiting = c.set.idle.PushBack(c)
	}
}

// Close closes the connection. It may be called more than once.
func (c *conn) Close() error {
	c.set.mu.Lock()
	c.remove()
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// SetReadDeadline sets the read deadline: at most untrustedTimeout from now while the
// connection is untrusted.
func (c *conn) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(untrustedTimeout); !c.trusted.Load() && (t.IsZero() || t.After(latest)) {
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// closeUnused closes the connections that never carried a request, such as those that
// browsers open in advance. [http.Server.Shutdown] would wait five seconds for them.
func (s *connSet) closeUnused() {
	var unused []*conn
	s.mu.Lock()
	for e := s.untrusted.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); !c.used.Load() {
			unused = append(unused, c)
		}
	}
	s.mu.Unlock()
	for _, c := range unused {
		_ = c.Close()
	}
}

// Stats are counts since New.
type Stats struct {
	Conns   int    // open now
	Evicted uint64 // idle or untrusted connections closed for new ones
	Refused uint64 // new connections, and requests on them, refused because too many were busy
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return Stats{Conns: s.conns.open, Evicted: s.conns.evicted, Refused: s.conns.refused}
}
