package tracker

import (
	"maps"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
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
func (b *background) wakeAt() time.Time { return earliest(b.nextSafety, b.nextSweep) }

// advance queues the reads that are due. interval is the interval of safety reads; zero: none.
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

// safetyInterval is the interval of the safety reads; zero: there are none, because
// resources are polled or the config says so. While it is doubtful that the server pushes
// updates, the poll interval applies, but with at most one read per second.
func (f *sessionFollower) safetyInterval() time.Duration {
	if f.coverage.mode != event.Push {
		return 0
	}
	interval := f.w.srv.SafetyInterval
	if interval > 0 && f.doubtful() {
		interval = min(interval, max(f.w.srv.PollInterval, time.Duration(f.w.co.Len())*minSafetyTick))
	}
	return interval
}

const (
	// missedGrace is how long a notification may still arrive after a safety read found the
	// change; after that, the change counts as missed.
	missedGrace = 10 * time.Second
	// maxMissed is the number of missed changes after which a server is polled.
	maxMissed = 2
	// silenceGrace is the time after a silent stream was noticed in which changes found by
	// comparing count as missed by that stream.
	silenceGrace = time.Minute
)

// missedChanges counts changes that the server of one session should have announced but did
// not.
type missedChanges struct {
	suspects map[string]time.Time // by URI: when the change counts as missed
	silence  time.Time            // until then, changes that a comparison finds were missed
}

// found handles an update that was found without an announcement. If the content differs, it
// returns how many missed changes this makes certain.
func (m *missedChanges) found(u coalesce.Update, now time.Time) int {
	if !u.Read || u.Previous.Digest.IsZero() || u.Previous.Digest == u.Content.Digest {
		return 0
	}
	switch {
	case u.Cause == event.CauseResync && now.Before(m.silence):
		return 1
	case u.Cause == event.CausePoll:
		if m.suspects == nil {
			m.suspects = map[string]time.Time{}
		}
		if _, waits := m.suspects[u.URI]; !waits { // else an earlier change was not announced either
			m.suspects[u.URI] = now.Add(missedGrace)
		}
	}
	return 0
}

// announced handles a notification about a resource: its change was not missed.
func (m *missedChanges) announced(uri string) { delete(m.suspects, uri) }

// reset forgets everything, because a gap explains what was missed.
func (m *missedChanges) reset() { *m = missedChanges{} }

// silent records that the stream was silent for so long that it may be dead.
func (m *missedChanges) silent(now time.Time) {
	m.reset()
	m.silence = now.Add(silenceGrace)
}

// expired returns how many suspected changes have now certainly been missed.
func (m *missedChanges) expired(now time.Time) int {
	n := 0
	for uri, at := range m.suspects {
		if !now.Before(at) {
			delete(m.suspects, uri)
			n++
		}
	}
	return n
}

// wakeAt returns when expired may find something, zero if never.
func (m *missedChanges) wakeAt() time.Time {
	return earliest(slices.Collect(maps.Values(m.suspects))...)
}

// countMissed counts changes that the server failed to announce. After maxMissed of them it is
// polled.
func (f *sessionFollower) countMissed(n int, now time.Time) {
	if n == 0 {
		return
	}
	f.w.addMissed(n)
	if f.doubtful() {
		f.tryLegacy(lacks{updates: true})
	}
	if f.w.missed += n; f.w.missed < maxMissed || f.coverage.mode != event.Push {
		return
	}
	f.w.unreliable = true
	f.tryLegacy(lacks{updates: true})
	f.coverage.poll()
	f.announceMode()
	f.planPolls(now)
}
