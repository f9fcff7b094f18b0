package sessiontest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// clients contains the connections to which the server can send notifications.
type clients struct {
	Untagged bool // send modern notifications without their subscription id

	mu       sync.Mutex
	mute     bool
	peers    map[*peer]struct{}
	sessions map[string]*peer // HTTP legacy and SSE
	serial   int
}

// open creates a session for a peer and returns its id.
func (c *clients) open(kind string, p *peer) (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	id = fmt.Sprintf("%s-%d", kind, c.serial)
	c.sessions[id] = p
	return id
}

// session returns the peer of a session, or nil if the session does not exist.
func (c *clients) session(id string) *peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

// end removes a session and cuts its connection.
func (c *clients) end(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.sessions[id]; p != nil {
		c.cut(p)
	}
	delete(c.sessions, id)
}

// accept marks a peer as legacy. capable reports whether the peer answers requests from the server.
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

// follow subscribes a legacy peer to a URI, or unsubscribes it.
func (c *clients) follow(p *peer, uri string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(p.filter.uris, uri)
	if on {
		p.filter.uris[uri] = struct{}{}
	}
}

// share makes a stream receive the notifications to which its session subscribes.
func (c *clients) share(stream, session *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stream.filter = session.filter // both use the same set of URIs
}

func (c *clients) join(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers[p] = struct{}{}
}

// leave cuts the connection of a peer that has disconnected.
func (c *clients) leave(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut(p)
}

// Disconnect cuts every connection: stdio ends as if the process had exited, and HTTP streams
// break. The server still accepts the sessions.
func (c *clients) Disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutAll()
}

// cutAll cuts all connections. The caller must hold c.mu.
func (c *clients) cutAll() {
	for p := range c.peers {
		c.cut(p)
	}
}

// cut cuts a connection. The caller must hold c.mu.
func (c *clients) cut(p *peer) {
	delete(c.peers, p)
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
}

// ForgetSessions makes the server respond with 404 to all existing sessions, as after a restart,
// and cuts their streams.
func (c *clients) ForgetSessions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.sessions)
	c.cutAll()
}

// ForgetSubscriptions cuts the streams and drops all subscriptions, but the server still accepts
// the sessions. It simulates the silent restart of a server that does not check session ids.
func (c *clients) ForgetSubscriptions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.sessions {
		clear(p.filter.uris)
	}
	c.cutAll()
}

// Subscribed returns the URIs to which any client is subscribed, sorted.
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

// filter contains the subscriptions of a peer or listen.
type filter struct {
	mcp.SubscriptionFilter
	uris map[string]struct{}
}

func (f filter) covers(uri string) bool {
	for u := range f.uris {
		if u == uri || strings.HasPrefix(uri, strings.TrimSuffix(u, "/")+"/") {
			return true
		}
	}
	return false
}

func (f filter) empty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && !f.Events && len(f.uris) == 0
}

// peer is one client connection over which the server can send notifications.
type peer struct {
	stuck   bool // see Fault.Stuck; used by ServeStdio only
	legacy  bool
	capable bool               // legacy only: whether it declared that it answers requests
	filter  filter             // legacy only
	listens map[string]*listen // modern only; keyed by the request id as JSON
	write   func(raw []byte)   // must be safe for concurrent use
	closed  chan struct{}      // closed while clients.mu is held, to cut the connection
}

// listen is one open subscriptions/listen request.
type listen struct {
	filter filter
	acked  bool
	// end receives one value when the request must end: true for a graceful end. It has capacity 1
	// and is never closed.
	end chan bool
}

func newPeer(write func([]byte)) *peer {
	return &peer{listens: map[string]*listen{}, write: write, closed: make(chan struct{}),
		filter: filter{SubscriptionFilter: mcp.SubscriptionFilter{Tools: true, Prompts: true, Resources: true, Events: true}, uris: map[string]struct{}{}}}
}

func (p *peer) send(message any) {
	raw, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	p.write(raw)
}

func (f filter) withSet() filter {
	f.uris = make(map[string]struct{}, len(f.URIs))
	for _, u := range f.URIs {
		f.uris[u] = struct{}{}
	}
	f.URIs = slices.Sorted(maps.Keys(f.uris))
	return f
}

