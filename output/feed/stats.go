package feed

import "sync/atomic"

// reason is why a stream ended.
type reason string

const (
	gone     reason = "gone"     // the client disconnected
	slow     reason = "slow"     // the client did not accept a write in time
	overrun  reason = "overrun"  // the ring dropped frames that the client had not taken yet
	ended    reason = "stopped"  // the hub was shut down
	replaced reason = "replaced" // the log was replaced by a new one
	failed   reason = "failed"   // the log could not be read
)

func reasons() []reason { return []reason{gone, slow, overrun, ended, replaced, failed} }

// counts are the counters that Stats reports.
type counts struct {
	accepted, refused, sent, replayed, gaps atomic.Uint64
	gone, slow, overrun, ended, replaced    atomic.Uint64
	failed                                  atomic.Uint64
}

func (c *counts) of(r reason) *atomic.Uint64 {
	switch r {
	case gone:
		return &c.gone
	case slow:
		return &c.slow
	case overrun:
		return &c.overrun
	case ended:
		return &c.ended
	case replaced:
		return &c.replaced
	}
	return &c.failed
}

func (c *counts) closed(r reason) { c.of(r).Add(1) }

// Stats are counts since New.
type Stats struct {
	Clients  int    // streams open now
	Accepted uint64 // streams opened
	Refused  uint64 // requests refused beyond MaxClients, or while shutting down
	Sent     uint64 // events sent live, counted for every client
	Replayed uint64 // events sent from history
	Gaps     uint64 // clients that got a gap first, as events that they asked for had expired
	// Closed counts the streams that ended, by reason: "gone" (the client disconnected),
	// "slow" (it did not accept a write in time), "overrun" (it read too slowly to follow),
	// "stopped" (the hub shut down), "replaced" (the log was replaced by a new one) and
	// "failed" (the log could not be read). Every reason is a key, even with count 0.
	Closed map[string]uint64
}

// Stats returns the counts.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	clients := len(h.clients)
	h.mu.Unlock()
	s := Stats{
		Clients: clients, Accepted: h.counts.accepted.Load(), Refused: h.counts.refused.Load(),
		Sent: h.counts.sent.Load(), Replayed: h.counts.replayed.Load(), Gaps: h.counts.gaps.Load(),
		Closed: map[string]uint64{},
	}
	for _, r := range reasons() {
		s.Closed[string(r)] = h.counts.of(r).Load()
	}
	return s
}

// Last returns the id of the newest event that is visible to clients, so that one can take a
// snapshot and then stream events from that id on. epoch is "" before the log is open.
func (h *Hub) Last() (epoch string, seq uint64) {
	r := h.current()
	if r == nil {
		return "", 0
	}
	next, _ := r.position()
	return r.epoch, max(next, 1) - 1
}
