package wire

import "sync"

// Group is a set of goroutines with one owner. Unlike with a sync.WaitGroup, Go may be called while
// the owner waits.
type Group struct {
	mu     sync.Mutex
	wg     sync.WaitGroup
	closed bool
}

// Go calls f on a new goroutine. It returns false, without calling f, if Wait has been called.
func (g *Group) Go(f func()) (started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(f)
	}
	return !g.closed
}

// Wait prevents new goroutines from starting and waits for those that were started.
func (g *Group) Wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
