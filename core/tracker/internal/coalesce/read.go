package coalesce

import (
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
)

// Reason tells why a resource is read. Code outside this package uses Resync, Poll, Event and Hook.
type Reason uint8

// The reasons for a read.
const (
	none     Reason = iota
	leading         // read for the event that opens a window
	trailing        // read at the end of a window
	baseline        // first read of a resource, which publishes nothing
	Resync          // notifications may have been lost
	Poll            // polling, because the server does not push updates
	Event           // an event from the server (MCP Events) named the resource
	Hook            // a message to an incoming webhook concerns the resource
)

func (r Reason) urgent() bool { return r == leading || r == trailing }

// cause returns the cause of an event that results from a read with this reason.
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
	case Hook:
		return event.CauseHook
	default:
		return event.CauseResync
	}
}

// reading holds the state of a key's reads. At most one read is queued or in flight.
type reading struct {
	reason   Reason // reason for the read that is queued or in flight; none if there is no read
	queued   place
	inFlight bool
	sentAs   Reason           // the reason when the read in flight was started
	stale    bool             // the read in flight was started before a signal, so its result is ignored
	retry    Reason           // reason of a failed read outside a window, to be retried
	waits    *backoff.Backoff // delays between failed reads; nil if the last read succeeded
}

// Read describes a read that the owner must perform.
type Read struct {
	URI   string
	Cause event.Cause // cause of the event that may result from the read
	First bool        // it establishes the baseline, so that nothing is published if the resource is missing

	key *key
}

// Outcome describes how a read ended.
type Outcome uint8

// The possible outcomes of a read.
const (
	OK      Outcome = iota
	Missing         // the server reported that the resource does not exist
	Failed          // the read failed for any other reason
)

const (
	// maxReadFailures is the number of consecutive failed reads after which a resource outside any
	// window is only read at long intervals, if a comparison is required, and otherwise only at the
	// next comparison.
	maxReadFailures = 5
	// rareRetry is the interval of these reads. They are necessary because nothing else may trigger
	// another read of the resource; the interval is long because a server may have many unreadable
	// resources.
	rareRetry = 5 * time.Minute
	// maxRetryWait is the maximum delay between two attempts at a failing read.
	maxRetryWait = 30 * time.Second
)

// NextRead returns the next read to perform, given the maximum number of concurrent reads, or false
// if there is none now. The result of the read must be passed to Answer.
func (c *Coalescer) NextRead(slots int) (Read, bool) {
	k := c.reads.next(slots, c.ending)
	if k == nil {
		return Read{}, false
	}
	k.inFlight, k.sentAs = true, k.reason
	if k.reason.urgent() {
		k.dirty = false // cleared before the read starts: see the package comment
	}
	return Read{URI: k.uri, Cause: k.reason.cause(), First: k.reason == baseline, key: k}, true
}

func (c *Coalescer) Answer(r Read, outcome Outcome, got Content, now time.Time) {
	k := r.key
	k.inFlight = false
	c.reads.done(k.sentAs)
	if k.removed {
		return
	}
	if k.stale {
		k.stale = false
		k.c.reads.push(k) // if a read is still required, it is queued again
		return
	}
	k.answer(outcome, got, now)
	if outcome == OK && got.Digest == k.published.Digest && !k.noDigest || outcome == Missing && k.gone {
		k.learned()
	}
}

// Abandon discards the reads in flight because their session has ended. Answer must not be called
// for them.
func (c *Coalescer) Abandon() {
	for _, k := range c.keys {
		k.inFlight, k.stale = false, false
	}
	c.reads.abandon()
}

func (k *key) answer(outcome Outcome, got Content, now time.Time) {
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
		k.endIfOver(now) // published without its digest, which is published at the end of the window
	case trailing:
		if got.Digest != k.published.Digest || k.noDigest {
			k.publishRead(event.CauseTrailing, got)
			k.reopen(now)
			return
		}
		k.unchanged(got)
		if k.dirty {
			k.reopen(now) // another update was announced during the read
			return
		}
		k.open = false
	case baseline:
		if returned {
			k.publishRead(event.CauseResync, got)
			return
		}
		k.remember(got)
	case Resync, Poll, Event, Hook:
		if got.Digest == k.published.Digest && !k.noDigest {
			k.unchanged(got)
			return
		}
		k.publishRead(reason.cause(), got)
		k.dirty = false
		k.reopen(now)
	}
}

// unchanged handles content whose digest equals the last published digest. If the digest was
// published by an earlier tracker, the text was unknown; it is now stored for the next diff.
func (k *key) unchanged(got Content) {
	k.c.counts.Unchanged++
	if k.published.Text == nil {
		k.remember(got)
	}
}

// missing publishes, once, that the resource does not exist. If this was the first read of the
// resource, nothing is published, because a list may contain resources that cannot be read.
func (k *key) missing(reason Reason, now time.Time) {
	// An event published without a read may contradict the fact that the resource does not exist.
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
	case k.open: // retry with increasing delays
		k.dirty = true
		k.until = now.Add(wait)
		k.c.timers.set(k, k.until)
	case k.waits.Failures() < maxReadFailures:
		k.retry = reason
		k.c.timers.set(k, now.Add(wait))
	case reason == Resync || reason == Event || reason == Hook:
		k.retry = reason
		k.c.timers.set(k, now.Add(backoff.Spread(rareRetry)))
	}
}
