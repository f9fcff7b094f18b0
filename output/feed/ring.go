package feed

import (
	"sort"
	"sync"
)

// ring keeps the newest frames of one epoch of the log. followAll pushes frames, showAll makes them
// visible, and clients copy them. Positions count pushed frames; numbers are log entry numbers.
type ring struct {
	epoch    string
	maxBytes int

	mu     sync.RWMutex
	frames []*frame      // the frame at position p is at index p % len
	tail   uint64        // position of the oldest frame
	head   uint64        // position after the newest frame
	seen   uint64        // position after the newest frame that is visible to clients
	bytes  int           // total size of the frames in bytes
	first  uint64        // the ring contains all entries from this number on
	next   uint64        // number after the newest frame
	shown  uint64        // number after the newest frame that is visible to clients
	over   bool          // the log was replaced: no more frames follow
	wake   chan struct{} // closed and replaced by show and end; never sent to
}

// newRing returns a ring for the entries from number first on.
func newRing(epoch string, first uint64, size, maxBytes int) *ring {
	return &ring{epoch: epoch, maxBytes: maxBytes, frames: make([]*frame, size),
		first: first, next: first, shown: first, wake: make(chan struct{})}
}

// push adds the newest frame, and evicts old frames as the limits require.
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

// show makes all pushed frames visible and wakes waiting clients.
func (r *ring) show() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown != r.next {
		r.seen, r.shown = r.head, r.next
		r.broadcast()
	}
}

// end records that the log was replaced, and wakes all clients.
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

// view is the result of ring.take.
type view struct {
	n      int             // number of copied frames
	behind bool            // the next frame has been evicted
	over   bool            // see ring.over
	shown  uint64          // see ring.shown
	wake   <-chan struct{} // closed when more frames are visible or the ring is over
}

// take copies visible frames from number next on into buf, up to its length.
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

// find returns the position of the first frame whose number is at least seq.
func (r *ring) find(seq uint64) uint64 {
	size := uint64(len(r.frames))
	n := sort.Search(int(r.head-r.tail), func(i int) bool { return r.frames[(r.tail+uint64(i))%size].seq >= seq })
	return r.tail + uint64(n)
}

// reach reports whether the ring contains all entries from number next on, so that a client can
// continue there.
func (r *ring) reach(next uint64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.first <= next && next <= r.next && !r.over
}

// followed returns the number of the next entry to push.
func (r *ring) followed() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.next
}

// position returns ring.shown, and a channel that is closed when it changes or the ring is over.
func (r *ring) position() (shown uint64, wake <-chan struct{}) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shown, r.wake
}
