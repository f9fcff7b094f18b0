// Package wake tells goroutines that there is something to do.
package wake

import "sync"

// Channel wakes the goroutine that receives from it. Its capacity is 1, because one value stands for
// everything that happened before it is received. It is never closed.
type Channel chan struct{}

// New returns a channel on which nothing was sent.
func New() Channel { return make(Channel, 1) }

// Send wakes the receiver. It never blocks.
func (c Channel) Send() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Change wakes everybody who waits for the next change. The zero value is ready to use. To miss nothing, call
// Next before reading the state whose changes it reports, or under the same lock.
type Change struct {
	mu   sync.Mutex
	wait chan struct{} // closed and set to nil by Happened; nil if nobody waits
}

// Next returns a channel that is closed by the next call of Happened.
func (c *Change) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait == nil {
		c.wait = make(chan struct{})
	}
	return c.wait
}

// Happened wakes all who wait. It never blocks.
func (c *Change) Happened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait != nil {
		close(c.wait)
		c.wait = nil
	}
}
