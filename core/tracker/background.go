package tracker

import (
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

const (
	// minSafetyTick is the least time between two safety reads, or groups of them.
	minSafetyTick = time.Second
	// sweepTick and sweepSize are the rate of a sweep: 20 resources per second.
	sweepTick = 100 * time.Millisecond
	sweepSize = 2
	// sweepPause is the least time between the starts of two sweeps, which read every resource
	// once.
	sweepPause = 10 * time.Second
)

// background re-reads resources without an announcement, at a rate that hardly loads the
// server. Safety reads check every resource once per interval, because servers do not push all
// updates that they claim to push. A sweep checks every resource once, because the server
// announced that its list of resources changed: a resource that was removed and added again
// since looks the same in the list.
type background struct {
	nextSafety time.Time // zero: no safety reads
	nextSweep  time.Time // zero: no sweep was requested
	left       int       // resources that the running sweep still has to check
	again      bool      // a sweep was requested after the last one began
	began      time.Time // when the last sweep began
}

// sweep requests a sweep.
func (b *background) sweep(now time.Time) {
	if b.left > 0 {
		b.again = true
		return
	}
	if b.nextSweep.IsZero() {
		b.nextSweep = later(now, b.began.Add(sweepPause))
	}
}

// wakeAt returns when advance has something to do, zero if never.
func (b *background) wakeAt() time.Time {
	if b.nextSweep.IsZero() || !b.nextSafety.IsZero() && b.nextSafety.Before(b.nextSweep) {
		return b.nextSafety
	}
	return b.nextSweep
}

// advance queues the reads that are due. interval is that of the safety reads; zero: none.
func (b *background) advance(now time.Time, interval time.Duration, co *coalesce.Coalescer) {
	b.safetyReads(now, interval, co)
	if b.nextSweep.IsZero() || now.Before(b.nextSweep) {
		return
	}
	if b.left == 0 {
		b.left, b.began, b.again = co.Len(), now, false
	}
	co.CheckNext(min(b.left, sweepSize), coalesce.Resync)
	b.left -= min(b.left, sweepSize)
	switch {
	case b.left > 0:
		b.nextSweep = now.Add(sweepTick)
	case b.again:
		b.nextSweep = later(now.Add(sweepTick), b.began.Add(sweepPause))
	default:
		b.nextSweep = time.Time{}
	}
}

func (b *background) safetyReads(now time.Time, interval time.Duration, co *coalesce.Coalescer) {
	n := co.Len()
	if interval <= 0 || n == 0 {
		b.nextSafety = time.Time{}
		return
	}
	tick := max(interval/time.Duration(n), minSafetyTick)
	if b.nextSafety.IsZero() || b.nextSafety.Sub(now) > 2*tick { // the tick became shorter: there are more resources
		b.nextSafety = now.Add(backoff.Spread(tick))
	}
	if now.Before(b.nextSafety) {
		return
	}
	co.CheckNext(int((time.Duration(n)*tick+interval-1)/interval), coalesce.Poll)
	b.nextSafety = now.Add(backoff.Spread(tick))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
