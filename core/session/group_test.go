package session

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
)

// What begins while somebody waits either has ended then, or never begins.
func TestGroup(t *testing.T) {
	t.Parallel()
	for range 200 {
		var g group
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

// A session that is closed starts no requests, in the background or not.
func TestListenAfterClose(t *testing.T) {
	t.Parallel()
	s := newSession(config.Server{}, Options{}.withDefaults())
	_ = s.Close()
	if l, err := s.listen(t.Context(), Filter{URIs: []string{"a:b"}}); l != nil || err == nil {
		t.Errorf("%v, %v", l, err)
	}
}
