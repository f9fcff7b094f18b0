// Package storing contains the code that all logs with a persistent store share: the queue of items
// that are not stored yet, whose memory use is limited by the number of resources; the stored form
// of events; the statistics and health of the store; and the lifetime of calls to the log.
package storing

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
)

// Item is an element of a [Queue]. It contains an event, or a note, which is data of a type N that
// the implementation of the log defines, or both.
type Item[N any] struct {
	Event *event.Event // nil if the item contains only a note
	// Key identifies the subject of a note without an event. When the queue is folded, a newer note
	// replaces an older one with the same Key.
	Key  string
	Note N
	// done receives the outcome if a caller of Wait waits for it; otherwise it is nil. The writer sends
	// exactly once and never closes the channel. Its capacity is 1, so that the writer never
	// blocks.
	done chan error
}

// Finish sends the outcome to the caller that waits for the item, if there is one. The writer calls it for
// every item without an event.
func (i *Item[N]) Finish(err error) {
	if i.done != nil {
		i.done <- err
	}
}

// foldKey identifies items that can be merged: a newer item replaces an older one with the same
// foldKey.
type foldKey struct {
	server, uri string
	what        event.Type
	name        string // name of a prompt, tool, hook or locked item, which has no URI
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
	case event.HookReceived:
		k.name = p.HookID
	case event.LockDrift:
		k.name = p.Item + "\x00" + p.Lock
	}
	return k
}

// Queue passes items from the callers that append them to the writer that stores them. Push never
// waits. Its methods are safe for concurrent use, but only one goroutine may call Take.
type Queue[N any] struct {
	wake wake.Channel // received by Take: there may be something to return

	mu       sync.Mutex // guards the fields below; not held during I/O
	items    []*Item[N]
	capacity int
	limit    int // length that triggers folding; higher than capacity if many items have distinct keys
	closed   bool
	roused   bool
	folded   uint64
	taken    int // number of items that Take returned and that are not stored yet
}

// NewQueue returns an empty queue. When it contains more than capacity items, older items are
// merged into newer ones with the same foldKey.
func NewQueue[N any](capacity int) *Queue[N] {
	return &Queue[N]{wake: wake.New(), capacity: capacity, limit: capacity}
}

// Push appends an item. The only error that it returns is [journal.ErrClosed].
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
		// The remaining items have distinct keys, so folding again is useless until the queue has
		// doubled.
		q.limit = max(q.capacity, 2*len(q.items))
	}
	q.mu.Unlock()
	q.wake.Send()
	return nil
}

// Wait appends an empty item and waits until the writer has finished it.
func (q *Queue[N]) Wait(ctx context.Context) error {
	it := &Item[N]{done: make(chan error, 1)}
	if err := q.Push(it); err != nil {
		return err
	}
	select {
	case err := <-it.done:
		return err
	case <-ctx.Done():
		q.withdraw(it)
		return notStored(ctx)
	}
}

// withdraw removes an item whose caller no longer waits for it, unless the writer has already taken
// it. An item with a waiting caller is never merged, so such items would exhaust the memory while
// the store fails.
func (q *Queue[N]) withdraw(it *Item[N]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.items, it); i >= 0 {
		q.items = slices.Delete(q.items, i, i+1)
	}
}

// Take waits for items, then removes and returns the oldest ones, at most n. It returns an empty
// slice that is not nil after a call to Rouse, and nil when the queue is closed and empty.
func (q *Queue[N]) Take(n int) []*Item[N] {
	for {
		q.mu.Lock()
		q.taken = 0 // the writer has stored the items of the previous call
		if len(q.items) > 0 {
			n = min(n, len(q.items))
			out := q.items[:n:n]
			q.items = q.items[n:]
			q.taken = n
			if len(q.items) == 0 {
				q.items = nil // out now owns the array
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

// Stored records that all items that Take returned are stored. The next call to Take records the
// same, but the writer calls Stored earlier: before it wakes a caller that may then check Size.
func (q *Queue[N]) Stored() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
}

// Rouse makes one call to Take return even if the queue is empty.
func (q *Queue[N]) Rouse() {
	q.mu.Lock()
	q.roused = true
	q.mu.Unlock()
	q.wake.Send()
}

// Close makes Push reject new items. Take still returns the items that are already queued.
func (q *Queue[N]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake.Send()
}

// Size returns the number of items that are not stored yet, whether queued or taken, and the number
// of events that were merged into others.
func (q *Queue[N]) Size() (waiting int, folded uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) + q.taken, q.folded
}

// fold merges items into newer ones with the same key. It returns the remaining items, in the order
// of the newest item for each key, and the number of events that were merged. It never merges an
// item that a caller waits for.
func fold[N any](items []*Item[N]) (kept []*Item[N], folded int) {
	newest := make(map[foldKey]*Item[N], len(items))
	for _, it := range slices.Backward(items) {
		if it.done != nil {
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

// merge returns a copy of the newer event that also covers the change that the older event reports.
// It modifies neither argument, because events are shared.
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
			e.Payload, e.Exported = was.Then(now), mergeNames(older.Exported, newer.Exported, now)
		}
	}
	return &e
}

// mergeNames combines the exported names from two successive changes to a list. now is the newer
// change.
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
