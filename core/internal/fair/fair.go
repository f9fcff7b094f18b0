// Package fair bounds shared resources so that no client can use up what the others need.
//
// A [Limit] counts by principal, which stands for the clients with the same credentials. While
// less than the maximum is in use, every principal may take more. From then on only principals
// below their share may: the maximum, divided by the number of principals that use anything.
// So nothing is reserved for absent principals, a single principal may use everything, a new
// one gets something unless there are more principals than the maximum, and nobody loses what
// it has. The total stays below the maximum times 1 + ln(principals).
package fair

import (
	"slices"
	"sync"
)

// Limit counts what principals use. Set Max before the first use; the caller must serialize calls.
// The zero value allows nothing.
type Limit struct {
	Max int

	all int
	of  map[string]int // what each principal uses; never 0
}

// Room reports whether the principal may take one more.
func (l *Limit) Room(principal string) bool {
	mine, principals := l.of[principal], len(l.of)
	if mine == 0 {
		principals++
	}
	return l.all < l.Max || mine < l.Max/principals
}

// Take counts one more for the principal; it reports false, without counting, if there is no room.
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

// Give counts one less for the principal.
func (l *Limit) Give(principal string) {
	l.all--
	if l.of[principal]--; l.of[principal] == 0 {
		delete(l.of, principal)
	}
}

// All returns the total use of all principals.
func (l *Limit) All() int { return l.all }

// Slots is a semaphore over a [Limit]. Requests that find no room wait. The next to be admitted is
// the longest waiting one whose principal has room.
type Slots struct {
	mu      sync.Mutex
	limit   Limit
	last    uint64             // number of the last slot
	waiting map[string][]*Slot // by principal, oldest first; never empty
}

// NewSlots returns a semaphore with limit slots.
func NewSlots(limit int) *Slots {
	return &Slots{limit: Limit{Max: limit}, waiting: map[string][]*Slot{}}
}

// Slot is one slot of a principal, held once Ready is closed.
type Slot struct {
	of        *Slots
	principal string
	number    uint64
	ready     chan struct{} // closed by admit, under the lock of the slots
	held      bool          // guarded by the lock of the slots
}

// Ready is closed when the principal holds the slot.
func (s *Slot) Ready() <-chan struct{} { return s.ready }

// Take requests a slot. The caller must call Give once, whether or not it waited for the slot.
func (s *Slots) Take(principal string) *Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	slot := &Slot{of: s, principal: principal, number: s.last, ready: make(chan struct{})}
	s.waiting[principal] = append(s.waiting[principal], slot)
	s.admit()
	return slot
}

// Give returns the slot, or stops waiting for it.
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

// leave removes a slot from the waiting ones.
func (s *Slots) leave(slot *Slot) {
	queue := s.waiting[slot.principal]
	if queue[0] == slot {
		queue = queue[1:] // the usual case, in constant time
	} else {
		i := slices.Index(queue, slot)
		queue = slices.Delete(queue, i, i+1)
	}
	if s.waiting[slot.principal] = queue; len(queue) == 0 {
		delete(s.waiting, slot.principal)
	}
}

// admit admits everybody for whom there is room. s.mu must be held.
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
		s.limit.Take(next.principal) // there is room
		s.leave(next)
		next.held = true
		close(next.ready)
	}
}
