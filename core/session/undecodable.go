package session

import (
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// undecodableInterval is the least time between two gaps caused by undecodable messages.
const undecodableInterval = 5 * time.Second

// undecodable limits how often undecodable messages raise a gap.
type undecodable struct {
	mu      sync.Mutex // guards all below
	last    time.Time  // when the last gap was raised
	planned bool       // another one will be raised
}

// plan returns how long to wait before raising a gap; false if one is planned already.
func (u *undecodable) plan(now time.Time) (time.Duration, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.planned {
		return 0, false
	}
	u.planned = true
	return max(0, u.last.Add(undecodableInterval).Sub(now)), true
}

// raised notes that the planned gap is raised now.
func (u *undecodable) raised(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last, u.planned = now, false
}

// undecodable handles bytes that began like a message but could not be decoded. They may have
// been a notification, so a gap is raised: at once, or at least undecodableInterval after the
// last one.
func (s *Session) undecodable() {
	s.signals.drop(DroppedUndecodable, 1)
	wait, ok := s.garbled.plan(time.Now())
	if !ok {
		return
	}
	raise := func() {
		s.garbled.raised(time.Now())
		s.signals.raiseGap("the server sent something that cannot be decoded")
	}
	if wait == 0 {
		raise()
		return
	}
	s.wg.Go(func() {
		if backoff.Sleep(s.ctx, wait) {
			raise()
		}
	})
}
