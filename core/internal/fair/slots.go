package fair

import (
	"slices"
	"sync"
)

// Slots is a semaphore over a [Limit]: whoever finds no room waits. Of those that wait, the
// first one whose principal has room is next.
type Slots struct {
	mu      sync.Mutex
	limit   Limit
	last    uint64             // number of the last slot
	waiting map[string][]*Slot // by principal, the first one first; never empty
}

// NewSlots returns slots of which there are limit.
func NewSlots(limit int) *Slots {
	return &Slots{limit: Limit{Max: limit}, waiting: map[string][]*Slot{}}
}

// Slot is the right of a principal to one place, once Ready is closed.
type Slot struct {
	of        *Slots
	principal string
	number    uint64
	ready     chan struct{} // closed by admit, under the lock of the slots
	held      bool          // guarded by the lock of the slots
}

// Ready is closed when the principal holds the slot.
func (s *Slot) Ready() <-chan struct{} { return s.ready }

// Take asks for a slot. The caller must call Give once, whether it has waited for the slot or
// not.
func (s *Slots) Take(principal string) *Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	slot := &Slot{of: s, principal: principal, number: s.last, ready: make(chan struct{})}
	s.waiting[principal] = append(s.waiting[principal], slot)
	s.admit()
	return slot
}

// Give gives the slot back, or stops waiting for it.
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

// leave removes a slot from those that wait.
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

// admit lets all in for whom there is room. s.mu must be held.
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
