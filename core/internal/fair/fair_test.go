package fair_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/internal/fair"
)

// A single principal may use everything; a later one still gets its share, and the first may again
// use what the later one leaves.
func TestShares(t *testing.T) {
	t.Parallel()
	l := fair.Limit{Max: 6}
	take := func(principal string, want int) {
		t.Helper()
		got := 0
		for l.Take(principal) {
			got++
		}
		if got != want {
			t.Errorf("%s got %d, want %d", principal, got, want)
		}
	}
	take("alice", 6)
	take("bob", 3)
	take("carol", 2)
	take("alice", 0)
	for range 6 {
		l.Give("alice")
	}
	take("bob", 1) // 6 are then in use
	take("alice", 2)
	if l.All() != 8 {
		t.Errorf("%d in use", l.All())
	}
	if !l.Take("dave") || (&fair.Limit{}).Take("alice") {
		t.Error("a new principal gets nothing, or nothing is a limit")
	}
}

// Whatever principals do, one below its share always has room, and the total stays below the
// documented bound.
func TestBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "max")
		l, used := fair.Limit{Max: limit}, map[string]int{}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "principal")) })
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				p := name.Draw(t, "name")
				if l.Take(p) {
					used[p]++
					return
				}
				principals := 1
				for other, n := range used {
					if other != p && n > 0 {
						principals++
					}
				}
				if used[p] < limit/principals {
					t.Fatalf("%s has %d of %d among %d, and no room", p, used[p], limit, principals)
				}
			},
			"give": func(t *rapid.T) {
				if p := name.Draw(t, "name"); used[p] > 0 {
					used[p]--
					l.Give(p)
				}
			},
			"": func(t *rapid.T) {
				all := 0
				for _, n := range used {
					all += n
				}
				if all != l.All() || float64(all) > float64(limit)*(1+math.Log(10)) {
					t.Fatalf("%d in use, counted %d, limit %d", all, l.All(), limit)
				}
			},
		})
	})
}

func ready(s *fair.Slot) bool {
	select {
	case <-s.Ready():
		return true
	default:
		return false
	}
}

// Waiting requests are admitted in turn; the queue of one principal does not hold up another.
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
		t.Error("there are too many slots")
	}
	bob.Give()
	if !ready(alice[3]) || !ready(second) || ready(alice[4]) {
		t.Error("the next were not the longest waiting one and the one below its share")
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

// Concurrent use, including requests that stop waiting, neither loses nor creates a slot.
func TestConcurrentSlots(t *testing.T) {
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
