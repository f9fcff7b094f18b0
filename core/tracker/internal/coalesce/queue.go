package coalesce

import (
	"container/heap"
	"container/list"
	"time"
)

// readQueues determines the order of the reads of all keys. A key is queued at most once.
type readQueues struct {
	waiting  [2]list.List // values are *key; first the leading and trailing reads, then the other reads
	inFlight [2]int       // number of reads in flight in each of the two classes
	streak   int          // number of consecutive urgent reads taken
}

// place is the position of a key in a queue.
type place struct {
	queue   *list.List // nil if not queued
	element *list.Element
}

// maxUrgentStreak is the number of consecutive urgent reads after which another read is made, so
// that resources with continual announcements do not starve the others.
const maxUrgentStreak = 7

func index(r Reason) int {
	if r.urgent() {
		return 0
	}
	return 1
}

// push queues the key's read, unless there is none or it is already queued or in flight.
func (q *readQueues) push(k *key) {
	if k.reason == none || k.inFlight || k.queued.queue != nil {
		return
	}
	queue := &q.waiting[index(k.reason)]
	k.queued = place{queue, queue.PushBack(k)}
}

func (q *readQueues) remove(k *key) {
	if k.queued.queue != nil {
		k.queued.queue.Remove(k.queued.element)
		k.queued = place{}
	}
}

// next removes and returns the key to be read next, or nil if there is none. Urgent reads have
// priority and may use all slots, except that every eighth read is not urgent. Other reads may use
// at most half of the slots, and none if urgentOnly is set.
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

// done frees the slot of a read that was started for the given reason.
func (q *readQueues) done(r Reason) { q.inFlight[index(r)]-- }

func (q *readQueues) abandon() { q.inFlight = [2]int{} }

// urgentPending reports whether urgent reads are queued or in flight.
func (q *readQueues) urgentPending() bool { return q.inFlight[0] > 0 || q.waiting[0].Len() > 0 }

// timer is the timer of a key.
type timer struct {
	at    time.Time // zero if not set
	index int       // index in the heap; -1 if not in the heap
}

// timers holds all timers that are set.
type timers struct{ heap timerHeap }

// next returns when the first timer expires, or zero if none is set.
func (t *timers) next() time.Time {
	if len(t.heap) == 0 {
		return time.Time{}
	}
	return t.heap[0].at
}

// pop clears the timer that expires first and returns its key.
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

func (h *timerHeap) Push(x any) {
	k := x.(*key)
	k.index = len(*h)
	*h = append(*h, k)
}

func (h *timerHeap) Pop() any {
	old := *h
	k := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	k.index = -1
	return k
}
