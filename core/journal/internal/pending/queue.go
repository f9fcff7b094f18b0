// Package pending holds what was appended to a log and is not stored yet: a queue whose memory is
// bounded by the number of resources, and the form in which events are stored.
package pending

import (
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// Item is an entry of a [Queue]: an event, or a note of the implementation's own kind N.
type Item[N any] struct {
	Event *event.Event // nil: the item is only a note
	// Key identifies what a note without an event is about: a newer note with the same Key makes
	// an older one unnecessary.
	Key string
	// Note is what the implementation wants to know of the item.
	Note N
	// Done gets the outcome if a caller waits for it; else nil. The writer sends once and does
	// not close it; capacity 1, so that the writer never waits.
	Done chan Outcome
}

// Outcome says what became of an event.
type Outcome struct {
	Entry journal.Entry
	Err   error
}

// Finish tells a caller that waits for the item what became of it.
func (i *Item[N]) Finish(e journal.Entry, err error) {
	if i.Done != nil {
		i.Done <- Outcome{e, err}
	}
}

// Queue holds items between the callers that append and the writer. Pushing never
// waits. Its methods may be called from several goroutines, Take from one.
type Queue[N any] struct {
	// wake is sent to by Push, Rouse and Close and never closed. Capacity 1: a token
	// means that there may be something to take.
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

// New returns an empty queue. Beyond capacity, items are merged into newer ones about the same
// thing, see [Item].
func New[N any](capacity int) *Queue[N] {
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
		// The remaining items have distinct keys. Folding again only helps after as many more
		// were added.
		q.limit = max(q.capacity, 2*len(q.items))
	}
	q.mu.Unlock()
	q.signal()
	return nil
}

// Take waits for items and returns the oldest, at most n: an empty group after Rouse was
// called, nil once the queue is closed and empty.
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

// Stored says that everything that Take returned is stored. The next call of Take says so, too; the
// writer calls Stored before it tells somebody who then looks at Size.
func (q *Queue[N]) Stored() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
}

// Withdraw removes an item whose caller no longer waits for it, unless the writer has taken it: such
// items are not merged, so they would fill the memory while nothing can be stored. The item must
// not have an event.
func (q *Queue[N]) Withdraw(it *Item[N]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.items, it); i >= 0 {
		q.items = slices.Delete(q.items, i, i+1)
	}
}

// Rouse makes one call of Take return.
func (q *Queue[N]) Rouse() {
	q.mu.Lock()
	q.roused = true
	q.mu.Unlock()
	q.signal()
}

// Close lets no more items in; those that are queued can still be taken.
func (q *Queue[N]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// Size returns how many items are not stored yet, queued or taken by the writer, and how many
// events were folded into others.
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
