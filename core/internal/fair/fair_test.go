package fair_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/internal/fair"
)

// A principal alone may use everything; one that comes later gets its share all the same, and
// what the first has left over is its own to use again.
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
	take("bob", 1) // 6 are in use then
	take("alice", 2)
	if l.All() != 8 {
		t.Errorf("%d in use", l.All())
	}
	if !l.Take("dave") || (&fair.Limit{}).Take("alice") {
		t.Error("a new principal gets nothing, or nothing is a limit")
	}
}

// Whatever principals do, one below its share always has room, and all together stay below the
// bound of the package's documentation.
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
