package webhook

import (
	"sync/atomic"
	"time"
)

// counts count since New.
type counts struct {
	taken, dropped, failed, gaveUp, gaps, terminated atomic.Uint64
}

func (c *counts) note(r Result) {
	switch {
	case r.Err != "":
		c.failed.Add(1)
	case r.Drop:
		c.dropped.Add(1)
	default:
		c.taken.Add(1)
	}
}

// Stats are the state and the counts of webhooks.
type Stats struct {
	Active, Suspended int // subscriptions
	// Attempts by outcome: events that were taken, those that the endpoint did not want,
	// and attempts that failed.
	Taken, Dropped, Failed uint64
	GaveUp                 uint64 // events after their last attempt
	Gaps, Terminated       uint64 // messages
	// Lag is the age of the oldest event that some endpoint has not taken yet.
	Lag time.Duration
}

func (c *counts) stats() Stats {
	return Stats{Taken: c.taken.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load(), GaveUp: c.gaveUp.Load(), Gaps: c.gaps.Load(), Terminated: c.terminated.Load()}
}

// behind takes the oldest event into account that an endpoint has not taken; zero: none.
func (s *Stats) behind(oldest time.Time) {
	if !oldest.IsZero() {
		s.Lag = max(s.Lag, time.Since(oldest))
	}
}

// Stats returns the current state.
func (s *Subscriptions) Stats() Stats {
	out := s.counts.stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byID {
		if sub.suspended() {
			out.Suspended++
			continue
		}
		out.Active++
		out.behind(sub.oldest)
	}
	return out
}

// rates are the attempts of the last hour, in parts of ten minutes.
type rates struct {
	parts [6]struct {
		since       time.Time
		all, failed int
	}
}

const ratePart = 10 * time.Minute

func (r *rates) note(now time.Time, failed bool) {
	since := now.Truncate(ratePart)
	p := &r.parts[int(since.Unix()/int64(ratePart/time.Second))%len(r.parts)]
	if !p.since.Equal(since) {
		p.since, p.all, p.failed = since, 0, 0
	}
	p.all++
	if failed {
		p.failed++
	}
}

// hopeless reports whether more than 95 % of at least 100 attempts failed.
func (r *rates) hopeless(now time.Time) bool {
	all, failed := 0, 0
	for _, p := range r.parts {
		if now.Sub(p.since) < time.Hour {
			all, failed = all+p.all, failed+p.failed
		}
	}
	return all >= 100 && failed*100 > all*95
}
