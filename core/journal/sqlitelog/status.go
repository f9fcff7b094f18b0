package sqlitelog

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
	stored, tooLarge, failures, unsaved, damages atomic.Uint64

	trouble atomic.Pointer[error] // why events cannot be stored; nil if they can
	took    latency

	mu       sync.Mutex // guards reported
	reported uint64     // the last damaged entry that was counted and logged
}

// Stats implements [journal.Log].
func (l *Log) Stats() journal.Stats {
	c := &l.counts
	s := journal.Stats{Stored: c.stored.Load(), TooLarge: c.tooLarge.Load(), Failures: c.failures.Load(), Damages: c.damages.Load()}
	s.Waiting, s.Folded = l.queue.Size()
	s.Waiting += l.contents.waiting()
	s.Syncs, s.SyncTime, s.SlowestSync = c.took.sum()
	return s
}

// Err implements [journal.Log].
func (l *Log) Err() error {
	if err := l.counts.trouble.Load(); err != nil {
		return fmt.Errorf("event log: events cannot be stored: %w", *err)
	}
	return nil
}

// fails counts a failed attempt to store, and logs the first in a row.
func (l *Log) fails(err error) {
	l.counts.failures.Add(1)
	if old := l.counts.trouble.Swap(&err); old == nil {
		l.opts.Logger.Error("events cannot be stored; mcptrack keeps them in memory and retries", "err", err)
	}
}

// works ends the state of failure that fails began. It is logged as a warning, so that whoever saw
// the failure at the default level sees its end, too.
func (l *Log) works() {
	if old := l.counts.trouble.Swap(nil); old != nil {
		waiting, folded := l.queue.Size()
		l.opts.Logger.Warn("events are stored again", "waiting", waiting, "folded", folded)
	}
}

// damaged counts and logs entries that could not be read back, each once if readers find them in
// order.
func (c *counters) damaged(log *slog.Logger, first, last uint64) {
	c.mu.Lock()
	if last <= c.reported {
		c.mu.Unlock()
		return
	}
	c.damages.Add(last - max(first-1, c.reported))
	c.reported = last
	c.mu.Unlock()
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
