package coalesce

import (
	"container/heap"
	"time"
)

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
