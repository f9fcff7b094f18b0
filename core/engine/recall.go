package engine

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
)

// recalled is what the log has of a server: what it said of itself when it was last connected, and its lists.
type recalled struct {
	handshake json.RawMessage
	lists     map[catalog.Kind]catalog.List
}

// maxRecall limits how long the log is read for one server.
const maxRecall = 2 * time.Second

// Recall reads from the log what a server last offered, so that a tracker that connects on demand need
// not connect the server to know it. It is called before the server is applied, and does nothing if the
// tracker knows the server or the log lacks a part.
func (e *Engine) Recall(ctx context.Context, server string) {
	if e.memory == nil || e.tracker.Knows(server) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxRecall)
	defer cancel()
	e.memory.recall(ctx, server)
}

func (m *memory) recall(ctx context.Context, server string) {
	m.mu.Lock()
	var stored map[catalog.Kind]catalog.List
	if p := m.known[server]; p != nil {
		stored = maps.Clone(p.lists)
	}
	m.mu.Unlock()
	r := recalled{lists: map[catalog.Kind]catalog.List{}}
	if handshake := stored[journal.Handshake]; len(handshake) == 1 {
		r.handshake = m.definition(ctx, handshake[0].Digest)
	}
	if r.handshake == nil {
		return
	}
	for _, k := range catalog.Kinds() {
		list := make(catalog.List, len(stored[k]))
		for i, it := range stored[k] {
			var err error
			if list[i], err = catalog.NewItem(k, m.definition(ctx, it.Digest)); err != nil {
				return
			}
		}
		r.lists[k] = list
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recalled[server] = r
}

// definition returns a stored definition exactly as it was, or nil: secrets may have been redacted in it.
func (m *memory) definition(ctx context.Context, d catalog.Digest) json.RawMessage {
	text, _, err := m.log.Contents().Get(ctx, d)
	if is, bad := catalog.Fingerprint(json.RawMessage(text)); err != nil || bad != nil || is != d {
		return nil
	}
	return json.RawMessage(text)
}

// take returns what recall has read of a server, once.
func (m *memory) take(server string) (handshake json.RawMessage, lists map[catalog.Kind]catalog.List) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.recalled[server]
	delete(m.recalled, server)
	return r.handshake, r.lists
}
