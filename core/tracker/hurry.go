package tracker

import "time"

const (
	// hurryAfter is the least time between a failure and an attempt that a request waits
	// for.
	hurryAfter = 250 * time.Millisecond
	// maxHurried is how many attempts a minute may be made because requests wait: a server
	// that ends at every request is not to be started without a pause.
	maxHurried = 10
)

// Hasten has a server that is to be connected again tried soon, because a request waits
// for it. The attempts that are planned stay where they are. A server that asked to wait
// is not hastened.
func (t *Tracker) Hasten(server string) {
	t.mu.Lock()
	w := t.workers[server]
	t.mu.Unlock()
	if w == nil {
		return
	}
	select {
	case w.hasten <- struct{}{}:
	default:
	}
}

// hurry limits the attempts that are made sooner than planned.
type hurry struct {
	until time.Time   // when the attempt was planned
	asked bool        // by the server
	made  []time.Time // within the last minute
}

// left returns how long it is until the attempt that was planned; not positive: it was
// made.
func (h *hurry) left(now time.Time) time.Duration {
	if h.until.IsZero() {
		return 0
	}
	return h.until.Sub(now)
}

// allow reports whether an attempt may be made sooner, and counts it.
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
