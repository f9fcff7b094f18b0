package tracker

import (
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// maxReadFailures is after how many failed reads in a row a resource outside any
// window is left alone until the next resync.
const maxReadFailures = 5

// readOutcome is how a read ended.
type readOutcome uint8

const (
	readOK      readOutcome = iota
	readMissing             // the server says that there is no such resource
	readFailed              // anything else
)

// finish takes in the answer to the read that was started for the key.
func (c *coalescer) finish(k *key, outcome readOutcome, got content, now time.Time) {
	k.flying = false
	c.flying[k.flyingAs.urgency()]--
	if k.removed {
		return
	}
	if k.discard && mutant != mutantStaleRead {
		k.discard = false
		c.wish(k) // if a read is still wished for, it starts anew
		return
	}
	k.discard = false
	r := k.role
	k.role = roleNone
	if mutant == mutantLateClear {
		k.dirty = false
	}
	switch outcome {
	case readOK:
		k.failures = 0
		c.found(k, r, got, now)
	case readMissing:
		k.failures = 0
		c.missing(k, r, now)
	default:
		k.failures++
		c.counts.failed++
		c.failed(k, r, now)
	}
}

func (c *coalescer) found(k *key, r role, got content, now time.Time) {
	returned := k.gone
	k.gone, k.missed = false, false
	switch r {
	case roleLeading:
		if k.waiting {
			c.told(k, event.CauseNotify, got)
			c.schedule(k, k.until)
			return
		}
		if mutant == mutantEventFirst {
			c.remember(k, got)
			k.owes = false
		}
		c.endIfOver(k, now) // told without its digest: the window's end makes up for it
	case roleTrailing:
		if got.digest != k.told.digest || k.owes {
			c.told(k, event.CauseTrailing, got)
			c.reopen(k, now)
			return
		}
		c.counts.unchanged++
		if k.dirty {
			c.reopen(k, now) // announced while being read
			return
		}
		k.open = false
	case roleBaseline:
		if returned {
			c.told(k, event.CauseResync, got)
			return
		}
		c.remember(k, got)
	case roleResync, rolePoll:
		if got.digest == k.told.digest && !k.owes {
			c.counts.unchanged++
			return
		}
		cause := event.CauseResync
		if r == rolePoll {
			cause = event.CausePoll
		}
		c.told(k, cause, got)
		k.dirty = false
		c.reopen(k, now)
	}
}

// missing tells once that the resource is gone. At first look that is nothing to
// tell: a list may name what cannot be read.
func (c *coalescer) missing(k *key, r role, now time.Time) {
	// What was told without a look (it owes one) may have said otherwise.
	waiting, first := k.waiting || k.owes, !k.gone && r != roleBaseline
	k.gone, k.waiting, k.owes = true, false, false
	c.remember(k, content{})
	if first || waiting {
		k.missed = true
		c.counts.told++
		c.tell(k, verdict{cause: r.cause(), gone: true, received: k.received})
	}
	if k.open {
		c.endIfOver(k, now)
		if k.open {
			c.schedule(k, k.until)
		}
	}
}

func (c *coalescer) failed(k *key, r role, now time.Time) {
	if k.waiting {
		k.owes = true
		c.lead(k, verdict{cause: event.CauseNotify, received: k.received})
		return
	}
	if c.ending {
		k.open = false
		return
	}
	if k.open { // what is owed is tried again, ever more slowly
		k.dirty = true
		k.until = now.Add(c.delay(k.failures))
		c.schedule(k, k.until)
		return
	}
	if k.failures < maxReadFailures {
		k.retry = r
		c.schedule(k, now.Add(c.delay(k.failures)))
	}
}

// delay is how long a key rests after so many failed reads in a row.
func (c *coalescer) delay(failures int) time.Duration {
	return min(c.window<<min(failures-1, 8), maxRest)
}

// maxRest is the longest time between two reads of a key that keeps failing.
const maxRest = 30 * time.Second

// told remembers what was read and tells it, without its text if that is not kept.
func (c *coalescer) told(k *key, cause event.Cause, got content) {
	was := k.told
	c.remember(k, got)
	k.owes, k.waiting = false, false
	c.counts.told++
	c.tell(k, verdict{cause: cause, read: true, was: was, now: k.told, received: k.received})
	k.received = time.Time{}
}

// reopen begins the next window of a key that was told or is dirty.
func (c *coalescer) reopen(k *key, now time.Time) {
	k.open, k.until = true, now.Add(c.window)
	c.schedule(k, k.until)
}

// endIfOver does what the window's end had to leave because a read was out.
func (c *coalescer) endIfOver(k *key, now time.Time) {
	if !now.Before(k.until) {
		c.windowEnd(k, now)
	}
}

func (r role) cause() event.Cause {
	switch r {
	case roleTrailing:
		return event.CauseTrailing
	case roleLeading:
		return event.CauseNotify
	case rolePoll:
		return event.CausePoll
	default:
		return event.CauseResync
	}
}

// abandon forgets the reads in flight: their session is gone, and so are they.
func (c *coalescer) abandon() {
	for _, k := range c.keys {
		k.flying, k.discard = false, false
	}
	c.flying = [2]int{}
}
