package realtime

import "sync"

// hooks are the calls of the hooks that are due. The owner's lock must be held, but not
// for run.
type hooks struct {
	due    []func(*DeliveryOptions)
	failed uint64
}

func (h *hooks) injected(receipts []Receipt) {
	h.due = append(h.due, func(o *DeliveryOptions) { o.Injected(receipts) })
}

func (h *hooks) fail(f Failure) {
	h.failed++
	h.due = append(h.due, func(o *DeliveryOptions) { o.Failed(f) })
}

// run makes the calls. mu is the owner's lock.
func (h *hooks) run(mu *sync.Mutex, o *DeliveryOptions) {
	mu.Lock()
	due := h.due
	h.due = nil
	mu.Unlock()
	for _, call := range due {
		call(o)
	}
}
