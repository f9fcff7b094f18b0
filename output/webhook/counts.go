package webhook

import (
	"sync/atomic"
	"time"
)

// counts are the totals since New.
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
	// Attempts to deliver an event, by outcome: the endpoint accepted it (Taken), did not want
	// it (Dropped: status 410 or 413), or the attempt failed.
	Taken, Dropped, Failed uint64
	GaveUp                 uint64 // events given up after the last attempt
	Gaps, Terminated       uint64 // gap messages, and messages that a subscription has ended
	// Lag is the age of the oldest event that is still undelivered to some endpoint.
	Lag time.Duration
}

func (c *counts) stats() Stats {
	return Stats{Taken: c.taken.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load(), GaveUp: c.gaveUp.Load(), Gaps: c.gaps.Load(), Terminated: c.terminated.Load()}
}

// behind raises Lag to the age of oldest, the time of an endpoint's oldest undelivered event;
// zero: there is none.
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

// rates counts the attempts of the last hour, in six intervals of ten minutes each.
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
