// Package running has what every log with a store shares while it is open: what it counts and says of
// storing, and who reads.
package running

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
)

// Health is what a log counts, and whether it can store events. Its methods may be called from several
// goroutines: those that write, and readers that find damage.
type Health struct {
	Logger *slog.Logger // set before the first use

	// Stored, TooLarge, Damages and Fenced are those of [journal.Stats]; Unsaved are the events that
	// are lost because the log was closed.
	Stored, TooLarge, Damages, Fenced, Unsaved atomic.Uint64

	failures atomic.Uint64
	trouble  atomic.Pointer[error] // why events cannot be stored; nil if they can

	mu             sync.Mutex // guards all below
	reported       uint64     // the last damaged entry that was counted and logged
	groups         uint64
	total, slowest time.Duration // of groups
}

// Stats returns what was counted. Waiting and Folded are left to the caller.
func (h *Health) Stats() journal.Stats {
	s := journal.Stats{Stored: h.Stored.Load(), TooLarge: h.TooLarge.Load(), Failures: h.failures.Load(), Damages: h.Damages.Load(), Fenced: h.Fenced.Load()}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Syncs, s.SyncTime, s.SlowestSync = h.groups, h.total, h.slowest
	return s
}

// Err returns why events cannot be stored, nil if they can.
func (h *Health) Err() error {
	if err := h.trouble.Load(); err != nil {
		return fmt.Errorf("event log: events cannot be stored: %w", *err)
	}
	return nil
}

// Lost returns how many events the end of the log has lost, as an error.
func (h *Health) Lost() error {
	if n := h.Unsaved.Load(); n > 0 {
		return fmt.Errorf("event log: %d events could not be stored before mcptrack stopped", n)
	}
	return nil
}

// Fails counts a failed attempt to store, and logs the first in a row. One that was cancelled says
// nothing about the store.
func (h *Health) Fails(err error) {
	h.failures.Add(1)
	if errors.Is(err, context.Canceled) {
		return
	}
	if old := h.trouble.Swap(&err); old == nil {
		h.Logger.Error("events cannot be stored; mcptrack keeps them in memory and retries", "err", err)
	}
}

// Works ends the state of failure that Fails began. It is logged as a warning, so that whoever saw
// the failure at the default level sees its end, too. size returns what the queue has.
func (h *Health) Works(size func() (waiting int, folded uint64)) {
	if old := h.trouble.Swap(nil); old != nil {
		waiting, folded := size()
		h.Logger.Warn("events are stored again", "waiting", waiting, "folded", folded)
	}
}

// Synced records how long it took to store a group.
func (h *Health) Synced(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.groups, h.total, h.slowest = h.groups+1, h.total+d, max(h.slowest, d)
}

// Damaged counts and logs entries that could not be read back, each once if readers find them in
// order.
func (h *Health) Damaged(first, last uint64) {
	h.mu.Lock()
	if last <= h.reported {
		h.mu.Unlock()
		return
	}
	h.Damages.Add(last - max(first-1, h.reported))
	h.reported = last
	h.mu.Unlock()
	h.Logger.Error("entries of the event log are damaged; readers receive a gap event instead", "first", first, "last", last)
}
