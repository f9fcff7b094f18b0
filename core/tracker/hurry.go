package tracker

import "time"

const (
	// hurryAfter is the least time between a failure and an early attempt to connect, made
	// because a request waits for the server.
	hurryAfter = 250 * time.Millisecond
	// maxHurried bounds the early attempts per minute: a server that exits at every request
	// must not be restarted without a pause.
	maxHurried = 10
)

// Hasten makes the tracker connect soon to a server that is waiting to be reconnected, because
// a request waits for it. The planned attempts stay as they are. If the server asked for the
// wait, nothing is changed.
func (t *Tracker) Hasten(server string) {
	t.signal(server, func(w *worker) chan<- struct{} { return w.hasten })
}

// hurry limits the attempts to connect that are made earlier than planned.
type hurry struct {
	until time.Time   // when the next attempt is planned
	asked bool        // the server asked for this wait
	made  []time.Time // the early attempts within the last minute
}

// left returns the time until the planned attempt; not positive: it has been made.
func (h *hurry) left(now time.Time) time.Duration {
	if h.until.IsZero() {
		return 0
	}
	return h.until.Sub(now)
}

// allow reports whether an early attempt may be made, and counts it.
func (h *hurry) allow(now time.Time) bool {
	for len(h.made) > 0 && now.Sub(h.made[0]) >= time.Minute {
		h.made = h.made[1:]
	}
	if h.asked || len(h.made) >= maxHurried {
		return false
	}
	h.made = append(h.made, now)
	return true
}
