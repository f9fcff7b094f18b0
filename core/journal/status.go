package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// counters are written by the writer and by readers that find damage.
type counters struct {
	appended, tooLarge, failures, unsaved, damages atomic.Uint64

	trouble atomic.Pointer[error] // why storing does not work; nil if it does
	took    latency

	damageMu sync.Mutex // guards told
	told     uint64     // the last damaged entry that was told to the log
}

// Stats counts what happened since Open.
type Stats struct {
	Stored   uint64 // events that are durable
	Waiting  int    // items that are not
	Folded   uint64 // events that a newer one of the same resource stands for
	TooLarge uint64 // events that did not fit into the store
	Failures uint64 // failed attempts to store
	Damages  uint64 // entries that could not be read back, and logs that came back short
	// Syncs, SyncTime and SlowestSync are of groups of events stored as one step.
	Syncs       uint64
	SyncTime    time.Duration
	SlowestSync time.Duration
}

// Stats returns the counts.
func (j *Journal) Stats() Stats {
	s := Stats{Stored: j.appended.Load(), TooLarge: j.tooLarge.Load(), Failures: j.failures.Load(), Damages: j.damages.Load()}
	s.Waiting, s.Folded = j.queue.size()
	s.Syncs, s.SyncTime, s.SlowestSync = j.took.sum()
	return s
}

// Err returns why events cannot be stored at the moment, nil if they can. They
// wait meanwhile. For readiness: what is not stored, nobody sees.
func (j *Journal) Err() error {
	if err := j.trouble.Load(); err != nil {
		return fmt.Errorf("journal: events cannot be stored: %w", *err)
	}
	return nil
}

// damaged counts entries that could not be read back, each once as long as
// readers find them in order.
func (j *Journal) damaged(first, last uint64) {
	j.damageMu.Lock()
	defer j.damageMu.Unlock()
	if last <= j.told {
		return
	}
	j.damages.Add(last - max(first-1, j.told))
	j.told = last
	j.opts.Logger.Error("entries of the log are damaged; readers are told of a gap", "first", first, "last", last)
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
