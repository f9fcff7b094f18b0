package feed

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Time for the two phases of a shutdown: for the ring to catch up with the log, and for
// clients to receive the rest.
const (
	catchUp = 400 * time.Millisecond
	takeAll = 500 * time.Millisecond
)

// Shutdown accepts no more clients, sends connected clients all events that are in the log
// by now and a frame tracker_stopped, and ends their streams: within 1 s, or when ctx ends; a
// slower client is disconnected. Run ends too. Shutdown returns when no handler is running
// any more. It may be called more than once; all calls return the same error. It is meant for
// [web.Server.OnShutdown].
func (h *Hub) Shutdown(ctx context.Context) error {
	h.stop.Do(func() { h.stopErr = h.shutdown(ctx) })
	return h.stopErr
}

func (h *Hub) shutdown(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	early, cancel := context.WithTimeout(ctx, catchUp)
	err := h.caughtUp(early)
	cancel()
	if r := h.current(); r != nil {
		r.show()
	}
	close(h.halt)
	close(h.last)
	cut := time.AfterFunc(takeAll, h.cut)
	defer cut.Stop()
	defer context.AfterFunc(ctx, h.cut)()
	h.handlers.Wait()
	return err
}

// caughtUp waits until every entry that was appended to the log before the call is visible in
// the ring.
func (h *Hub) caughtUp(ctx context.Context) error {
	r := h.current()
	if r == nil || h.followed() {
		return nil
	}
	if err := h.opts.Log.Flush(ctx); err != nil {
		return fmt.Errorf("the last events are not stored yet: %w", err)
	}
	b, err := h.opts.Log.Bounds(ctx)
	if err != nil {
		return fmt.Errorf("find the last event in the log: %w", err)
	}
	for b.Epoch == r.epoch {
		shown, wake := r.position()
		if shown > b.Last {
			break
		}
		select {
		case <-wake:
		case <-h.done:
			return nil
		case <-ctx.Done():
			return errors.New("streams were closed before the last events were sent: the event log is slow")
		}
	}
	return nil
}

// followed reports whether followAll has ended, because the source was closed.
func (h *Hub) followed() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// cut makes the streams of all clients end, even those that are blocked in a write.
func (h *Hub) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		c.cut()
	}
}
