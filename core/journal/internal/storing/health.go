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

// Health tracks whether a log can currently store events, and counts what it has stored. Its
// methods are safe for concurrent use.
type Health struct {
	Logger *slog.Logger // must be set before the first use

	// Stored, TooLarge, Damages and Fenced are reported by Stats. Unsaved is the number of events
	// that were not stored before the log was closed.
	Stored, TooLarge, Damages, Fenced, Unsaved atomic.Uint64

	failures atomic.Uint64
	trouble  atomic.Pointer[error] // the reason why events cannot be stored; nil if they can

	mu             sync.Mutex // guards the fields below
	reported       uint64     // number of the last damaged entry that was counted and logged
	groups         uint64
	total, slowest time.Duration // time that storing a group took
}

// Stats returns the statistics of the log. waiting and folded are the results of [Queue.Size].
func (h *Health) Stats(waiting int, folded uint64) journal.StoreStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return journal.StoreStats{Stored: h.Stored.Load(), Waiting: waiting, Folded: folded, TooLarge: h.TooLarge.Load(), Failures: h.failures.Load(),
		Fenced: h.Fenced.Load(), Damages: h.Damages.Load(), Syncs: h.groups, SyncTime: h.total, SlowestSync: h.slowest}
}

// Err returns the reason why events cannot be stored, or nil if they can.
func (h *Health) Err() error {
	if err := h.trouble.Load(); err != nil {
		return fmt.Errorf("event log: events cannot be stored: %w", *err)
	}
	return nil
}

// Lost returns an error if events were not stored before the log was closed.
func (h *Health) Lost() error {
	if n := h.Unsaved.Load(); n > 0 {
		return fmt.Errorf("event log: %d events could not be stored before mcptrack stopped", n)
	}
	return nil
}

// Fails records that an attempt to store events failed with err. It logs only the first of several
// consecutive failures. A cancelled attempt is only counted, because it does not mean that the
// store is broken.
func (h *Health) Fails(err error) {
	h.failures.Add(1)
	if errors.Is(err, context.Canceled) {
		return
	}
	if old := h.trouble.Swap(&err); old == nil {
		h.Logger.Error("events cannot be stored; mcptrack keeps them in memory and will retry", "err", err)
	}
}

// Works records that storing works. After a failure it logs a warning, so that anyone who saw the
// failure at the default log level also sees that it is over. size is [Queue.Size].
func (h *Health) Works(size func() (waiting int, folded uint64)) {
	if old := h.trouble.Swap(nil); old != nil {
		waiting, folded := size()
		h.Logger.Warn("events can be stored again", "waiting", waiting, "folded", folded)
	}
}

// Synced records that storing a group of events took the duration d.
func (h *Health) Synced(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.groups, h.total, h.slowest = h.groups+1, h.total+d, max(h.slowest, d)
}

// Missing returns the gaps that replace the missing entries with the numbers from to last. first is
// the number of the first entry that retention has kept: missing entries before it form one gap,
// because retention removed them, and the others form a second gap, because they are damaged.
// Damaged entries are counted and logged, each of them once if readers find them in order.
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
