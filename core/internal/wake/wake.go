// Package wake tells a goroutine that there is something to do.
package wake

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
