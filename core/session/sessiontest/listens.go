package sessiontest

import "encoding/json"

// listen registers a listen that is not acknowledged yet.
func (c *clients) listen(p *peer, id json.RawMessage, f filter) *listen {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &listen{filter: f, end: make(chan bool, 1)}
	p.listens[string(id)] = l
	return l
}

// acknowledge sends the acknowledgement under the lock: the listen must not be used
// before its client knows it.
func (c *clients) acknowledge(p *peer, l *listen, message any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.send(message)
	l.acked = true
}

// endListen ends one listen if it is open.
func (c *clients) endListen(p *peer, id json.RawMessage, graceful bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := p.listens[string(id)]; l != nil {
		delete(p.listens, string(id))
		l.end <- graceful
	}
}

// EndListens ends all open listens: gracefully, with the completing result, or
// abruptly. On stdio, where there is no stream to cut, an abrupt end is silence:
// use CancelListens there.
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

// Listens returns how many listens are open.
func (c *clients) Listens() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for p := range c.peers {
		n += len(p.listens)
	}
	return n
}
