package fair_test

import (
	"context"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/internal/fair"
)

func ready(s *fair.Slot) bool {
	select {
	case <-s.Ready():
		return true
	default:
		return false
	}
}

// Whoever waits is admitted in turn; the queue of one principal does not hold up another one.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := fair.NewSlots(2)
	var alice []*fair.Slot
	for range 5 {
		alice = append(alice, s.Take("alice"))
	}
	if !ready(alice[0]) || !ready(alice[1]) || ready(alice[2]) {
		t.Error("not two of alice have a slot")
	}
	bob, second := s.Take("bob"), s.Take("bob")
	if !ready(bob) || ready(second) {
		t.Error("bob does not have exactly his share")
	}
	alice[2].Give() // it stops waiting
	alice[0].Give()
	if ready(alice[3]) || ready(second) {
		t.Error("there are more slots than that")
	}
	bob.Give()
	if !ready(alice[3]) || !ready(second) || ready(alice[4]) {
		t.Error("not the one that waited for longest was next, and the one with a share")
	}
	alice[1].Give()
	if ready(alice[4]) {
		t.Error("alice has more than her share")
	}
	for _, slot := range []*fair.Slot{alice[3], alice[4], second} {
		slot.Give()
	}
	if again := s.Take("carol"); !ready(again) || !ready(s.Take("carol")) {
		t.Error("slots were lost")
	}
}

// Simultaneous use, with some that give up, neither loses a slot nor makes one.
func TestSlotsInUse(t *testing.T) {
	t.Parallel()
	s := fair.NewSlots(3)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, principal := range []string{"a", "b", "c", "d"} {
		for i := range 20 {
			all.Go(func() {
				for range 50 {
					slot := s.Take(principal)
					if i == 0 {
						select {
						case <-slot.Ready():
						case <-ctx.Done():
						}
					} else {
						<-slot.Ready()
					}
					slot.Give()
				}
			})
		}
	}
	cancel()
	all.Wait()
	for i := range 4 {
		if got := ready(s.Take("a")); got != (i < 3) {
			t.Errorf("slot %d: %v", i, got)
		}
	}
}
