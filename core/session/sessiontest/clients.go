package sessiontest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// clients are the connections that notifications can go to.
type clients struct {
	Untagged bool // modern notifications lack their subscription id

	mu       sync.Mutex
	mute     bool
	peers    map[*peer]struct{}
	sessions map[string]*peer // HTTP legacy and SSE
	serial   int
}

// open makes a session for a peer and returns its id.
func (c *clients) open(kind string, p *peer) (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	id = fmt.Sprintf("%s-%d", kind, c.serial)
	c.sessions[id] = p
	return id
}

// session returns the peer of a session, or nil.
func (c *clients) session(id string) *peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

// end forgets a session and cuts its connection.
func (c *clients) end(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.sessions[id]; p != nil {
		c.cut(p)
	}
	delete(c.sessions, id)
}

// accept marks a peer as one of the legacy era, which can be asked something or not.
func (c *clients) accept(p *peer, capable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.legacy, p.capable = true, capable
}

func (c *clients) isCapable(p *peer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.capable
}

// follow adds a URI to what a legacy peer is notified of, or removes it.
func (c *clients) follow(p *peer, uri string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(p.filter.uris, uri)
	if on {
		p.filter.uris[uri] = struct{}{}
	}
}

// share makes a stream get what its session subscribes to.
func (c *clients) share(stream, session *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stream.filter = session.filter // with the set of URIs
}

func (c *clients) join(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers[p] = struct{}{}
}

// leave cuts the connection of a peer that ended.
func (c *clients) leave(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut(p)
}

// Disconnect cuts every connection: stdio ends as if the process had exited,
// HTTP streams break off. Sessions stay known.
func (c *clients) Disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.peers {
		c.cut(p)
	}
}

// cut cuts a connection. c.mu must be held.
func (c *clients) cut(p *peer) {
	delete(c.peers, p)
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
}

// ForgetSessions makes the server answer 404 to all sessions that exist, as
// after a restart, and cuts their streams.
func (c *clients) ForgetSessions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.sessions)
	for p := range c.peers {
		c.cut(p)
	}
}

// ForgetSubscriptions cuts the streams and forgets what was subscribed, but goes
// on to accept the sessions: the silent restart of a server that checks no ids.
func (c *clients) ForgetSubscriptions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.sessions {
		clear(p.filter.uris)
	}
	for p := range c.peers {
		c.cut(p)
	}
}

// Subscribed returns the URIs that anybody is subscribed to, sorted.
func (c *clients) Subscribed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]struct{}{}
	for p := range c.peers {
		maps.Copy(all, p.filter.uris)
		for _, l := range p.listens {
			maps.Copy(all, l.filter.uris)
		}
	}
	return slices.Sorted(maps.Keys(all))
}
