// Package coalesce decides, for every tracked resource of one server, when to read it and which
// events to publish about it. It is a pure state machine: its owner passes it notifications, the
// results of reads and the current time, and performs the reads that it requests. It never blocks,
// starts goroutines or reads a clock. It is not safe for concurrent use.
//
// # Windows
//
// A resource is either idle or has an open debounce window. A signal (a notification of an update)
// for an idle resource opens a window: the dirty bit is cleared, a read is queued, and the leading
// event is published unconditionally, with the digest once the read has completed, or without it
// after [Options.Patience]. Further signals within the window only set the dirty bit. If the dirty
// bit is set when the window ends, the bit is cleared, the resource is read again, a trailing event
// is published only if the content differs from the last published content, and the next window
// begins. Otherwise the resource becomes idle. The dirty bit is always cleared before a read and
// never after it, so that a change that the read may have missed sets the bit again.
//
// # Reads
//
// The owner takes reads from [Coalescer.NextRead], sends the requests, and passes the results to
// [Coalescer.Answer]. Leading and trailing reads have priority, but every eighth read is of another
// kind (a first look, a comparison or a poll).
//
// # Guarantees
//
// Order: events about one resource are published in the order of its reads. Loss: once a resource
// stops changing and its reads succeed, the last event describes its current content. Memory: usage
// is bounded by the number of resources, not by the number of signals.
package coalesce

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// Options configure a [Coalescer]. Its methods call Publish, Learned and Forgotten synchronously;
// these must not call methods of the Coalescer. Each of them may be nil.
type Options struct {
	// Window is the debounce window: changes to one resource within this time are merged.
	Window time.Duration
	// Patience is how long a leading event waits for the result of its read.
	Patience time.Duration
	// Digests reports whether resources are read. If not, every signal is published as an update with
	// unknown content.
	Digests bool
	// Baseline returns what was published about a resource before it was added: see [Known.Told]. If
	// Baseline is nil, nothing was published about any resource.
	Baseline func(uri string) catalog.Digest
	// Publish receives every event, in order.
	Publish func(Update)
	// Learned receives the state of a resource that was added, or that a read has just found to be as
	// published.
	Learned func(Known)
	// Forgotten receives the last states of resources that are no longer tracked.
	Forgotten func([]Known)
	// Replace is called before the stored content of a resource is replaced. It returns the content
	// to store, possibly without its text. If Replace is nil, the content is stored unchanged.
	Replace func(was, now Content) Content
}

// Content describes the content returned by a read.
type Content struct {
	Digest   catalog.Digest
	Size     int64
	MimeType string
	Text     *string // nil unless texts are kept and the content is text
}

func (c Content) known() bool { return !c.Digest.IsZero() }

// Known describes the state of one tracked resource.
type Known struct {
	URI        string
	Descriptor event.Descriptor // descriptor in the list; zero if the resource is not listed
	Content    Content          // last published content; zero if unknown
	Gone       bool             // the server reported that the resource does not exist
	Reported   bool             // it was published that the resource is Gone
	Unread     bool             // the last event had no digest
}

// Told returns the digest in the last event about the resource: [catalog.Gone] or [catalog.Unread] if that
// was published instead, and zero if nothing is known.
func (r *Known) Told() catalog.Digest {
	switch {
	case r.Gone:
		return catalog.Gone()
	case r.Unread:
		return catalog.Unread()
	}
	return r.Content.Digest
}

// Update describes one event to be published about a resource.
type Update struct {
	Known
	Cause    event.Cause
	Removed  bool      // the resource no longer exists
	Read     bool      // Content and Previous come from reads; if false, the content is unknown
	Previous Content   // zero if no previous content is known
	Received time.Time // when the signal that caused the event arrived; zero if there was none
}

// Counts holds totals since the Coalescer was created. Signals = Led + Folded + Unknown.
type Counts struct {
	Signals, Led, Folded, Unknown uint64
	Published, Unchanged, Failed  uint64
}

// Coalescer holds the state of all tracked resources of one server. Use [New] to create one.
type Coalescer struct {
	opts     Options
	keys     map[string]*key
	rotation list.List // values are *key, containing every key; the front is checked next
	timers   timers
	reads    readQueues
	counts   Counts
	ending   bool // set by EndWindows: failed reads are no longer retried
}

// New returns a Coalescer without any resources.
func New(opts Options) *Coalescer {
	return &Coalescer{opts: opts, keys: map[string]*key{}}
}

