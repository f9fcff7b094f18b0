package natslog

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
)

// counters are written by the writer and by readers that find damage.
type counters struct {
	appended, tooLarge, failures, unsaved, damages, fenced atomic.Uint64

	trouble atomic.Pointer[error] // why events cannot be stored; nil if they can
	took    latency

	damageMu sync.Mutex // guards reported
	reported uint64     // the last damaged entry that was counted and logged
}

// Stats implements [journal.Log].
func (l *Log) Stats() journal.Stats {
	c := &l.store.counts
	s := journal.Stats{Stored: c.appended.Load(), TooLarge: c.tooLarge.Load(), Failures: c.failures.Load(), Damages: c.damages.Load(), Fenced: c.fenced.Load()}
	s.Waiting, s.Folded = l.writer.queue.Size()
	s.Syncs, s.SyncTime, s.SlowestSync = c.took.sum()
	return s
}

// Err implements [journal.Log].
func (l *Log) Err() error {
	if err := l.store.counts.trouble.Load(); err != nil {
		return fmt.Errorf("event log: events cannot be stored: %w", *err)
	}
	return nil
}

// damaged counts and logs entries that could not be read back, each once if readers find them
// in order.
func (c *counters) damaged(log *slog.Logger, first, last uint64) {
	c.damageMu.Lock()
	defer c.damageMu.Unlock()
	if last <= c.reported {
		return
	}
	c.damages.Add(last - max(first-1, c.reported))
	c.reported = last
	log.Error("entries of the event log are damaged; readers receive a gap event instead", "first", first, "last", last)
}

// latency adds up durations.
type latency struct {
	mu         sync.Mutex // guards all below
	n          uint64
	total, max time.Duration
}

func (l *latency) observe(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n, l.total, l.max = l.n+1, l.total+d, max(l.max, d)
}

func (l *latency) sum() (n uint64, total, slowest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n, l.total, l.max
}
