package journal

import (
	"context"
	"sync"
)

// watermark is a number that rises, and whom it makes wait.
type watermark struct {
	mu    sync.Mutex // guards both below
	value uint64
	// moved is closed and replaced when value rises; made only when somebody waits.
	moved chan struct{}
}

func (w *watermark) get() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value
}

// set sets the value, also to a lower one: the log was made anew.
func (w *watermark) set(v uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.value = v
	if w.moved != nil {
		close(w.moved)
		w.moved = nil
	}
}

// wait returns once the value is at least v.
func (w *watermark) wait(ctx context.Context, v uint64) error {
	for {
		w.mu.Lock()
		if w.value >= v {
			w.mu.Unlock()
			return nil
		}
		if w.moved == nil {
			w.moved = make(chan struct{})
		}
		moved := w.moved
		w.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
