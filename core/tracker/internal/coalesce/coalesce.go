// Package coalesce decides, for every tracked resource of one server, when to read
// it and what to publish about it. It is a pure state machine: its owner feeds it
// notifications, the results of reads and the time, and carries out what it asks
// for. Nothing in it blocks, starts a goroutine or looks at a clock. It is not safe
// for concurrent use.
//
// # Windows
//
// A resource is idle or has an open window. A signal (a notification of an update)
// to an idle resource opens a window: the dirty bit is cleared, a read is queued, and
// the leading event is published in any case, with the digest once the read answers
// or without it after [Options.Patience]. Further signals inside the window only set
// the dirty bit. At the end of the window, if the dirty bit is set, it is cleared, the resource is
// read again, and a trailing event is published only if the content differs from what was
// published last; then the next window begins. Otherwise the resource becomes idle. The dirty bit
// is cleared before a read and never after it: a change that the read may have missed has then set
// the bit again.
//
// # Reads
//
// The owner takes reads with [Coalescer.NextRead], makes the request, and returns its
// result with [Coalescer.Answer]. Leading and trailing reads go first, but every
// eighth read is one of the others (first looks, comparisons and polls).
//
// # Guarantees
//
// Order: the events of one resource are in the order of its reads. Loss: once a resource is
// quiet and its reads succeed, the last event describes its current content. Memory: bounded by
// the number of resources, not by the number of signals. A resource that left the server's list
// is remembered by a tombstone (its digest), up to maxTombstones of them.
package coalesce

