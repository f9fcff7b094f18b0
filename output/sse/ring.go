package sse

import (
	"sort"
	"sync"
)

// ring holds the newest frames of one epoch of the log. One goroutine pushes frames, the
// waker shows them, and clients take them.
type ring struct {
	epoch    string
	maxBytes int
	begin    uint64 // the number after the newest that was stored when the ring was made

	mu     sync.RWMutex
	frames []*frame // a frame at position p is at p % len
	tail   uint64   // position of the oldest
	head   uint64   // position after the newest
	seen   uint64   // position after the newest that was shown
	bytes  int
	first  uint64        // the ring is complete from this number on
	next   uint64        // the number after the newest
	shown  uint64        // the number after the newest that was shown
	over   bool          // the log was replaced: the ring gets no more frames
	wake   chan struct{} // closed and replaced by show and end; never sent to
}

// newRing returns a ring for the entries from number first on, of which those before begin
// are stored already.
func newRing(epoch string, first, begin uint64, size, maxBytes int) *ring {
	return &ring{epoch: epoch, maxBytes: maxBytes, begin: begin, frames: make([]*frame, size),
		first: first, next: first, shown: first, wake: make(chan struct{})}
}

// push adds the newest frame and removes as many old ones as the bounds require.
func (r *ring) push(f *frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.frames))
	r.bytes += len(f.event) + len(f.feed)
	for r.head-r.tail == size || r.bytes > r.maxBytes && r.head > r.tail {
		old := r.frames[r.tail%size]
		r.frames[r.tail%size] = nil
		r.bytes -= len(old.event) + len(old.feed)
		r.first = old.seq + 1
		r.tail++
	}
	r.frames[r.head%size] = f
	r.head++
	r.next = f.seq + 1
}

// show makes pushed frames visible to clients, and wakes those that wait.
func (r *ring) show() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown != r.next {
		r.seen, r.shown = r.head, r.next
		r.broadcast()
	}
}

// end marks the ring as complete and wakes all clients.
func (r *ring) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.broadcast()
}

func (r *ring) broadcast() {
	close(r.wake)
	r.wake = make(chan struct{})
}

// view is what a client finds in the ring.
type view struct {
	n      int             // frames taken
	behind bool            // frames that it needs are no longer there
	over   bool            // see ring.over
	shown  uint64          // see ring.shown
	wake   <-chan struct{} // closed when there is more
}

// take copies the frames from number next on into buf.
func (r *ring) take(next uint64, buf []*frame) view {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v := view{behind: next < r.first, over: r.over, shown: r.shown, wake: r.wake}
	if v.behind || next >= r.shown {
		return v
	}
	size := uint64(len(r.frames))
	for p := max(r.find(next), r.tail); p < r.seen && v.n < len(buf); p++ {
		buf[v.n] = r.frames[p%size]
		v.n++
	}
	return v
}

// find returns the position of the first frame with that number or a higher one.
func (r *ring) find(seq uint64) uint64 {
	size := uint64(len(r.frames))
	if r.head == r.tail {
		return r.head
	}
	// Without gaps, numbers and positions rise together.
	if back := r.next - seq; back <= r.head-r.tail {
		if p := r.head - back; p < r.head && r.frames[p%size].seq == seq {
			return p
		}
	}
	n := sort.Search(int(r.head-r.tail), func(i int) bool { return r.frames[(r.tail+uint64(i))%size].seq >= seq })
	return r.tail + uint64(n)
}

// reach reports whether a client that has everything before next can continue here.
func (r *ring) reach(next uint64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.first <= next && next <= r.next && !r.over
}

// followed returns the number from which to follow the log.
func (r *ring) followed() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.next
}

// position returns the end of what is shown, and a channel that is closed when it moves.
func (r *ring) position() (shown uint64, wake <-chan struct{}) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shown, r.wake
}
