package coalesce

import "github.com/mcptrack/mcptrack/core/event"

// Check reads a tracked resource outside any window and publishes its content if it
// differs from what was published last. The first look at a resource of which nothing
// is known publishes nothing.
func (c *Coalescer) Check(uri string, reason Reason) {
	if k, ok := c.keys[uri]; ok {
		k.check(reason)
	}
}

// CheckAll is Check for every resource.
func (c *Coalescer) CheckAll(reason Reason) {
	for _, k := range c.keys {
		k.check(reason)
	}
}

// CheckNext is Recheck for the next n resources of a rotation through all of them: called
// again and again it checks every resource equally often.
func (c *Coalescer) CheckNext(n int, reason Reason) {
	for range min(n, c.rotation.Len()) {
		front := c.rotation.Front()
		c.rotation.MoveToBack(front)
		front.Value.(*key).recheck(reason)
	}
}

// Len returns how many resources are tracked.
func (c *Coalescer) Len() int { return len(c.keys) }

// FirstLook is Check for a resource that was just added while the others are up to date. From
// now on [Coalescer.CompareAll] includes it.
func (c *Coalescer) FirstLook(uri string) {
	if k, ok := c.keys[uri]; ok {
		k.seen = true
		k.check(Resync)
	}
}

// Recheck is Check for a resource that may just have changed without an announcement: the
// result of a read in flight may be too old to show the change.
func (c *Coalescer) Recheck(uri string, reason Reason) {
	if k, ok := c.keys[uri]; ok {
		k.recheck(reason)
	}
}

// CompareAll compares every resource after a suspension. If resources are not read, it is
// unknown whether they changed, and an update is published for each resource that was tracked
// before.
func (c *Coalescer) CompareAll() {
	for _, k := range c.keys {
		k.compare()
	}
}

// Compare is CompareAll for one resource and its sub-resources.
func (c *Coalescer) Compare(uri string) {
	k, ok := c.keys[uri]
	if !ok {
		return
	}
	k.compare()
	for child := range k.children {
		child.compare()
	}
}

// Suspend closes all windows because notifications, or the session, may have been lost: all
// known content may be outdated. Signals that wait for their read are published without it, and
// reads in flight are ignored.
func (c *Coalescer) Suspend() {
	for _, k := range c.keys {
		k.suspend()
	}
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
