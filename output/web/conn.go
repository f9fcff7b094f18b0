package web

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/ipscope"
)

// Limits of connections on which no request has passed the checks.
const (
	untrustedTimeout = 5 * time.Second  // for each wait for bytes
	handshakeTimeout = 15 * time.Second // the same, with TLS: handshakes of many take their time
	// Before that time no such connection is closed for a new one: after silentGrace if the client
	// has sent nothing yet, else after begunGrace.
	silentGrace = 250 * time.Millisecond
	begunGrace  = 2 * time.Second
)

// maxReserved bounds how many connections are kept free of requests, so that there is always
// room for a new connection: an eighth of all, but not more than this.
const maxReserved = 256

// connSet holds the open connections and enforces their limits.
type connSet struct {
	patience    time.Duration // for each wait for bytes of an untrusted connection
	most        int           // connections of all kinds
	mostBusy    int           // trusted connections with a request in progress
	mostPerAddr int           // such connections from one address; 0: no connections of one address are limited
	// moved has a value when there may be room since the last call of add.
	// Capacity 1, as the goroutine that accepts is the only one to receive; never closed.
	moved chan struct{}

	mu      sync.Mutex
	open    int                         // connections in the set
	busy    int                         // trusted connections with a request in progress
	silent  list.List                   // untrusted connections that have sent nothing, of *conn, oldest first
	begun   list.List                   // other untrusted ones, of *conn, in the order in which they began to send
	byAddr  map[netip.Prefix]*list.List // the untrusted connections of each address, of *conn, oldest first
	busyOf  map[netip.Prefix]int        // like busy, by address
	idle    list.List                   // trusted connections without a request, of *conn, idle for longest first
	refused uint64                      // see Stats
	evicted uint64                      // see Stats
}

// newConnSet returns a set of at most most connections. perAddr says whether the connections of
// one address are limited.
func newConnSet(most int, perAddr bool) *connSet {
	s := &connSet{patience: untrustedTimeout, most: most, mostBusy: most - min(most/8, maxReserved), moved: make(chan struct{}, 1), byAddr: map[netip.Prefix]*list.List{}, busyOf: map[netip.Prefix]int{}}
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
	quiet   atomic.Bool // the client has sent nothing yet, or nothing since an answer

	closed  bool          // it was removed from the set
	busy    bool          // it counts in set.busy
	since   time.Time     // when it was made, or the client began to send; zero: a request was answered, and the next one has not come
	in      *list.List    // the list of the set with untrusted connections that it is in; nil: none
	pending *list.Element // its place there
	peer    *list.Element // its place in set.byAddr; nil with pending
	waiting *list.Element // its place in set.idle; nil: it is not there
}

func (s *connSet) newConn(nc net.Conn) *conn {
	c := &conn{Conn: nc, set: s, addr: network(nc.RemoteAddr())}
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.local = ipscope.LoopbackAddr(tcp.AddrPort().Addr())
	}
	c.quiet.Store(true)
	return c
}

// add admits a new connection. evict, unless nil, is a connection that was removed to make room,
// which the caller must close. If the new one is not admitted, the caller is to try again after
// wait, or earlier if moved has a value; if wait is 0, all connections are busy.
func (s *connSet) add(c *conn) (admitted bool, evict *conn, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.moved:
	default:
	}
	now := time.Now()
	if same := s.byAddr[c.addr]; same != nil && s.mostPerAddr > 0 && !c.local && same.Len() >= max(1, s.most/2) {
		evict = same.Front().Value.(*conn)
	} else if s.open >= s.most {
		if evict, wait = s.evictable(now); wait > 0 {
			return false, nil, wait
		}
		if evict == nil {
			s.refused++
			return false, nil, 0
		}
	}
	if evict != nil {
		s.evicted++
		evict.remove()
	}
	s.open++
	c.since = now
	c.in = &s.silent
	c.pending = c.in.PushBack(c)
	same := s.byAddr[c.addr]
	if same == nil {
		same = list.New()
		s.byAddr[c.addr] = same
	}
	c.peer = same.PushBack(c)
	return true, evict, 0
}

// evictable returns the connection to remove for a new one, or how long to wait for one. s.mu must
// be held.
func (s *connSet) evictable(now time.Time) (evict *conn, wait time.Duration) {
	for _, of := range []struct {
		in    *list.List
		grace time.Duration
	}{{&s.silent, silentGrace}, {&s.begun, begunGrace}} {
		if of.in.Len() == 0 {
			continue
		}
		oldest := of.in.Front().Value.(*conn)
		left := of.grace - now.Sub(oldest.since)
		if left <= 0 {
			return oldest, 0
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	// Who connects does not take the idle connections of others, unless there are few that connect.
	if s.idle.Len() > 0 && s.silent.Len()+s.begun.Len() <= s.most-s.mostBusy {
		return s.idle.Front().Value.(*conn), 0
	}
	return nil, wait
}

// Read reads from the connection, and notes that the client has begun to send.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.trusted.Load() && c.quiet.Swap(false) {
		c.begin()
	}
	return n, err
}

// begin says that the client has begun to send.
func (c *conn) begin() {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	if c.pending != nil {
		c.in.Remove(c.pending)
		c.since, c.in = time.Now(), &c.set.begun
		c.pending = c.in.PushBack(c)
	}
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
	c.set.hasMoved()
}

// hasMoved wakes the goroutine that waits for room.
func (s *connSet) hasMoved() {
	select {
	case s.moved <- struct{}{}:
	default:
	}
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
		c.in.Remove(c.pending)
		same := c.set.byAddr[c.addr]
		if same.Remove(c.peer); same.Len() == 0 {
			delete(c.set.byAddr, c.addr)
		}
		c.in, c.pending, c.peer = nil, nil, nil
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
	s.hasMoved()
	c.setBusy(true)
	return true
}

// rest is called when a request has ended and the connection stays open.
func (c *conn) rest() {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.closed:
	case c.pending != nil: // it has its answer, so it is the first to make room
		c.in.Remove(c.pending)
		c.since, c.in = time.Time{}, &s.silent
		c.pending = c.in.PushFront(c)
		c.quiet.Store(true)
		s.hasMoved()
	case c.trusted.Load() && c.waiting == nil:
		c.setBusy(false)
		c.waiting = s.idle.PushBack(c)
		s.hasMoved()
	}
}

// Close closes the connection. It may be called more than once.
func (c *conn) Close() error {
	c.set.mu.Lock()
	c.remove()
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// SetReadDeadline sets the read deadline: at most connSet.patience from now while the
// connection is untrusted.
func (c *conn) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(c.set.patience); !c.trusted.Load() && (t.IsZero() || t.After(latest)) {
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// closeUnused closes the connections that never carried a request, such as those that
// browsers open in advance. [http.Server.Shutdown] would wait five seconds for them.
func (s *connSet) closeUnused() {
	var unused []*conn
	s.mu.Lock()
	for _, in := range []*list.List{&s.silent, &s.begun} {
		for e := in.Front(); e != nil; e = e.Next() {
			if c := e.Value.(*conn); !c.used.Load() {
				unused = append(unused, c)
			}
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