// listen registers a listen that has not been acknowledged yet.
func (c *clients) listen(p *peer, id json.RawMessage, f filter) *listen {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &listen{filter: f, end: make(chan bool, 1)}
	p.listens[string(id)] = l
	return l
}

// acknowledge sends the acknowledgement while it holds the lock, because no notification may be
// sent on the listen before that.
func (c *clients) acknowledge(p *peer, l *listen, message any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.send(message)
	l.acked = true
}

// endListen ends a listen if it is open.
func (c *clients) endListen(p *peer, id json.RawMessage, graceful bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := p.listens[string(id)]; l != nil {
		delete(p.listens, string(id))
		l.end <- graceful
	}
}

// EndListens ends all open listens: gracefully, with a result, or abruptly. On stdio there is no
// stream to cut, so an abrupt end is silent; use CancelListens there instead.
func (c *clients) EndListens(graceful bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.peers {
		for id, l := range p.listens {
			delete(p.listens, id)
			l.end <- graceful
		}
	}
}

// CancelListens ends all open listens with notifications/cancelled.
func (c *clients) CancelListens() {
	type target struct {
		p  *peer
		id string
	}
	var targets []target
	c.mu.Lock()
	for p := range c.peers {
		for id := range p.listens {
			targets = append(targets, target{p, id})
		}
		clear(p.listens)
	}
	c.mu.Unlock()
	for _, t := range targets {
		t.p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled",
			"params": map[string]any{"requestId": json.RawMessage(t.id), "reason": "test"}})
	}
}

// Listens returns the number of open listens.
func (c *clients) Listens() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for p := range c.peers {
		n += len(p.listens)
	}
	return n
}

// NotifyUpdated sends resources/updated to the clients that subscribe to the URI or to a parent of
// it.
func (c *clients) NotifyUpdated(uri string) {
	c.notify("notifications/resources/updated", map[string]any{"uri": uri}, func(f filter) bool { return f.covers(uri) })
}

// Flood sends n updates of uri as fast as clients read.
func (s *Fake) Flood(uri string, n int) {
	for range n {
		s.NotifyUpdated(uri)
	}
}

// NotifyListChanged sends list_changed for the given kind. Templates share the notification with
// resources.
func (c *clients) NotifyListChanged(k catalog.Kind) {
	if k == catalog.Templates {
		k = catalog.Resources
	}
	c.notify("notifications/"+string(k)+"/list_changed", nil, func(f filter) bool {
		return k == catalog.Tools && f.Tools || k == catalog.Prompts && f.Prompts || k == catalog.Resources && f.Resources
	})
}

// NotifyEventsChanged sends list_changed for the event types of MCP Events.
func (c *clients) NotifyEventsChanged() {
	c.notify("notifications/events/list_changed", nil, func(f filter) bool { return f.Events })
}

// Mute makes the server drop all later notifications, like a server whose queues are full.
func (c *clients) Mute(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = on
}

func (c *clients) notify(method string, params map[string]any, wanted func(filter) bool) {
	type target struct {
		p  *peer
		id json.RawMessage
	}
	var targets []target
	c.mu.Lock()
	if !c.mute {
		for p := range c.peers {
			if p.legacy && wanted(p.filter) {
				targets = append(targets, target{p, nil})
			}
			for id, l := range p.listens {
				if l.acked && wanted(l.filter) {
					targets = append(targets, target{p, json.RawMessage(id)})
				}
			}
		}
	}
	untagged := c.Untagged
	c.mu.Unlock()
	for _, t := range targets {
		out := maps.Clone(params)
		if t.id != nil && !untagged {
			if out == nil {
				out = map[string]any{}
			}
			out["_meta"] = map[string]any{"io.modelcontextprotocol/subscriptionId": t.id}
		}
		t.p.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": orEmpty(out)})
	}
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// Broadcast sends a message unchanged to all clients.
func (c *clients) Broadcast(message any) {
	for _, p := range c.everybody() {
		p.send(message)
	}
}

func (c *clients) everybody() []*peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.peers))
}