import (
	"cmp"
	"container/list"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// Options configure a [Coalescer]. Its methods call Publish, Learned and Forgotten
// synchronously; these must not call back into it, and each may be nil.
type Options struct {
	// Window is the time within which changes of one resource are merged.
	Window time.Duration
	// Patience is how long a leading event waits for its read.
	Patience time.Duration
	// Digests says whether resources are read. If not, every signal is published as an update
	// of unknown content.
	Digests bool
	// Baseline returns the digest that was published for a resource before it was
	// added, [catalog.Gone] or [catalog.Unread] if that was published, zero if nothing was.
	// Nil: nothing was published for any resource.
	Baseline func(uri string) catalog.Digest
	// Publish receives every event, in order.
	Publish func(Update)
	// Learned receives what is known of a resource, when that may have changed without an
	// event.
	Learned func(Known)
	// Forgotten receives the URIs of resources that are no longer tracked.
	Forgotten func(uris []string)
	// Replace is called before the kept content of a resource is replaced. It
	// returns the content to keep, which may lack the text. Nil: keep all.
	Replace func(was, now Content) Content
}

// Content is the result of a read.
type Content struct {
	Digest   catalog.Digest
	Size     int64
	MimeType string
	Text     *string // nil unless texts are kept and the content is text
}

func (c Content) known() bool { return !c.Digest.IsZero() }

// Known is what is known of one tracked resource.
type Known struct {
	URI        string
	Descriptor event.Descriptor // from the list; zero if the resource is not listed
	Content    Content          // as last published; zero if unknown
	Gone       bool             // the server reports that it does not exist
	Reported   bool             // that it is Gone was published
	Confirmed  bool             // a read has just found this
}

// Update is one event to publish about a resource.
type Update struct {
	Known
	Cause    event.Cause
	Removed  bool      // the resource no longer exists
	Read     bool      // Content and Previous are results of reads; if unset, the content is unknown
	Previous Content   // zero if nothing was known before
	Received time.Time // when the signal that caused it arrived; zero without one
}

// Counts are totals since New. Signals = Led + Folded + Unknown.
type Counts struct {
	Signals, Led, Folded, Unknown uint64
	Published, Unchanged, Failed  uint64
}

// Coalescer is the state of all tracked resources of one server. See [New].
type Coalescer struct {
	opts       Options
	keys       map[string]*key
	rotation   list.List // of *key: all keys; the front is checked next
	timers     timers
	reads      readQueues
	tombstones tombstones
	counts     Counts
	ending     bool // EndWindows was called: failed reads are not retried
}

// New returns a Coalescer that tracks nothing yet.
func New(opts Options) *Coalescer {
	return &Coalescer{opts: opts, keys: map[string]*key{}, tombstones: tombstones{}}
}

// Add starts to track a resource, or updates the descriptor of a tracked one, which is no
// sub-resource from then on. It reports whether the resource is new. A new one starts
// with the digest of its tombstone, or else of the baseline.
func (c *Coalescer) Add(uri string, d event.Descriptor) (added bool) {
	k, known := c.keys[uri]
	digest := c.tombstones.take(uri)
	if !known {
		if digest.IsZero() && c.opts.Baseline != nil {
			digest = c.opts.Baseline(uri)
		}
		k = c.newKey(uri)
		switch digest {
		case catalog.Gone():
			k.gone, k.reported = true, true
		case catalog.Unread():
			k.noDigest = true
		default:
			k.published = Content{Digest: digest}
		}
		k.learned(false)
	}
	k.adopt(nil)
	k.descriptor = d
	return !known
}

// Lookup returns what is known of a resource; false if it is not tracked.
func (c *Coalescer) Lookup(uri string) (Known, bool) {
	k, ok := c.keys[uri]
	if !ok {
		return Known{}, false
	}
	return k.known(), true
}

// Retain stops tracking the resources for which keep returns false, together with their
// sub-resources, for which keep is not called. If keepTombstone returns true for a dropped
// resource, it leaves a tombstone, with which it is compared when it is added again. Nil: none
// does.
func (c *Coalescer) Retain(keep, keepTombstone func(uri string) bool) {
	var dropped []*key
	for uri, k := range c.keys {
		if k.parent == nil && !keep(uri) {
			dropped = append(dropped, k)
		}
	}
	for _, k := range dropped {
		if keepTombstone != nil && keepTombstone(k.uri) {
			c.tombstones.put(k.uri, k.published.Digest)
		}
	}
	c.forget(dropped)
}

// Reset forgets all resources and tombstones, and sets whether resources are read. No read may
// be in flight. The counts continue.
func (c *Coalescer) Reset(digests bool) {
	clear(c.tombstones)
	for _, k := range c.keys {
		k.remove()
	}
	c.opts.Digests = digests
}

// Digests reports whether resources are read.
func (c *Coalescer) Digests() bool { return c.opts.Digests }

// Counts returns the counts so far.
func (c *Coalescer) Counts() Counts { return c.counts }

// Signal is the announcement that a resource was updated.
type Signal struct {
	Parent   string      // the tracked resource that contains it as a sub-resource; "": none
	N        int         // how often it was announced
	Received time.Time   // when the first announcement was received
	Cause    event.Cause // of the leading event; "": notify
}

// Signal handles an announced update of the resource. If s.Parent is set, the sub-resource is
// tracked from now on, with events of its own, if the parent has room for it. The parent is
// compared, because the change may be part of its content.
func (c *Coalescer) Signal(uri string, s Signal, now time.Time) {
	c.counts.Signals += uint64(s.N)
	k := c.keys[uri]
	var above *key
	if s.Parent != "" {
		above = c.keys[s.Parent]
	}
	switch {
	case k != nil:
		above = cmp.Or(k.parent, above)
	case above == nil:
		c.counts.Unknown += uint64(s.N)
		return
	case !above.makeRoom(now):
		k, above = above, nil
	default:
		k = c.newKey(uri)
		k.adopt(above)
		k.seen = true
	}
	k.signal(s, now)
	if above != nil {
		above.recheck(Resync)
	}
}

// Next returns when Advance has to be called next, zero if never.
func (c *Coalescer) Next() time.Time { return c.timers.next() }

// Advance does everything that is due at the given time.
func (c *Coalescer) Advance(now time.Time) {
	for at := c.timers.next(); !at.IsZero() && !at.After(now); at = c.timers.next() {
		k := c.timers.pop()
		switch {
		case k.waiting:
			k.leadUnread()
		case k.open:
			k.windowEnd(now)
		case k.retry != none:
			reason := k.retry
			k.retry = none
			k.check(reason)
		}
	}
}

// EndWindows ends every window now, for a shutdown: what is outstanding is read and
// published before Busy returns false. It is called again after every answer, because
// a change that was announced during a read needs another one.
func (c *Coalescer) EndWindows(now time.Time) {
	c.ending = true
	for _, k := range c.keys {
		if k.open {
			k.until = now
			if !k.waiting {
				c.timers.set(k, now)
			}
		}
	}
	c.Advance(now)
}

// Busy reports whether announced changes are still to be published.
func (c *Coalescer) Busy() bool {
	if c.reads.urgentPending() {
		return true
	}
	for _, k := range c.keys {
		if k.inFlight && k.reason.urgent() {
			return true // announced during another read of it, so it is read again
		}
	}
	return false
}

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

// CheckNext is Recheck for the next n resources of a rotation through all of them. Repeated
// calls check every resource equally often.
func (c *Coalescer) CheckNext(n int, reason Reason) {
	for range min(n, c.rotation.Len()) {
		front := c.rotation.Front()
		c.rotation.MoveToBack(front)
		front.Value.(*key).recheck(reason)
	}
}

// Len returns how many resources are tracked.
func (c *Coalescer) Len() int { return len(c.keys) }

// FirstLook is Check for a resource that was just added while the others are current. From
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

// CompareAll compares every resource after a suspension. If resources are not read, nobody
// knows whether they changed, and an update is published for each resource that was tracked
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
// known content may be outdated. Signals that wait for a read are published without it, and
// the results of reads in flight are ignored.
func (c *Coalescer) Suspend() {
	for _, k := range c.keys {
		k.suspend()
	}
}

// newKey starts to track a resource of which nothing is known.
func (c *Coalescer) newKey(uri string) *key {
	k := &key{c: c, uri: uri, timer: timer{index: -1}}
	k.turn = c.rotation.PushBack(k)
	c.keys[uri] = k
	return k
}

// forget stops tracking resources and their sub-resources.
func (c *Coalescer) forget(keys []*key) {
	if len(keys) == 0 {
		return
	}
	var uris []string
	for _, k := range keys {
		uris = append(uris, k.uri)
		for child := range k.children {
			uris = append(uris, child.uri)
			child.remove()
		}
		k.remove()
	}
	if c.opts.Forgotten != nil {
		c.opts.Forgotten(uris)
	}
}

// tombstones are the digests of resources that left the server's list, by URI. A resource
// that returns with other content has changed, even if its server announces only the change of
// the list.
type tombstones map[string]catalog.Digest

// maxTombstones bounds the tombstones; beyond it, an arbitrary one is dropped.
const maxTombstones = 10_000

func (t tombstones) put(uri string, d catalog.Digest) {
	if d.IsZero() {
		return
	}
	if len(t) >= maxTombstones {
		for other := range t {
			delete(t, other)
			break
		}
	}
	t[uri] = d
}

// take removes and returns a digest, zero if there is none.
func (t tombstones) take(uri string) catalog.Digest {
	d := t[uri]
	delete(t, uri)
	return d
}
