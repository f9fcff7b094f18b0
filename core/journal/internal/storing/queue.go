// Package storing has what every log with a store shares: the queue of items that are not stored
// yet, whose memory is bounded by the number of resources; the stored form of events; counts and
// the health of the store; and the lifetime of the log's callers.
package storing

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// Item is an entry of a [Queue]: an event, or a note of the implementation's own kind N.
type Item[N any] struct {
	Event *event.Event // nil: the item is only a note
	// Key identifies the subject of a note without an event: a newer note with the same Key
	// replaces an older one.
	Key  string
	Note N
	// Done receives the outcome if a caller waits for it; otherwise it is nil. The writer sends
	// once and never closes it. Capacity 1, so that the writer never waits.
	Done chan Outcome
}

// Outcome says what became of an event.
type Outcome struct {
	Entry journal.Entry
	Err   error
}

// Finish reports the outcome to the caller that waits for the item, if there is one.
func (i *Item[N]) Finish(e journal.Entry, err error) {
	if i.Done != nil {
		i.Done <- Outcome{e, err}
	}
}

// foldKey identifies items that can be merged: a newer item replaces an older one with the same key.
type foldKey struct {
	server, uri string
	what        event.Type
	name        string // of a prompt or tool, which has no URI
}

func (i *Item[N]) key() foldKey {
	if i.Event == nil {
		return foldKey{what: "note", name: i.Key}
	}
	k := foldKey{server: i.Event.ServerID, uri: i.Event.ResourceURI, what: i.Event.Type()}
	switch p := i.Event.Payload.(type) {
	case event.PromptContent:
		k.name = p.Name
	case event.ToolResult:
		k.name = p.Name
	}
	return k
}

// Queue holds items between the callers that append and the writer. Push never waits. Its methods
// may be called from several goroutines, Take from one.
type Queue[N any] struct {
	// wake is sent to by Push, Rouse and Close and never closed. Capacity 1: a token means that there
	// may be something to take.
	wake chan struct{}

	mu       sync.Mutex // guards all below; held for no I/O
	items    []*Item[N]
	capacity int
	limit    int // length at which items are folded: capacity, or more if there are many keys
	closed   bool
	roused   bool
	folded   uint64
	taken    int // items that the writer has taken and not stored yet
}

// NewQueue returns an empty queue. Beyond capacity, items are merged into newer ones with the same
// subject; see [Item].
func NewQueue[N any](capacity int) *Queue[N] {
	return &Queue[N]{wake: make(chan struct{}, 1), capacity: capacity, limit: capacity}
}

// Push adds an item at the end. The only error is [journal.ErrClosed].
func (q *Queue[N]) Push(it *Item[N]) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return journal.ErrClosed
	}
	q.items = append(q.items, it)
	if len(q.items) > q.limit {
		var n int
		q.items, n = fold(q.items)
		q.folded += uint64(n)
		// The remaining items have distinct keys. Folding again helps only after the queue has
		// doubled.
		q.limit = max(q.capacity, 2*len(q.items))
	}
	q.mu.Unlock()
	q.signal()
	return nil
}

// Do adds an item and waits until the writer has finished it. If ctx ends first, a note is
// withdrawn, but an event may still be stored.
func (q *Queue[N]) Do(ctx context.Context, it *Item[N]) (journal.Entry, error) {
	it.Done = make(chan Outcome, 1)
	if err := q.Push(it); err != nil {
		return journal.Entry{}, err
	}
	select {
	case out := <-it.Done:
		return out.Entry, out.Err
	case <-ctx.Done():
		q.withdraw(it)
		return journal.Entry{}, notStored(ctx)
	}
}

// withdraw removes a note whose caller no longer waits for it, unless the writer has taken it. Such
// notes are never merged, so they would fill the memory while the store fails.
func (q *Queue[N]) withdraw(it *Item[N]) {
	if it.Event != nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.items, it); i >= 0 {
		q.items = slices.Delete(q.items, i, i+1)
	}
}

// Take waits for items and returns the oldest, at most n: an empty group after Rouse, nil after the
// queue is closed and empty.
func (q *Queue[N]) Take(n int) []*Item[N] {
	for {
		q.mu.Lock()
		q.taken = 0 // the writer has stored what it took before
		if len(q.items) > 0 {
			n = min(n, len(q.items))
			out := q.items[:n:n]
			q.items = q.items[n:]
			q.taken = n
			if len(q.items) == 0 {
				q.items = nil // the array belongs to out
				q.limit = q.capacity
			}
			q.mu.Unlock()
			return out
		}
		closed, roused := q.closed, q.roused
		q.roused = false
		q.mu.Unlock()
		if closed {
			return nil
		}
		if roused {
			return []*Item[N]{}
		}
		<-q.wake
	}
}

