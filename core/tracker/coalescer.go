package tracker

import (
	"container/list"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// coalescer decides, per resource, when to read it and what to tell about it. It
// is a pure state machine: its owner (the worker of one server) feeds it signals,
// read results and the time, and carries out what it asks for. Nothing in it
// blocks, starts a goroutine or looks at a clock.
//
// A key that is not idle has a window. A signal on an idle key opens one: the
// dirty bit is cleared, a read is wished for, and the leading event goes out in
// any case, with the digest once the read answers or without it after patience.
// Signals inside the window only set the dirty bit. When the window is over, a
// dirty key clears the bit before it is read again, and is told only if the
// content differs from what was told last; then the next window begins, else the
// key is idle. The bit is cleared before a read and never after it: a change
// that a read may have missed has set it again by then.
type coalescer struct {
	window   time.Duration // length of a window
	patience time.Duration // how long a leading event waits for its read
	digests  bool          // whether content is read at all

	tell func(*key, verdict)            // called for every event, in order
	keep func(was, now content) content // called when what was told is replaced; returns what to keep

	keys   map[string]*key
	timers timers
	wishes [2]wishes // by urgency: leading and trailing reads, then the others
	flying [2]int    // reads in flight, by urgency
	urgent int       // urgent reads that were taken since another one was
	counts coalescerCounts
	ending bool // closeWindows was called: a read that fails is not tried again
}

// coalescerCounts conserve: signals = led + folded + unknown.
type coalescerCounts struct {
	signals, led, folded, unknown uint64
	told, unchanged, failed       uint64
}

// key is the state of one resource. All times are the owner's.
type key struct {
	uri  string
	desc event.Descriptor // of its list entry, for events
	told content          // what the last event (or the baseline) told; zero: nothing yet
	owes bool             // the last event had no digest: the next read is told for certain

	dirty    bool
	open     bool          // a window is open
	waiting  bool          // the leading event is still to be told
	until    time.Time     // end of the window
	patience time.Time     // when the leading event goes out without its digest
	received time.Time     // of the signal that opened the window, or dirtied it
	role     role          // of the read that is wished for or in flight; none: no read
	wishedIn *wishes       // the queue it stands in
	place    *list.Element // and where
	flying   bool          // a read is in flight
	flyingAs role          // what that read was started for
	discard  bool          // that read began before a signal: its result is too old
	retry    role          // a failed read outside a window, to be tried again
	failures int           // reads that failed in a row
	gone     bool          // the server says that it does not exist
	missed   bool          // and that was told
	seen     bool          // followed before: see compare
	removed  bool          // no longer followed; a read in flight finds nobody
	parent   *key          // the followed resource that this one is below, if any
	children int           // resources below this one that are followed
	swept    time.Time     // when quiet ones among them were forgotten last
	at       time.Time     // when the timer rings
	timer    int           // index in timers, -1 when not there
}

// content is what a read found.
type content struct {
	digest   catalog.Digest
	size     int64
	mimeType string
	text     *string // where texts are kept
}

func (c content) known() bool { return !c.digest.IsZero() }

// role is what a read is for.
type role uint8

const (
	roleNone     role = iota
	roleLeading       // for the event that opens a window
	roleTrailing      // at the end of a window
	roleBaseline      // first look: tells nothing
	roleResync        // after a time in which pushes may have been lost
	rolePoll          // instead of pushes
)

func (r role) urgency() int {
	if r == roleLeading || r == roleTrailing {
		return 0
	}
	return 1
}

// verdict is what to tell about a key.
type verdict struct {
	cause    event.Cause
	read     bool    // whether there is content to tell
	was, now content // was is zero if nothing was known before
	gone     bool    // it does not exist any more
	received time.Time
}

func newCoalescer(window, patience time.Duration, digests bool, tell func(*key, verdict)) *coalescer {
	return &coalescer{window: window, patience: patience, digests: digests, tell: tell, keys: map[string]*key{}}
}

// add begins to follow a resource. known is what is known of it from before, if
// anything: then it is compared, else it is only looked at.
func (c *coalescer) add(uri string, known content) *key {
	if k, ok := c.keys[uri]; ok {
		return k
	}
	k := &key{uri: uri, told: known, timer: -1}
	c.keys[uri] = k
	return k
}

// remove forgets a resource; nothing is told of it from here on.
func (c *coalescer) remove(uri string) {
	k, ok := c.keys[uri]
	if !ok {
		return
	}
	k.removed = true
	c.unwish(k)
	c.schedule(k, time.Time{})
	c.remember(k, content{})
	delete(c.keys, uri)
}

// clear forgets all resources.
func (c *coalescer) clear() {
	for uri := range c.keys {
		c.remove(uri)
	}
}

// remember replaces what is known to be told of the key.
func (c *coalescer) remember(k *key, now content) {
	if c.keep != nil {
		now = c.keep(k.told, now)
	}
	k.told = now
}

// signal notes n announcements of a change, the first received at the time given.
func (c *coalescer) signal(uri string, n int, received, now time.Time) {
	c.counts.signals += uint64(n)
	k, ok := c.keys[uri]
	if !ok {
		c.counts.unknown += uint64(n)
		return
	}
	if k.open {
		c.counts.folded += uint64(n)
		if !k.dirty {
			k.dirty, k.received = true, received
		}
		return
	}
	c.counts.led++
	c.counts.folded += uint64(n - 1)
	k.open, k.waiting, k.received = true, true, received
	k.until, k.patience = now.Add(c.window), now.Add(c.patience)
	k.dirty = n > 1 && !c.digests // one read sees what n announcements meant; unread, the others are owed
	if !c.digests || mutant == mutantEventFirst {
		c.lead(k, verdict{cause: event.CauseNotify, received: received})
	}
	if !c.digests {
		return
	}
	c.unwish(k)
	k.discard = k.flying // it may have been answered before the change
	k.role, k.retry = roleLeading, roleNone
	c.wish(k)
	if k.waiting {
		c.schedule(k, k.patience)
	}
}

// check wishes for a read of the key outside any window, to compare its content
// with what was told last.
func (c *coalescer) check(k *key, r role) {
	if !c.digests || k.role != roleNone {
		return // it is being read, or will be
	}
	if k.open {
		k.dirty = true // the window's end compares
		return
	}
	if !k.told.known() && !k.owes && !k.gone {
		r = roleBaseline
	}
	k.role = r
	c.wish(k)
}

// recheck is check for a key that may have changed unannounced just now: a read in
// flight may be too old to show it.
func (c *coalescer) recheck(k *key, r role) {
	k.discard = k.discard || k.flying
	c.check(k, r)
}

// checkAll is check for every key.
func (c *coalescer) checkAll(r role) {
	for _, k := range c.keys {
		c.check(k, r)
	}
}

// suspend closes all windows because pushes may have been lost, or the session
// is: whatever is known of any key may be old. Announcements that still wait for
// their read are told without it. A read in flight is of no use any more.
func (c *coalescer) suspend() {
	for _, k := range c.keys {
		if k.waiting {
			k.owes = true
			c.lead(k, verdict{cause: event.CauseNotify, received: k.received})
		}
		c.unwish(k)
		k.discard = k.flying
		k.open, k.dirty, k.failures, k.role, k.retry = false, false, 0, roleNone, roleNone
		c.schedule(k, time.Time{})
	}
}

// compare looks at every key after a suspension.
func (c *coalescer) compare() {
	for _, k := range c.keys {
		c.compareOne(k)
	}
}

// doubt looks at a key, and at those below it, whose changes may not have been announced
// for a while.
func (c *coalescer) doubt(k *key) {
	c.compareOne(k)
	if k.children == 0 {
		return
	}
	for _, below := range c.keys {
		if below.parent == k {
			c.compareOne(below)
		}
	}
}

// compareOne reads a key anew. Where content is not read, nobody knows whether it
// changed, and that is what is told of a key that was followed before.
func (c *coalescer) compareOne(k *key) {
	if !c.digests && k.seen {
		c.counts.told++
		c.tell(k, verdict{cause: event.CauseResync})
	}
	k.seen = true
	c.recheck(k, roleResync)
}

// closeWindows ends every window now, for a shutdown: what is owed is read and
// told before busy turns false. It is called again after every answer, because a
// change that was announced during a read is owed another one.
func (c *coalescer) closeWindows(now time.Time) {
	c.ending = true
	for _, k := range c.keys {
		if k.open {
			k.until = now
			if !k.waiting {
				c.schedule(k, now)
			}
		}
	}
	c.advance(now)
}

// busy reports whether anything is still to be told of announced changes.
func (c *coalescer) busy() bool {
	if c.flying[0] > 0 || !c.wishes[0].empty() {
		return true
	}
	for _, k := range c.keys {
		if k.flying && k.role != roleNone && k.role.urgency() == 0 {
			return true // announced while another read of it is out: it is read again
		}
	}
	return false
}

// started tells that the read which nextRead returned is on its way.
func (c *coalescer) started(k *key) {
	k.flying, k.flyingAs = true, k.role
	c.flying[k.role.urgency()]++
	if k.role.urgency() == 0 && mutant != mutantLateClear {
		k.dirty = false // before the read: see the type's comment
	}
}

// next is when advance has something to do; zero when never.
func (c *coalescer) next() time.Time {
	if len(c.timers) == 0 {
		return time.Time{}
	}
	return c.timers[0].at
}

// advance does what is due.
func (c *coalescer) advance(now time.Time) {
	for len(c.timers) > 0 && !c.timers[0].at.After(now) {
		k := c.timers[0]
		c.schedule(k, time.Time{})
		switch {
		case k.waiting:
			k.owes = true
			c.lead(k, verdict{cause: event.CauseNotify, received: k.received})
		case k.open:
			c.windowEnd(k, now)
		case k.retry != roleNone:
			r := k.retry
			k.retry = roleNone
			c.check(k, r)
		}
	}
}

// lead tells the leading event and leaves the window open.
func (c *coalescer) lead(k *key, v verdict) {
	k.waiting, k.missed = false, false
	c.counts.told++
	c.tell(k, v)
	c.schedule(k, k.until)
}

func (c *coalescer) windowEnd(k *key, now time.Time) {
	if k.role != roleNone {
		// The leading read is still out; its answer decides. It cannot stay out:
		// every read has a deadline.
		return
	}
	if !k.dirty && !k.owes {
		k.open = false
		return
	}
	if mutant == mutantLeadingOnly {
		k.open, k.dirty = false, false
		return
	}
	if !c.digests {
		k.dirty = false
		k.until = now.Add(c.window)
		c.counts.told++
		c.tell(k, verdict{cause: event.CauseTrailing, received: k.received})
		c.schedule(k, k.until)
		return
	}
	k.role = roleTrailing
	c.wish(k)
}
