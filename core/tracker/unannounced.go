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
	// minSafetyTick is the minimum time between two safety reads or batches of safety reads.
	minSafetyTick = time.Second
	// sweepTick and sweepSize determine the rate of a sweep: 20 resources per second.
	sweepTick = 100 * time.Millisecond
	sweepSize = 2
	// sweepPause is the minimum time between the starts of two sweeps. A sweep reads every resource
	// once.
	sweepPause = 10 * time.Second
)

// background re-reads resources for which no update was announced, at a rate that puts little load
// on the server. Safety reads check every resource once per interval, because servers do not push
// all the updates that they claim to push. A sweep checks every resource once after the server
// announced a change to its list of resources, because a resource that was removed and added again
// in the meantime looks unchanged in the list.
type background struct {
	nextSafety time.Time // zero if safety reads are disabled
	nextSweep  time.Time // zero if no sweep is pending
	left       int       // number of resources that the running sweep has yet to check
	again      bool      // another sweep was requested after the last one started
	began      time.Time // when the last sweep started
}

func (b *background) sweep(now time.Time) {
	if b.left > 0 {
		b.again = true
		return
	}
	if b.nextSweep.IsZero() {
		b.nextSweep = later(now, b.began.Add(sweepPause))
	}
}

// wakeAt returns when advance must next be called, or zero if never.
func (b *background) wakeAt() time.Time { return earliest(b.nextSafety, b.nextSweep) }

// advance queues the reads that are due. interval is the interval of safety reads; zero disables
// them.
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
	if b.nextSafety.IsZero() || b.nextSafety.Sub(now) > 2*tick { // the tick became shorter because resources were added
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

// safetyInterval returns the interval of the safety reads, or zero if they are disabled, because
// resources are polled or because of the config. While it is doubtful whether the server pushes
// updates, or all of them, the poll interval is used instead, with at most one read per second.
func (f *sessionFollower) safetyInterval() time.Duration {
	if f.coverage.mode != event.Push {
		return 0
	}
	interval := f.w.srv.SafetyInterval
	if interval > 0 && (f.doubtful() || f.unheard()) {
		interval = min(interval, max(f.w.srv.PollInterval, time.Duration(f.w.co.Len())*minSafetyTick))
	}
	return interval
}

const (
	// missedGrace is how long to wait for the notification after a safety read has found a change.
	// If it has not arrived by then, the change counts as missed.
	missedGrace = 10 * time.Second
	// maxMissed is the number of missed changes after which the server is polled.
	maxMissed = 2
	// silenceGrace is the period after a silent stream was detected in which changes found by a
	// comparison count as missed.
	silenceGrace = time.Minute
)

// missedChanges counts the changes in one session that the server failed to announce.
type missedChanges struct {
	suspects map[string]time.Time // by URI: when the change will count as missed
	silence  time.Time            // changes found by a comparison before this time count as missed
}

// found handles a change that was found without a notification. It returns the number of changes
// that are now known to have been missed.
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
		if _, waits := m.suspects[u.URI]; !waits { // otherwise a previous change was not announced either
			m.suspects[u.URI] = now.Add(missedGrace)
		}
	}
	return 0
}

// announced handles a notification about a resource: its suspected change was not missed.
func (m *missedChanges) announced(uri string) { delete(m.suspects, uri) }

// reset discards all suspected changes, because a gap in the notifications explains why they were
// missing.
func (m *missedChanges) reset() { *m = missedChanges{} }

// silent records that the stream was silent for so long that it may have failed.
func (m *missedChanges) silent(now time.Time) {
	m.reset()
	m.silence = now.Add(silenceGrace)
}

// expired returns how many suspected changes now count as missed.
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

// wakeAt returns when expired must next be called, or zero if never.
func (m *missedChanges) wakeAt() time.Time {
	return earliest(slices.Collect(maps.Values(m.suspects))...)
}

// countMissed adds n changes that the server failed to announce. After maxMissed such changes, the
// server is polled.
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
	f.announceActive()
	f.planPolls(now)
}