// Stored records that everything that Take returned is stored; the next Take does the same. The
// writer calls it before it wakes a caller that may look at Size.
func (q *Queue[N]) Stored() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
}

// Rouse makes one call of Take return.
func (q *Queue[N]) Rouse() {
	q.mu.Lock()
	q.roused = true
	q.mu.Unlock()
	q.signal()
}

// Close rejects later items. Queued items can still be taken.
func (q *Queue[N]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// Size returns how many items are not stored yet, queued or taken, and how many events were folded
// into others.
func (q *Queue[N]) Size() (waiting int, folded uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) + q.taken, q.folded
}

func (q *Queue[N]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// fold merges items into newer ones with the same key. It returns the remaining items, in the order
// of the newer ones, and how many events were merged. It does not merge an item that a caller waits
// for.
func fold[N any](items []*Item[N]) (kept []*Item[N], folded int) {
	newest := make(map[foldKey]*Item[N], len(items))
	for n := len(items) - 1; n >= 0; n-- {
		it := items[n]
		if it.Done != nil {
			kept = append(kept, it)
			continue
		}
		k := it.key()
		newer, ok := newest[k]
		if !ok {
			newest[k] = it
			kept = append(kept, it)
			continue
		}
		if it.Event != nil {
			newer.Event = merge(it.Event, newer.Event)
			folded++
		}
	}
	slices.Reverse(kept)
	return kept, folded
}

// merge returns the newer event with the members that only the older one has. It changes neither;
// events are shared.
func merge(older, newer *event.Event) *event.Event {
	e := *newer
	if e.Received.IsZero() || !older.Received.IsZero() && older.Received.Before(e.Received) {
		e.Received = older.Received
	}
	switch now := newer.Payload.(type) {
	case event.ResourceUpdated:
		was, _ := older.Payload.(event.ResourceUpdated)
		switch {
		case was.Digest.IsZero() || now.Digest.IsZero():
		case was.PreviousDigest.IsZero():
			now.PreviousDigest, now.PreviousText, now.Changed = was.PreviousDigest, was.PreviousText, was.Changed
		default:
			changed := now.Digest != was.PreviousDigest
			now.PreviousDigest, now.PreviousText, now.Changed = was.PreviousDigest, was.PreviousText, &changed
		}
		e.Payload = now
	case event.ServerState:
		if was, ok := older.Payload.(event.ServerState); ok {
			now.Previous = was.Previous
			e.Payload = now
		}
	case event.ListChanged:
		if was, ok := older.Payload.(event.ListChanged); ok && now.List == was.List {
			e.Payload, e.Exported = mergeLists(was, now), mergeNames(older.Exported, newer.Exported, now)
		}
	}
	return &e
}

// mergeNames combines the exported names of two changes of a list; now is the newer one.
func mergeNames(older, newer map[string]string, now event.ListChanged) map[string]string {
	if older == nil || newer == nil {
		return nil
	}
	names := maps.Clone(older)
	for _, key := range slices.Concat(now.Added, now.Removed, now.Changed) {
		delete(names, key)
	}
	maps.Copy(names, newer)
	return names
}

// mergeLists combines two changes of one list. A key that was added and then removed ends as
// removed; one that was removed and then added ends as changed.
func mergeLists(was, now event.ListChanged) event.ListChanged {
	type fate struct{ before, after bool }
	fates := map[string]fate{}
	for _, l := range []event.ListChanged{was, now} {
		note := func(keys []string, before, after bool) {
			for _, k := range keys {
				f, seen := fates[k]
				if !seen {
					f.before = before
				}
				f.after = after
				fates[k] = f
			}
		}
		note(l.Removed, true, false)
		note(l.Added, false, true)
		note(l.Changed, true, true)
	}
	sum := event.ListChanged{List: now.List, Error: now.Error, Items: cmp.Or(now.Items, was.Items)}
	sum.Follows = slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.Follows, now.Follows))))
	for k, f := range fates {
		switch {
		case f.before && f.after:
			sum.Changed = append(sum.Changed, k)
		case f.after:
			sum.Added = append(sum.Added, k)
		case f.before:
			sum.Removed = append(sum.Removed, k)
		}
	}
	slices.Sort(sum.Added)
	slices.Sort(sum.Removed)
	slices.Sort(sum.Changed)
	return sum
}