// Add starts to track a resource and reports whether it is new. If the resource is already tracked,
// its descriptor is updated, and it is no longer treated as a sub-resource. A new resource starts
// with the baseline.
func (c *Coalescer) Add(uri string, d event.Descriptor) (added bool) {
	k, known := c.keys[uri]
	if !known {
		var digest catalog.Digest
		if c.opts.Baseline != nil {
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
		k.learned()
	}
	k.adopt(nil)
	k.descriptor = d
	return !known
}

// Lookup returns the state of a resource, or false if it is not tracked.
func (c *Coalescer) Lookup(uri string) (Known, bool) {
	k, ok := c.keys[uri]
	if !ok {
		return Known{}, false
	}
	return k.known(), true
}

// Retain stops tracking the resources for which keep returns false, together with their
// sub-resources; keep is not called for sub-resources.
func (c *Coalescer) Retain(keep func(uri string) bool) {
	var dropped []*key
	for uri, k := range c.keys {
		if k.parent == nil && !keep(uri) {
			dropped = append(dropped, k)
		}
	}
	c.forget(dropped)
}

// Reset forgets all resources, without a call of Forgotten. digests sets whether resources are read from
// now on. No read may be in flight. The counts are not reset.
func (c *Coalescer) Reset(digests bool) {
	for _, k := range c.keys {
		k.remove()
	}
	c.opts.Digests = digests
}

func (c *Coalescer) Digests() bool { return c.opts.Digests }

func (c *Coalescer) Counts() Counts { return c.counts }

// Signal describes one or more notifications that a resource was updated.
type Signal struct {
	Parent   string      // tracked resource that contains it as a sub-resource; empty if none
	N        int         // number of notifications
	Received time.Time   // when the first notification was received
	Cause    event.Cause // cause of the leading event; empty means notify
}

// Signal handles an announced update of a resource. If s.Parent is set, the resource is a
// sub-resource: it is tracked from now on and has its own events, unless the parent already has too
// many sub-resources. The parent is compared, because its content may include the change.
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

// Next returns when Advance must next be called, or zero if never.
func (c *Coalescer) Next() time.Time { return c.timers.next() }

// Advance performs everything that is due at the given time.
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

// EndWindows ends every window immediately, for a shutdown: outstanding changes are read and
// published before Busy returns false. It must be called again after every answer, because a change
// announced during a read requires another read.
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

// Busy reports whether any announced changes have not been published yet.
func (c *Coalescer) Busy() bool {
	if c.reads.urgentPending() {
		return true
	}
	for _, k := range c.keys {
		if k.inFlight && k.reason.urgent() {
			return true // an update was announced during a read, so the resource will be read again
		}
	}
	return false
}

// Check reads a tracked resource outside any window and publishes its content if it differs from
// the last published content. If nothing is known about the resource yet, the first read publishes
// nothing.
func (c *Coalescer) Check(uri string, reason Reason) {
	if k, ok := c.keys[uri]; ok {
		k.check(reason)
	}
}

func (c *Coalescer) CheckAll(reason Reason) {
	for _, k := range c.keys {
		k.check(reason)
	}
}

// CheckNext calls Recheck for the next n resources of a rotation through all resources. With
// repeated calls, every resource is checked equally often.
func (c *Coalescer) CheckNext(n int, reason Reason) {
	for range min(n, c.rotation.Len()) {
		front := c.rotation.Front()
		c.rotation.MoveToBack(front)
		front.Value.(*key).recheck(reason)
	}
}

// URIs returns the URIs of all tracked resources, in no particular order.
func (c *Coalescer) URIs() []string { return slices.Collect(maps.Keys(c.keys)) }

func (c *Coalescer) Len() int { return len(c.keys) }

// FirstLook calls Check for a resource that was just added while the other resources are up to
// date. From now on [Coalescer.CompareAll] includes the resource.
func (c *Coalescer) FirstLook(uri string) {
	if k, ok := c.keys[uri]; ok {
		k.seen = true
		k.check(Resync)
	}
}

// Recheck is like Check, for a resource that may just have changed without an announcement: the
// result of a read that is in flight may be too old to include the change.
func (c *Coalescer) Recheck(uri string, reason Reason) {
	if k, ok := c.keys[uri]; ok {
		k.recheck(reason)
	}
}

// CompareAll compares every resource after Suspend. If resources are not read, it is unknown
// whether they changed, so an update is published for each resource that was tracked before
// Suspend.
func (c *Coalescer) CompareAll() {
	for _, k := range c.keys {
		k.compare()
	}
}

// Compare does the same as CompareAll for one resource and its sub-resources.
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

// Suspend closes all windows because notifications or the session may have been lost, so all known
// content may be outdated. Events that wait for a read are published without its result, and the
// results of reads in flight will be ignored.
func (c *Coalescer) Suspend() {
	for _, k := range c.keys {
		k.suspend()
	}
}

// newKey starts to track a resource whose state is unknown.
func (c *Coalescer) newKey(uri string) *key {
	k := &key{c: c, uri: uri, timer: timer{index: -1}}
	k.turn = c.rotation.PushBack(k)
	c.keys[uri] = k
	return k
}

func (c *Coalescer) forget(keys []*key) {
	if len(keys) == 0 {
		return
	}
	var forgotten []Known
	for _, k := range keys {
		forgotten = append(forgotten, k.known())
		for child := range k.children {
			forgotten = append(forgotten, child.known())
			child.remove()
		}
		k.remove()
	}
	if c.opts.Forgotten != nil {
		c.opts.Forgotten(forgotten)
	}
}
