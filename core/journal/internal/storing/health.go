package storing

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

// Health counts what a log stores, and knows whether it can store. Its methods may be called from
// several goroutines.
type Health struct {
	Logger *slog.Logger // set before the first use

	// Stats reports Stored, TooLarge, Damages and Fenced. Unsaved counts the events that were lost
	// because the log was closed.
	Stored, TooLarge, Damages, Fenced, Unsaved atomic.Uint64

	failures atomic.Uint64
	trouble  atomic.Pointer[error] // why events cannot be stored; nil if they can

	mu             sync.Mutex // guards all below
	reported       uint64     // the last damaged entry that was counted and logged
	groups         uint64
	total, slowest time.Duration // of groups
}

// Stats returns the counts. waiting and folded come from the queue.
func (h *Health) Stats(waiting int, folded uint64) journal.StoreStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return journal.StoreStats{Stored: h.Stored.Load(), Waiting: waiting, Folded: folded, TooLarge: h.TooLarge.Load(), Failures: h.failures.Load(),
		Fenced: h.Fenced.Load(), Damages: h.Damages.Load(), Syncs: h.groups, SyncTime: h.total, SlowestSync: h.slowest}
}

// Err returns why events cannot be stored, nil if they can.
func (h *Health) Err() error {
	if err := h.trouble.Load(); err != nil {
		return fmt.Errorf("event log: events cannot be stored: %w", *err)
	}
	return nil
}

// Lost returns an error if events were lost when the log was closed.
func (h *Health) Lost() error {
	if n := h.Unsaved.Load(); n > 0 {
		return fmt.Errorf("event log: %d events could not be stored before mcptrack stopped", n)
	}
	return nil
}

// Fails counts a failed attempt to store, and logs the first of several consecutive failures. A
// cancelled attempt says nothing about the store.
func (h *Health) Fails(err error) {
	h.failures.Add(1)
	if errors.Is(err, context.Canceled) {
		return
	}
	if old := h.trouble.Swap(&err); old == nil {
		h.Logger.Error("events cannot be stored; mcptrack keeps them in memory and retries", "err", err)
	}
}

// Works ends the failure that Fails began. It logs a warning, so that whoever sees the failure at
// the default level also sees its end. size is the queue's Size.
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

// Missing returns the gaps that readers get in place of the entries from from to last: one for the
// entries before first, which retention has removed, and one for the others, which are damaged. It
// counts and logs damaged entries, each once if readers find them in order.
func (h *Health) Missing(epoch string, from, first, last uint64) (gaps []journal.Entry) {
	if gone := min(last, first-1); gone >= from {
		gaps = append(gaps, journal.GapEntry(epoch, from, gone, journal.ReasonRetention))
		from = gone + 1
	}
	if from <= last {
		h.damaged(from, last)
		gaps = append(gaps, journal.GapEntry(epoch, from, last, journal.ReasonDamaged))
	}
	return gaps
}

func (h *Health) damaged(first, last uint64) {
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
