package wire

import "sync"

// Group is a set of goroutines with one owner. Unlike with a sync.WaitGroup, Go may be called
// while the owner already waits.
type Group struct {
	mu     sync.Mutex
	wg     sync.WaitGroup
	closed bool
}

// Go calls f in a new goroutine, unless Wait has been called: then it returns false.
func (g *Group) Go(f func()) (started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(f)
	}
	return !g.closed
}

// Wait lets no more goroutines start, and waits for those that were started.
func (g *Group) Wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
