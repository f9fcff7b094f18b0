package journal

import (
	"sync"
	"sync/atomic"
)

// head says what readers may see: which log, and up to which event.
type head struct {
	epoch   atomic.Pointer[string]
	durable watermark
}

// id returns the epoch of the log, "" before it is known.
func (h *head) id() string {
	if epoch := h.epoch.Load(); epoch != nil {
		return *epoch
	}
	return ""
}

// watermark is a number that only rises until the log is replaced, and on which readers wait.
type watermark struct {
	mu    sync.Mutex // guards both below
	value uint64
	// moved is closed at the next change of value; nil while no reader waits.
	moved chan struct{}
}

func (w *watermark) get() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value
}

// set changes the value and wakes all waiters. The new value is lower if the log was replaced.
func (w *watermark) set(v uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.value = v
	if w.moved != nil {
		close(w.moved)
		w.moved = nil
	}
}

// reached reports whether the value is at least v. If not, moved is closed at the next change,
// after which the caller must check again.
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
