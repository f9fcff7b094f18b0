package realtime

import "sync"

// hooks collects the calls of DeliveryOptions.Injected and Failed while the lock of its owner
// is held; run makes them without the lock.
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

// run makes the collected calls. mu is the owner's lock, which must not be held.
func (h *hooks) run(mu *sync.Mutex, o *DeliveryOptions) {
	mu.Lock()
	due := h.due
	h.due = nil
	mu.Unlock()
	for _, call := range due {
		call(o)
	}
}
