package web

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/nowait"
)

// Limits of untrusted connections, on which no request has passed the checks.
const (
	untrustedTimeout = 5 * time.Second  // for each wait for bytes
	handshakeTimeout = 15 * time.Second // the same with TLS: many simultaneous handshakes are slow
	// An untrusted connection is not closed for a new one before silentGrace if the client has
	// sent nothing yet, or begunGrace if it has begun to send.
	silentGrace = 250 * time.Millisecond
	begunGrace  = 2 * time.Second
)

// maxReserved bounds how many connections are kept free of requests, so that there is always
// room for a new connection: an eighth of all, but not more than this.
const maxReserved = 256

// connSet holds the open connections and enforces their limits.
type connSet struct {
	patience    time.Duration // timeout for each wait for bytes of an untrusted connection
	most        int           // limit on all connections
	mostBusy    int           // limit on trusted connections with a request in progress
	mostPerAddr int           // trusted connections with a request from one network; 0 means no limit
	// moved receives a value when there may be room since the last call of add. Its capacity is
	// 1, since only the goroutine that accepts receives from it. It is never closed.
	moved chan struct{}

	mu      sync.Mutex // guards the fields below and the fields of conn
	open    int        // connections in the set
	busy    int        // trusted connections with a request in progress
	busyOf  map[netip.Prefix]int
	silent  list.List                   // untrusted connections (*conn) that have sent nothing, oldest first
	begun   list.List                   // other untrusted connections (*conn), in the order in which they began to send
	byAddr  map[netip.Prefix]*list.List // untrusted connections (*conn) of each network, oldest first
	idle    list.List                   // trusted connections (*conn) without a request, longest idle first
	refused uint64                      // see Stats
	evicted uint64                      // see Stats
}

// newConnSet returns a set of at most most connections. If perAddr is set, the connections of one
// network are also limited.
func newConnSet(most int, perAddr bool) *connSet {
	s := &connSet{patience: untrustedTimeout, most: most, mostBusy: most - min(most/8, maxReserved), moved: make(chan struct{}, 1), byAddr: map[netip.Prefix]*list.List{}, busyOf: map[netip.Prefix]int{}}
	if perAddr {
		s.mostPerAddr = s.mostBusy * 3 / 4
	}
	return s
}

// conn is one client connection of a connSet.
type conn struct {
	net.Conn
	set     *connSet
	addr    netip.Prefix // see ipscope.Network
	local   bool         // from this machine, and so possibly from a proxy
	trusted atomic.Bool
	used    atomic.Bool // a request has begun
	quiet   atomic.Bool // the client has sent nothing yet, or nothing since the last response

	// Guarded by set.mu:
	closed  bool          // removed from the set
	busy    bool          // counted in set.busy
	since   time.Time     // when it was accepted or began to send; zero if idle after a response
	in      *list.List    // set.silent or set.begun; nil if in neither
	pending *list.Element // its element in that list
	peer    *list.Element // its element in set.byAddr; nil if in neither list
	resting *list.Element // its element in set.idle; nil if not idle
}

func (s *connSet) newConn(nc net.Conn) *conn {
	c := &conn{Conn: nc, set: s}
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		ip := tcp.AddrPort().Addr().Unmap()
		c.addr, c.local = ipscope.Network(ip), ipscope.LoopbackAddr(ip)
	}
	c.quiet.Store(true)
	return c
}

// add admits a new connection. evict, unless nil, was removed to make room; the caller must
// close it. If the new one is not admitted, the caller tries again after wait, or earlier if
// moved has a value; if wait is 0, all connections are busy.
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

// evictable returns the connection to close for a new one, or how long to wait for one. The caller
// must hold s.mu.
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
	// New connections replace idle trusted ones only while few are untrusted.
	if s.idle.Len() > 0 && s.silent.Len()+s.begun.Len() <= s.most-s.mostBusy {
		return s.idle.Front().Value.(*conn), 0
	}
	return nil, wait
}

// Read reads from the connection, and notes when the client begins to send.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.trusted.Load() && c.quiet.Swap(false) {
		c.begin()
	}
	return n, err
}

// begin records that the client has begun to send.
func (c *conn) begin() {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	if c.pending != nil {
		c.in.Remove(c.pending)
		c.since, c.in = time.Now(), &c.set.begun
		c.pending = c.in.PushBack(c)
	}
}

// remove removes the connection from the set. The caller must hold set.mu.
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

// setBusy records whether a request is in progress. The caller must hold set.mu.
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

// unlist removes the connection from the lists of evictable connections. The caller must hold
// set.mu.
func (c *conn) unlist() {
	if c.pending != nil {
		c.in.Remove(c.pending)
		same := c.set.byAddr[c.addr]
		if same.Remove(c.peer); same.Len() == 0 {
			delete(c.set.byAddr, c.addr)
		}
		c.in, c.pending, c.peer = nil, nil, nil
	}
	if c.resting != nil {
		c.set.idle.Remove(c.resting)
		c.resting = nil
	}
}

// trust is called when a request on the connection has passed all checks. It reports whether the
// request may be served, that is, whether the limit on busy connections allows one more.
func (c *conn) trust() bool {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closed {
		return true // just evicted, so no client receives the response
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
	case c.pending != nil: // the client has its response, so this connection may be evicted first
		c.in.Remove(c.pending)
		c.since, c.in = time.Time{}, &s.silent
		c.pending = c.in.PushFront(c)
		c.quiet.Store(true)
		s.hasMoved()
	case c.trusted.Load() && c.resting == nil:
		c.setBusy(false)
		c.resting = s.idle.PushBack(c)
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

// SetReadDeadline sets the read deadline. While the connection is untrusted, the deadline is at
// most connSet.patience from now.
func (c *conn) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(c.set.patience); !c.trusted.Load() && (t.IsZero() || t.After(latest)) {
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// closeUnused closes the connections that never carried a request, such as those that browsers
// open in advance. [http.Server.Shutdown] would wait five seconds for them.
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

// Stats contains counts since New.
type Stats struct {
	Conns   int    // currently open connections
	Evicted uint64 // idle or untrusted connections closed for new ones
	Refused uint64 // new connections, and requests, refused because too many were busy
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return Stats{Conns: s.conns.open, Evicted: s.conns.evicted, Refused: s.conns.refused}
}

// limitedListener adds accepted connections to a set, and closes those for which the set has no
// room.
type limitedListener struct {
	net.Listener
	set    *connSet
	closed chan struct{} // closed by Close
	once   sync.Once
}

// Accept accepts the next connection. While there is no room, further connections wait in the
// queue of the operating system.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := l.set.newConn(nowait.Conn(nc))
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

// await waits until there may be room. It returns false if the listener was closed.
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

// connKey is the context key of the *conn of a request.
type connKey struct{}

func connContext(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, unwrap(nc))
}

// connState is called by net/http when a request begins, and when the connection becomes idle
// after the response.
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
