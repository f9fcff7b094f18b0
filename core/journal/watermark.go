package journal

import (
	"sync"
	"sync/atomic"
)

// head is what readers may see: which log it is, and up to which event.
type head struct {
	epoch   atomic.Pointer[string]
	durable watermark
}

// id is the epoch of the log, "" before it is known.
func (h *head) id() string {
	if epoch := h.epoch.Load(); epoch != nil {
		return *epoch
	}
	return ""
}

// watermark is a number that rises, with waiters for that.
type watermark struct {
	mu    sync.Mutex // guards both below
	value uint64
	// moved is closed when value is set; made only for a waiter.
	moved chan struct{}
}

func (w *watermark) get() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value
}

// set sets the value, also to a lower one: the log was replaced.
func (w *watermark) set(v uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.value = v
	if w.moved != nil {
		close(w.moved)
		w.moved = nil
	}
}

// reached reports whether the value is at least v. If not, moved is closed at the next
// change, which need not be to a higher value.
func (w *watermark) reached(v uint64) (ok bool, moved <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.value >= v {
		return true, nil
	}
	if w.moved == nil {
		w.moved = make(chan struct{})
	}
	return false, w.moved
}
