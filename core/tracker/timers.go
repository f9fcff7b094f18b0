package tracker

import (
	"container/heap"
	"time"
)

// timers is a heap of the keys that wait for a time.
type timers []*key

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer, t[j].timer = i, j
}

// Push implements [heap.Interface].
func (t *timers) Push(x any) {
	k := x.(*key)
	k.timer = len(*t)
	*t = append(*t, k)
}

// Pop implements [heap.Interface].
func (t *timers) Pop() any {
	old := *t
	k := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	k.timer = -1
	return k
}

// schedule sets the key's one timer; the zero time takes it away.
func (c *coalescer) schedule(k *key, at time.Time) {
	k.at = at
	switch {
	case at.IsZero() && k.timer >= 0:
		heap.Remove(&c.timers, k.timer)
	case at.IsZero():
	case k.timer >= 0:
		heap.Fix(&c.timers, k.timer)
	default:
		heap.Push(&c.timers, k)
	}
}
