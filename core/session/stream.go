package session

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
)

// stream is one subscriptions/listen as the notification handler sees it. It is
// guarded by the Signals it is registered with.
type stream struct {
	id      string
	acked   bool
	leaving bool // it has been replaced: its end is no gap
	empty   bool // the server honours nothing; it will end the stream at once
	// ack has room for one: the handler sends the filter that the server
	// honours, at the first acknowledgement only; it is never closed.
	ack chan Filter
	// cancel ends the listen request; why says for what reason if it was not
	// us who ended it.
	cancel func()
	why    string
}

// open registers a stream before its request is sent.
func (g *Signals) open(st *stream) {
	g.mu.Lock()
	g.streams[st.id] = st
	g.mu.Unlock()
}

// forget ends the delivery for a stream. It reports whether its end is a gap:
// the stream had been delivering, and nobody had forgotten it before.
func (g *Signals) forget(st *stream) (gap bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, live := g.streams[st.id]
	delete(g.streams, st.id)
	return live && st.acked && !st.empty && !st.leaving
}

// leave announces that the streams will be hung up. They deliver until then.
func (g *Signals) leave(listens []*listen) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range listens {
		l.stream.leaving = true
	}
}

// reason is why the server ended the stream, if it said so.
func (g *Signals) reason(st *stream) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return st.why
}

// live reports whether the stream is registered.
func (g *Signals) live(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.streams[id]
	return ok
}

// isUntagged reports whether a modern notification lacks its subscription id and
// may do so: on stdio there are servers that know no better.
func (g *Signals) isUntagged(n mcp.JSONRPCNotification, modern bool) bool {
	_, tagged := n.Params.Meta[mcp.MetaKeySubscriptionID]
	return modern && !tagged && g.untagged
}

// admit checks the subscription id of a modern notification. It needs the lock.
func (g *Signals) admit(n mcp.JSONRPCNotification, modern bool) bool {
	if !modern || g.isUntagged(n, modern) {
		return true
	}
	tag := n.Params.Meta[mcp.MetaKeySubscriptionID]
	id, _ := tag.(string)
	st := g.streams[id]
	switch {
	case st == nil:
		g.count(dropForeign, 1)
		return false
	case !st.acked:
		g.count(dropBeforeAck, 1)
		return false
	}
	return true
}

func (g *Signals) acknowledged(n mcp.JSONRPCNotification) {
	id, _ := n.Params.Meta[mcp.MetaKeySubscriptionID].(string)
	var f wireFilter
	raw, err := json.Marshal(n.Params.AdditionalFields["notifications"])
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.streams[id]
	switch {
	case st == nil:
		g.count(dropForeign, 1)
	case err != nil:
		g.count(dropMalformed, 1)
	case !st.acked:
		honoured := Filter(f)
		st.acked, st.empty = true, honoured.Empty()
		st.ack <- honoured
	}
}

// cancelled ends the listen that the server names: its way to end one on stdio.
func (g *Signals) cancelled(n mcp.JSONRPCNotification) {
	id, _ := n.Params.AdditionalFields["requestId"].(string)
	g.mu.Lock()
	st := g.streams[id]
	if st != nil && st.why == "" {
		st.why = "the server cancelled the subscription"
	}
	g.mu.Unlock()
	if st != nil {
		st.cancel()
	}
}
