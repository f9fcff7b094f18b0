package coalesce

import (
	"container/heap"
	"container/list"
	"time"
)

// readQueues order the reads of all keys. A key is queued at most once.
type readQueues struct {
	waiting  [2]list.List // of *key: leading and trailing reads, then the others
	inFlight [2]int       // reads in flight, of either kind
	streak   int          // consecutive urgent reads taken
}

// place is a key's position in a queue.
type place struct {
	queue   *list.List // nil: not queued
	element *list.Element
}

// maxUrgentStreak is the number of consecutive urgent reads after which another read gets its
// turn: resources that are announced all the time must not starve the others.
const maxUrgentStreak = 7

func index(r Reason) int {
	if r.urgent() {
		return 0
	}
	return 1
}

// push queues the key's read, unless it has none or it is queued or in flight.
func (q *readQueues) push(k *key) {
	if k.reason == none || k.inFlight || k.queued.queue != nil {
		return
	}
	queue := &q.waiting[index(k.reason)]
	k.queued = place{queue, queue.PushBack(k)}
}

// remove takes the key out of its queue.
func (q *readQueues) remove(k *key) {
	if k.queued.queue != nil {
		k.queued.queue.Remove(k.queued.element)
		k.queued = place{}
	}
}

// next takes a key to be read now, nil if there is none. Urgent reads may use all
// slots and go first, except that every eighth read is another one. The others use at most half
// of the slots, and none if only urgent reads still matter.
func (q *readQueues) next(slots int, urgentOnly bool) *key {
	if q.inFlight[0]+q.inFlight[1] >= slots {
		return nil
	}
	urgent, others := q.waiting[0].Len() > 0, q.waiting[1].Len() > 0
	if q.inFlight[1] >= max(1, slots/2) || urgentOnly && urgent {
		others = false
	}
	switch {
	case others && (!urgent || q.streak >= maxUrgentStreak):
		q.streak = 0
		return q.take(1)
	case urgent:
		q.streak++
		return q.take(0)
	}
	return nil
}

func (q *readQueues) take(i int) *key {
	k := q.waiting[i].Front().Value.(*key)
	q.remove(k)
	q.inFlight[i]++
	return k
}

// done frees the slot of a read that began for the reason r.
func (q *readQueues) done(r Reason) { q.inFlight[index(r)]-- }

// abandon forgets the reads in flight.
func (q *readQueues) abandon() { q.inFlight = [2]int{} }

// urgentPending reports whether urgent reads are queued or in flight.
func (q *readQueues) urgentPending() bool { return q.inFlight[0] > 0 || q.waiting[0].Len() > 0 }

// timer is the one timer of a key.
type timer struct {
	at    time.Time // zero: not set
	index int       // in the heap, -1 when not there
}

// timers are the timers that are set.
type timers struct{ heap timerHeap }

// next returns when the first timer expires; zero if none is set.
func (t *timers) next() time.Time {
	if len(t.heap) == 0 {
		return time.Time{}
	}
	return t.heap[0].at
}

// pop clears the timer that expires first, and returns its key.
func (t *timers) pop() *key {
	k := t.heap[0]
	t.set(k, time.Time{})
	return k
}

// set sets the key's timer; the zero time clears it.
func (t *timers) set(k *key, at time.Time) {
	k.at = at
	switch {
	case at.IsZero() && k.index >= 0:
		heap.Remove(&t.heap, k.index)
	case at.IsZero():
	case k.index >= 0:
		heap.Fix(&t.heap, k.index)
	default:
		heap.Push(&t.heap, k)
	}
}

type timerHeap []*key

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *timerHeap) Push(x any) {
	k := x.(*key)
	k.index = len(*h)
	*h = append(*h, k)
}

// Pop implements [heap.Interface].
func (h *timerHeap) Pop() any {
	old := *h
	k := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	k.index = -1
	return k
}
