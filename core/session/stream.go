package session

import "github.com/mcptrack/mcptrack/core/session/internal/wire"

// stream is the state of one subscriptions/listen for the handling of notifications. The lock
// of the Signals that it is registered with guards it.
type stream struct {
	id      string
	acked   bool
	leaving bool // it has been replaced: its end is not a gap
	silent  bool // it was silent for too long and has to be replaced
	empty   bool // the server honours nothing of the filter and will end the stream at once
	// ack has capacity one: at the first acknowledgement the handler sends the filter that the
	// server honours; it is never closed.
	ack chan Filter
	// cancel ends the listen request; why is the reason, if the server ended it.
	cancel func()
	why    string
}

// open registers a stream before its request is sent.
func (g *Signals) open(st *stream) {
	g.mu.Lock()
	g.streams[st.id] = st
	g.mu.Unlock()
}

// forget unregisters a stream. It reports whether its end is a gap: the stream had been
// acknowledged and was still registered.
func (g *Signals) forget(st *stream) (gap bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, live := g.streams[st.id]
	delete(g.streams, st.id)
	return live && st.acked && !st.empty && !st.leaving
}

// leave marks the streams that will be hung up. They are delivered until then.
func (g *Signals) leave(listens []*listen) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range listens {
		l.stream.leaving = true
	}
}

// reason returns why the server ended the stream; "" if it did not say.
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

// healthy reports whether the stream is registered and has not been silent.
func (g *Signals) healthy(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.streams[id]
	return st != nil && !st.silent
}

// wentSilent notes that no byte came on a stream for [wire.StreamIdle]: the next
// Subscribe replaces it.
func (g *Signals) wentSilent(st *stream) {
	g.mu.Lock()
	due := g.streams[st.id] == st && st.acked && !st.leaving && !st.silent
	st.silent = st.silent || due
	g.mu.Unlock()
	if due {
		g.raiseSilent("the subscription was silent for " + wire.StreamIdle.String())
	}
}

// admit checks the subscription id of a modern notification. g.mu must be held.
func (g *Signals) admit(n *wire.Notification, modern bool) bool {
	if !modern || g.untagged && isUntagged(n, modern) {
		return true
	}
	st := g.streams[n.Meta.Subscription.ID]
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

func (g *Signals) acknowledged(n *wire.Notification) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.streams[n.Meta.Subscription.ID]
	switch {
	case st == nil:
		g.count(dropForeign, 1)
	case n.Malformed:
		g.count(dropMalformed, 1)
	case !st.acked:
		var honoured Filter
		if n.Honoured != nil {
			honoured = Filter{Tools: n.Honoured.Tools, Prompts: n.Honoured.Prompts, Resources: n.Honoured.Resources, Events: n.Honoured.Events, URIs: n.Honoured.URIs}
		}
		st.acked, st.empty = true, honoured.Empty()
		st.ack <- honoured
	}
}

// cancelled ends the listen named in a notifications/cancelled of the server, which is how a
// server ends one on stdio.
func (g *Signals) cancelled(n *wire.Notification) {
	g.mu.Lock()
	st := g.streams[n.RequestID]
	if st != nil && st.why == "" {
		st.why = "the server cancelled the subscription"
	}
	g.mu.Unlock()
	if st != nil {
		st.cancel()
	}
}

// isUntagged reports whether a modern notification lacks its subscription id.
func isUntagged(n *wire.Notification, modern bool) bool {
	return modern && !n.Meta.Subscription.Present
}
