package coalesce

import "container/list"

// readQueues order the reads of all keys. A key is queued at most once.
type readQueues struct {
	waiting  [2]list.List // of *key: leading and trailing reads, then the others
	inFlight [2]int       // reads in flight, of either kind
	streak   int          // urgent reads taken in a row
}

// place is a key's position in a queue.
type place struct {
	queue   *list.List // nil: not queued
	element *list.Element
}

// maxUrgentStreak is the number of urgent reads after which another one gets its turn:
// resources that are announced all the time must not keep the others from being read.
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
// slots and come first, but for every eighth; the others use half of the slots at
// most, and none if only the urgent ones still matter.
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
