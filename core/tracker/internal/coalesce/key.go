package coalesce

import (
	"cmp"
	"container/list"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// key implements the state machine of one resource.
type key struct {
	c          *Coalescer
	uri        string
	descriptor event.Descriptor
	published  Content // content in the last event, or the baseline; zero if none
	noDigest   bool    // the last event had no digest, so the next read is published unconditionally
	gone       bool    // the server reported that the resource does not exist
	reported   bool    // it was published that the resource is gone
	seen       bool    // tracked before the last Suspend: see Compare
	removed    bool    // no longer tracked; the result of a read in flight is ignored

	window
	reading
	timer

	turn     *list.Element     // the key's element in the rotation
	parent   *key              // resource that contains this sub-resource; nil if it is not a sub-resource
	children map[*key]struct{} // sub-resources of this resource
	swept    time.Time         // when idle children were last dropped
}

// window holds the state of a key's debounce window. It is only meaningful while open is true.
type window struct {
	open     bool
	dirty    bool        // an update was announced after the last read started
	waiting  bool        // the leading event has not been published yet
	until    time.Time   // when the window ends
	patience time.Time   // when the leading event is published without its digest
	received time.Time   // arrival of the signal that opened the window or set dirty
	cause    event.Cause // cause of the leading event
}

func (k *key) known() Known {
	return Known{URI: k.uri, Descriptor: k.descriptor, Content: k.published, Gone: k.gone, Reported: k.reported, Unread: k.noDigest}
}

// learned passes the current state of the resource to the owner.
func (k *key) learned() {
	if k.c.opts.Learned != nil {
		k.c.opts.Learned(k.known())
	}
}

func (k *key) remove() {
	k.removed = true
	k.adopt(nil)
	k.c.reads.remove(k)
	k.c.timers.set(k, time.Time{})
	k.remember(Content{})
	k.c.rotation.Remove(k.turn)
	delete(k.c.keys, k.uri)
}

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
		k.dirty = n > 1 // without reads, each further signal needs its own event
		k.lead()
		return
	}
	k.dirty = false // one read covers all n signals
	c.reads.remove(k)
	k.stale = k.inFlight // the read in flight may return the content from before the change
	k.reason, k.retry = leading, none
	c.reads.push(k)
	c.timers.set(k, k.patience)
}

// lead publishes the leading event without content; the window remains open.
func (k *key) lead() {
	k.waiting, k.reported = false, false
	k.publish(Update{Cause: k.cause, Received: k.received})
	k.c.timers.set(k, k.until)
}

// leadUnread publishes a leading event whose read has not completed yet.
func (k *key) leadUnread() {
	k.noDigest = true
	k.lead()
}

// windowEnd handles the end of a window. If nothing changed, it closes the window. Otherwise it
// reads the resource again or, if resources are not read, publishes an event and opens the next
// window. If a read is in flight, its result determines what to do.
func (k *key) windowEnd(now time.Time) {
	switch {
	case k.reason != none:
		// The leading read is still in flight; its result determines what to do. Every read has a
		// deadline, so it always completes.
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

// reopen starts the next window of the resource.
func (k *key) reopen(now time.Time) {
	k.open, k.until = true, now.Add(k.c.opts.Window)
	k.c.timers.set(k, k.until)
}

// endIfOver handles the end of a window that was delayed by a read in flight.
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

func (k *key) publish(u Update) {
	k.c.counts.Published++
	u.Known = k.known()
	if k.c.opts.Publish != nil {
		k.c.opts.Publish(u)
	}
}

func (k *key) publishRead(cause event.Cause, got Content) {
	was := k.published
	k.remember(got)
	k.noDigest, k.waiting = false, false
	k.publish(Update{Cause: cause, Read: true, Previous: was, Received: k.received})
	k.received = time.Time{}
}

func (k *key) remember(now Content) {
	if k.c.opts.Replace != nil {
		now = k.c.opts.Replace(k.published, now)
	}
	k.published = now
}

func (k *key) check(reason Reason) {
	if !k.c.opts.Digests || k.reason != none {
		return // a read is queued or in flight
	}
	if k.open {
		k.dirty = true // will be compared at the end of the window
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

// maxChildren limits the number of sub-resources per resource that are tracked because the server
// announced an update of them.
const maxChildren = 1000

// adopt makes the key a sub-resource of parent, or a regular resource if parent is nil.
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

// makeRoom reports whether another sub-resource can be added. If there are too many, it first drops
// the idle sub-resources, at most once per window; if they are announced again, they are treated as
// new.
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
