package session

import "sync"

// group is the goroutines of a session. A sync.WaitGroup alone would do if nobody
// began one while Close waits; the methods of a session may be called then.
type group struct {
	mu     sync.Mutex
	wg     sync.WaitGroup
	closed bool
}

// Go starts f, unless somebody waits already: f is not called then.
func (g *group) Go(f func()) (started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(f)
	}
	return !g.closed
}

// Wait lets no more goroutines start, and waits for those that did.
func (g *group) Wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
