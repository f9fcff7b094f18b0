package wire

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A goroutine started during Wait either ends before Wait returns or never starts.
func TestGroup(t *testing.T) {
	t.Parallel()
	for range 200 {
		var g Group
		var runs atomic.Int64
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for g.Go(func() { runs.Add(1); runs.Add(-1) }) {
				}
			})
		}
		g.Wait()
		if n := runs.Load(); n != 0 {
			t.Fatalf("%d run on", n)
		}
		callers.Wait()
		g.Wait()
	}
}
