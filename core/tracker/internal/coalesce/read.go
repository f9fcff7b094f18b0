package coalesce

import (
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
)

// Reason is why a resource is read. Callers use Resync, Poll and Event.
type Reason uint8

// The reasons.
const (
	none     Reason = iota
	leading         // for the event that opens a window
	trailing        // at the end of a window
	baseline        // first look: publishes nothing
	Resync          // notifications may have been lost
	Poll            // instead of notifications
	Event           // an event of the server (MCP Events) named it
)

func (r Reason) urgent() bool { return r == leading || r == trailing }

// cause returns the cause of an event that results from such a read.
func (r Reason) cause() event.Cause {
	switch r {
	case trailing:
		return event.CauseTrailing
	case leading:
		return event.CauseNotify
	case Poll:
		return event.CausePoll
	case Event:
		return event.CauseEvent
	default:
		return event.CauseResync
	}
}

// reading is the state of a key's reads. At most one is queued or in flight.
type reading struct {
	reason   Reason // of the read that is queued or in flight; none: no read
	queued   place
	inFlight bool
	sentAs   Reason           // the reason when the read in flight began
	stale    bool             // the read in flight began before a signal: its answer is ignored
	retry    Reason           // of a failed read outside a window, to be retried
	waits    *backoff.Backoff // between consecutive failed reads; nil: the last one did not fail
}

// Read is a read that the owner has to make.
type Read struct {
	URI   string
	Cause event.Cause // of the event that it may lead to

	key *key
}

// Outcome is how a read ended.
type Outcome uint8

// The outcomes.
const (
	OK      Outcome = iota
	Missing         // the server reports that there is no such resource
	Failed          // anything else
)

const (
	// maxReadFailures is the number of consecutive failed reads after which a resource outside
	// any window is read rarely, if it has to be compared, or else only at the next comparison.
	maxReadFailures = 5
	// rareRetry is the wait between two such rare reads. They are needed because nothing else may
	// read the resource again; they are rare because a server may have many unreadable resources.
	rareRetry = 5 * time.Minute
	// maxRetryWait is the longest wait between two reads that keep failing.
	maxRetryWait = 30 * time.Second
)

// NextRead returns the next read to make, given how many may be in flight;
// false if there is none now. Its result must be passed to Answer.
func (c *Coalescer) NextRead(slots int) (Read, bool) {
	k := c.reads.next(slots, c.ending)
	if k == nil {
		return Read{}, false
	}
	k.inFlight, k.sentAs = true, k.reason
	if k.reason.urgent() {
		k.dirty = false // before the read: see the package comment
	}
	return Read{URI: k.uri, Cause: k.reason.cause(), key: k}, true
}

// Answer handles the result of a read.
func (c *Coalescer) Answer(r Read, outcome Outcome, got Content, now time.Time) {
	k := r.key
	k.inFlight = false
	c.reads.done(k.sentAs)
	if k.removed {
		return
	}
	k.answer(outcome, got, now)
	if outcome != Failed {
		k.learned(outcome == OK && got.Digest == k.published.Digest || outcome == Missing && k.gone)
	}
}

// Abandon forgets the reads in flight because their session has ended. They must not
// be answered.
func (c *Coalescer) Abandon() {
	for _, k := range c.keys {
		k.inFlight, k.stale = false, false
	}
	c.reads.abandon()
}

func (k *key) answer(outcome Outcome, got Content, now time.Time) {
	if k.stale {
		k.stale = false
		k.c.reads.push(k) // if a read is still needed, it starts again
		return
	}
	reason := k.reason
	k.reason = none
	switch outcome {
	case OK:
		k.waits = nil
		k.found(reason, got, now)
	case Missing:
		k.waits = nil
		k.missing(reason, now)
	default:
		k.c.counts.Failed++
		k.failed(reason, now)
	}
}

func (k *key) found(reason Reason, got Content, now time.Time) {
	returned := k.gone
	k.gone, k.reported = false, false
	switch reason {
	case leading:
		if k.waiting {
			k.publishRead(k.cause, got)
			k.c.timers.set(k, k.until)
			return
		}
		k.endIfOver(now) // published without its digest, which the end of the window publishes
	case trailing:
		if got.Digest != k.published.Digest || k.noDigest {
			k.publishRead(event.CauseTrailing, got)
			k.reopen(now)
			return
		}
		k.unchanged(got)
		if k.dirty {
			k.reopen(now) // announced while being read
			return
		}
		k.open = false
	case baseline:
		if returned {
			k.publishRead(event.CauseResync, got)
			return
		}
		k.remember(got)
	case Resync, Poll, Event:
		if got.Digest == k.published.Digest && !k.noDigest {
			k.unchanged(got)
			return
		}
		k.publishRead(reason.cause(), got)
		k.dirty = false
		k.reopen(now)
	}
}

// unchanged handles content whose digest equals the one published last. If an earlier tracker
// published it, only the digest was known: the text is kept for the next diff.
func (k *key) unchanged(got Content) {
	k.c.counts.Unchanged++
	if k.published.Text == nil {
		k.remember(got)
	}
}

// missing publishes once that the resource does not exist. The first look publishes
// nothing: a list may name what cannot be read.
func (k *key) missing(reason Reason, now time.Time) {
	// An event that was published without a read may contradict this.
	contradicts := k.waiting || k.noDigest
	news := !k.gone && reason != baseline
	k.gone, k.waiting, k.noDigest = true, false, false
	k.remember(Content{})
	if news || contradicts {
		k.reported = true
		k.publish(Update{Cause: reason.cause(), Removed: true, Received: k.received})
	}
	if k.open {
		k.endIfOver(now)
		if k.open {
			k.c.timers.set(k, k.until)
		}
	}
}

func (k *key) failed(reason Reason, now time.Time) {
	if k.waits == nil {
		k.waits = backoff.New(k.c.opts.Window, maxRetryWait)
	}
	wait := k.waits.Next()
	switch {
	case k.waiting:
		k.leadUnread()
	case k.c.ending:
		k.open = false
	case k.open: // retry, with growing waits
		k.dirty = true
		k.until = now.Add(wait)
		k.c.timers.set(k, k.until)
	case k.waits.Failures() < maxReadFailures:
		k.retry = reason
		k.c.timers.set(k, now.Add(wait))
	case reason == Resync || reason == Event:
		k.retry = reason
		k.c.timers.set(k, now.Add(backoff.Spread(rareRetry)))
	}
}
