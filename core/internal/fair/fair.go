// Package fair shares limited resources so that no client can use up what the others need.
//
// A [Limit] counts usage by principal. A principal is the set of clients with the same credentials.
// While total usage is below the maximum, any principal may take more. Once the maximum is reached,
// only principals below their fair share may take more; the fair share is the maximum divided by
// the number of principals with any usage. Consequently nothing is reserved for inactive
// principals, a single principal may use everything, a new principal gets something unless there
// are more principals than the maximum, and no principal loses what it already has. Total usage
// stays below the maximum times 1 + ln(principals).
package fair

import (
	"slices"
	"sync"
)

// Limit counts usage by principal. Set Max before the first use. The caller must serialize calls.
// The zero value allows no usage.
type Limit struct {
	Max int

	all int
	of  map[string]int // usage by principal; never 0
}

// Room reports whether the principal may take one more unit.
func (l *Limit) Room(principal string) bool {
	mine, principals := l.of[principal], len(l.of)
	if mine == 0 {
		principals++
	}
	return l.all < l.Max || mine < l.Max/principals
}

// Take counts one more unit for the principal. If that is not allowed, it counts nothing and
// reports false.
func (l *Limit) Take(principal string) bool {
	if !l.Room(principal) {
		return false
	}
	if l.of == nil {
		l.of = map[string]int{}
	}
	l.all++
	l.of[principal]++
	return true
}

// Give returns one of the principal's units.
func (l *Limit) Give(principal string) {
	l.all--
	if l.of[principal]--; l.of[principal] == 0 {
		delete(l.of, principal)
	}
}

// All returns the total usage of all principals.
func (l *Limit) All() int { return l.all }

// Slots is a semaphore based on a [Limit]. A request that exceeds the limit waits. Slots admits
// next the request that has waited longest among those whose principal may take more.
type Slots struct {
	mu      sync.Mutex
	limit   Limit
	last    uint64             // number of the slot that was requested last
	waiting map[string][]*Slot // waiting slots by principal, oldest first; no slice is empty
}

// NewSlots returns a semaphore with limit slots.
func NewSlots(limit int) *Slots {
	return &Slots{limit: Limit{Max: limit}, waiting: map[string][]*Slot{}}
}

// Slot is one slot that a principal requested. The principal holds it once Ready is closed.
type Slot struct {
	of        *Slots
	principal string
	number    uint64
	ready     chan struct{} // closed by admit while it holds Slots.mu
	held      bool          // guarded by Slots.mu
}

// Ready returns a channel that is closed when the principal holds the slot.
func (s *Slot) Ready() <-chan struct{} { return s.ready }

// Take requests a slot. The caller must call Give exactly once, even if it stops waiting for the
// slot.
func (s *Slots) Take(principal string) *Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	slot := &Slot{of: s, principal: principal, number: s.last, ready: make(chan struct{})}
	s.waiting[principal] = append(s.waiting[principal], slot)
	s.admit()
	return slot
}

// Give releases the slot, or cancels the request if the slot is still waiting.
func (s *Slot) Give() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.held {
		s.of.limit.Give(s.principal)
	} else {
		s.of.leave(s)
	}
	s.of.admit()
}

// leave removes a slot from the waiting slots.
func (s *Slots) leave(slot *Slot) {
	queue := s.waiting[slot.principal]
	if queue[0] == slot {
		queue = queue[1:] // the usual case, which takes constant time
	} else {
		i := slices.Index(queue, slot)
		queue = slices.Delete(queue, i, i+1)
	}
	if s.waiting[slot.principal] = queue; len(queue) == 0 {
		delete(s.waiting, slot.principal)
	}
}

// admit admits all waiting slots that the limit allows. The caller must hold s.mu.
func (s *Slots) admit() {
	for {
		var next *Slot
		for principal, queue := range s.waiting {
			if s.limit.Room(principal) && (next == nil || queue[0].number < next.number) {
				next = queue[0]
			}
		}
		if next == nil {
			return
		}
		s.limit.Take(next.principal) // succeeds, as checked above
		s.leave(next)
		next.held = true
		close(next.ready)
	}
}
