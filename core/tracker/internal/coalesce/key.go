package coalesce

import (
	"cmp"
	"container/list"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// key is the state machine of one resource.
type key struct {
	c          *Coalescer
	uri        string
	descriptor event.Descriptor
	published  Content // of the last event, or the baseline; zero: nothing yet
	noDigest   bool    // the last event had no digest: the next read is published in any case
	gone       bool    // the server reports that the resource does not exist
	reported   bool    // that it is gone was published
	seen       bool    // tracked before the last suspension: see compare
	removed    bool    // no longer tracked; the answer of a read in flight is ignored

	window
	reading
	timer

	turn     *list.Element     // in the rotation
	parent   *key              // the resource that contains this sub-resource; nil: it is none
	children map[*key]struct{} // the sub-resources whose parent this is
	swept    time.Time         // when idle children were last dropped
}

// window is the state of a key's current window; it counts only while open is set.
type window struct {
	open     bool
	dirty    bool        // announced since the last read began
	waiting  bool        // the leading event has not been published yet
	until    time.Time   // end of the window
	patience time.Time   // when the leading event is published without its digest
	received time.Time   // of the signal that opened the window, or made it dirty
	cause    event.Cause // of the leading event
}

// known returns what is known of the key's resource.
func (k *key) known() Known {
	return Known{URI: k.uri, Descriptor: k.descriptor, Content: k.published, Gone: k.gone, Reported: k.reported}
}

// learned passes what is known of the key's resource to the owner; confirmed says that a read has
// just found it.
func (k *key) learned(confirmed bool) {
	if k.c.opts.Learned != nil {
		known := k.known()
		known.Confirmed = confirmed
		k.c.opts.Learned(known)
	}
}

// remove takes the key out of all queues and sets.
func (k *key) remove() {
	k.removed = true
	k.adopt(nil)
	k.c.reads.remove(k)
	k.c.timers.set(k, time.Time{})
	k.remember(Content{})
	k.c.rotation.Remove(k.turn)
	delete(k.c.keys, k.uri)
}

// signal handles an announced update.
func (k *key) signal(s Signal, now time.Time) {
	c, n, received := k.c, s.N, s.Received
	if k.open {
		c.counts.Folded += uint64(n)
		if !k.dirty {
			k.dirty, k.received = true, received
		}
		return
	}
	c.counts.Led++
	c.counts.Folded += uint64(n - 1)
	k.open, k.waiting, k.received, k.cause = true, true, received, cmp.Or(s.Cause, event.CauseNotify)
	k.until, k.patience = now.Add(c.opts.Window), now.Add(c.opts.Patience)
	if !c.opts.Digests {
		k.dirty = n > 1 // without reads, the other signals also need an event
		k.lead()
		return
	}
	k.dirty = false // one read covers all n signals
	c.reads.remove(k)
	k.stale = k.inFlight // it may have been answered before the change
	k.reason, k.retry = leading, none
	c.reads.push(k)
	c.timers.set(k, k.patience)
}

// lead publishes the leading event without content, and leaves the window open.
func (k *key) lead() {
	k.waiting, k.reported = false, false
	k.publish(Update{Cause: k.cause, Received: k.received})
	k.c.timers.set(k, k.until)
}

// leadUnread publishes a leading event whose read has no result yet.
func (k *key) leadUnread() {
	k.noDigest = true
	k.lead()
}

// windowEnd handles the end of a window. It closes the window if nothing changed. Otherwise
// it reads again; without digests, it publishes and opens the next window. If a read is in
// flight, its result decides instead.
func (k *key) windowEnd(now time.Time) {
	switch {
	case k.reason != none:
		// The leading read is still in flight; its answer decides. It always ends,
		// because every read has a deadline.
	case !k.dirty && !k.noDigest:
		k.open = false
	case !k.c.opts.Digests:
		k.dirty = false
		k.publish(Update{Cause: event.CauseTrailing, Received: k.received})
		k.reopen(now)
	default:
		k.reason = trailing
		k.c.reads.push(k)
	}
}

// reopen starts the next window.
func (k *key) reopen(now time.Time) {
	k.open, k.until = true, now.Add(k.c.opts.Window)
	k.c.timers.set(k, k.until)
}

// endIfOver handles the end of a window that had to wait for a read in flight.
func (k *key) endIfOver(now time.Time) {
	if !now.Before(k.until) {
		k.windowEnd(now)
	}
}

// suspend closes the window; see [Coalescer.Suspend].
func (k *key) suspend() {
	if k.waiting {
		k.leadUnread()
	}
	k.c.reads.remove(k)
	k.stale = k.inFlight
	k.open, k.dirty, k.waits, k.reason, k.retry = false, false, nil, none, none
	k.c.timers.set(k, time.Time{})
}

// publish counts and publishes an event.
func (k *key) publish(u Update) {
	k.c.counts.Published++
	u.Known = k.known()
	if k.c.opts.Publish != nil {
		k.c.opts.Publish(u)
	}
}

// publishRead publishes the content that was read.
func (k *key) publishRead(cause event.Cause, got Content) {
	was := k.published
	k.remember(got)
	k.noDigest, k.waiting = false, false
	k.publish(Update{Cause: cause, Read: true, Previous: was, Received: k.received})
	k.received = time.Time{}
}

// remember replaces the content that counts as published.
func (k *key) remember(now Content) {
	if k.c.opts.Replace != nil {
		now = k.c.opts.Replace(k.published, now)
	}
	k.published = now
}

func (k *key) check(reason Reason) {
	if !k.c.opts.Digests || k.reason != none {
		return // it is being read, or will be
	}
	if k.open {
		k.dirty = true // compared at the end of the window
		return
	}
	if !k.published.known() && !k.noDigest && !k.gone {
		reason = baseline
	}
	k.reason = reason
	k.c.reads.push(k)
}

func (k *key) recheck(reason Reason) {
	k.stale = k.stale || k.inFlight
	k.check(reason)
}

func (k *key) compare() {
	if !k.c.opts.Digests && k.seen {
		k.publish(Update{Cause: event.CauseResync})
	}
	k.seen = true
	k.recheck(Resync)
}

// maxChildren bounds the sub-resources of one resource that are tracked because the server
// announced them.
const maxChildren = 1000

// adopt makes the key a sub-resource of parent; nil: of none.
func (k *key) adopt(parent *key) {
	if k.parent != nil {
		delete(k.parent.children, k)
	}
	k.parent = parent
	if parent != nil {
		if parent.children == nil {
			parent.children = map[*key]struct{}{}
		}
		parent.children[k] = struct{}{}
	}
}

// makeRoom reports whether there is room for another sub-resource. If there is none, it drops
// the idle ones, at most once per window; if they are announced again, they are new.
func (k *key) makeRoom(now time.Time) bool {
	if len(k.children) >= maxChildren && now.Sub(k.swept) >= k.c.opts.Window {
		k.swept = now
		var idle []*key
		for child := range k.children {
			if !child.open && child.reason == none && !child.inFlight {
				idle = append(idle, child)
			}
		}
		k.c.forget(idle)
	}
	return len(k.children) < maxChildren
}
