package journal

import (
	"sync"

	"github.com/mcptrack/mcptrack/core/event"
)

// item is an entry of the queue: an event, the state of a resource, or a note.
type item struct {
	event    *event.Event
	resource Resource
	state    State  // if event and note are nil
	note     *note  // what to remember, see note
	lease    *Lease // the lease it is stored under; nil: none is needed
	// done gets the outcome if a caller waits for it. The writer sends once and
	// does not close it; capacity 1, so that the writer never waits.
	done chan outcome
}

type outcome struct {
	entry Entry
	err   error
}

// queue holds items between the callers that append and the writer. Pushing never
// waits.
type queue struct {
	// wake is sent to by push, rouse and close and never closed. Capacity 1: a token
	// means that there may be something to take.
	wake chan struct{}

	mu       sync.Mutex // guards all below; held for no I/O
	items    []*item
	capacity int
	limit    int // length at which items are folded: capacity, or more if there are many keys
	closed   bool
	roused   bool
	folded   uint64
	taken    int // items that the writer has taken and not stored yet
}

func newQueue(capacity int) *queue {
	return &queue{wake: make(chan struct{}, 1), capacity: capacity, limit: capacity}
}

func (q *queue) push(it *item) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
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

// take waits for items and returns the oldest, at most n: an empty group after rouse was
// called, nil once the queue is closed and empty.
func (q *queue) take(n int) []*item {
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
			return []*item{}
		}
		<-q.wake
	}
}

// rouse makes one call of take return.
func (q *queue) rouse() {
	q.mu.Lock()
	q.roused = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// size returns how many items are not stored yet, queued or taken by the writer, and how many
// events were folded into others.
func (q *queue) size() (waiting int, folded uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) + q.taken, q.folded
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
