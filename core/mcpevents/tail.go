package mcpevents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

const (
	keptEntries = 8192
	keptBytes   = 16 << 20
	// wakeEvery is the least time between two closings of tail.moved, each of which wakes
	// every waiting stream: after silence streams wake at once, and during a burst they get
	// several entries each time.
	wakeEvery = 5 * time.Millisecond
)

// logged is one entry of the log. occ is nil if clients get nothing for it.
type logged struct {
	seq uint64
	id  string
	occ *Occurrence
	gap bool
}

// tail keeps the newest entries of the log.
type tail struct {
	log   journal.Log
	scope Scope

	mu    sync.Mutex  // guards all below
	epoch string      // "": the log was not reached yet
	next  uint64      // the number after the last entry that was seen
	kept  []logged    // without a hole up to next, oldest first
	bytes int         // of kept
	woke  time.Time   // when moved was last closed
	timer *time.Timer // will close moved; nil: not needed
	// moved is closed and replaced when next or epoch has changed.
	moved chan struct{}
	busy  [12]time.Time // when the last occurrences came, as a ring
	came  int           // how many occurrences came
}

func newTail(log journal.Log, scope Scope) *tail {
	return &tail{log: log, scope: scope, moved: make(chan struct{})}
}

// run follows the log until ctx ends.
func (t *tail) run(ctx context.Context) error {
	defer t.stopTimer()
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		b, err := t.log.Bounds(ctx)
		if err == nil {
			t.begin(b)
			retry.Reset()
			err = t.follow(ctx, b)
		}
		if errors.Is(err, journal.ErrClosed) {
			return nil
		}
		backoff.Sleep(ctx, retry.Next())
	}
	return nil
}

func (t *tail) follow(ctx context.Context, b journal.Bounds) error {
	for e, err := range t.log.Follow(ctx, b.Last+1) {
		if err != nil {
			return err
		}
		if e.Again { // readers get the gap
			continue
		}
		if epoch, _, err := event.ParseID(e.ID); err != nil || epoch != b.Epoch {
			return journal.ErrEpoch
		}
		occ, gap := t.scope.occurrence(&e)
		t.add(logged{e.Seq, e.ID, occ, gap})
	}
	return nil
}

// begin starts at the end of the log, which may be another log than before. Entries that
// were stored meanwhile are not kept; a stream that needs them reads them from the log.
func (t *tail) begin(b journal.Bounds) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch == b.Epoch && t.next == b.Last+1 {
		return
	}
	t.epoch, t.next, t.kept, t.bytes = b.Epoch, b.Last+1, nil, 0
	t.wakeLocked()
}

func (t *tail) add(l logged) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.gap && l.seq >= t.next { // a gap stands for several entries
		t.kept, t.bytes = nil, 0
	}
	t.kept, t.next = append(t.kept, l), l.seq+1
	t.bytes += l.size()
	for len(t.kept) > keptEntries || t.bytes > keptBytes && len(t.kept) > 1 {
		t.bytes -= t.kept[0].size()
		t.kept[0] = logged{}
		t.kept = t.kept[1:]
	}
	if l.occ != nil {
		t.busy[t.came%len(t.busy)] = time.Now()
		t.came++
	}
	switch since := time.Since(t.woke); {
	case t.timer != nil:
	case since >= wakeEvery:
		t.wakeLocked()
	default:
		t.timer = time.AfterFunc(wakeEvery-since, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.wakeLocked()
		})
	}
}

func (l *logged) size() int {
	if l.occ == nil {
		return 64
	}
	size := 256 + len(l.occ.body) // data is most of body, and shares nothing with it
	for _, it := range l.occ.items {
		size += 32 + len(it.key) + len(it.exported)
	}
	return size
}

func (t *tail) wakeLocked() {
	t.woke = time.Now()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	close(t.moved)
	t.moved = make(chan struct{})
}

func (t *tail) stopTimer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// look returns up to limit kept entries after the position. older says that entries which
// are no longer kept have to be read from the log first. same is false if the position is
// of another log. moved is closed when there may be more.
func (t *tail) look(p Position, limit int) (entries []logged, older, same bool, moved <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	moved = t.moved
	if t.epoch == "" {
		return nil, false, true, moved
	}
	if t.epoch != p.Epoch {
		return nil, false, false, moved
	}
	from := p.Seq + 1
	if from >= t.next {
		return nil, false, true, moved
	}
	first := t.next
	if len(t.kept) > 0 {
		first = t.kept[0].seq
	}
	if from < first {
		return nil, true, true, moved
	}
	at := len(t.kept) - int(t.next-from)
	end := min(at+limit, len(t.kept))
	return append(make([]logged, 0, end-at), t.kept[at:end]...), false, true, moved
}

// end returns where the log ends, as far as it was seen; false before it was reached.
func (t *tail) end() (Position, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Position{t.epoch, t.next - 1}, t.epoch != ""
}

// busyMinute reports whether at least twelve occurrences came within a minute.
func (t *tail) busyMinute() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.came >= len(t.busy) && time.Since(t.busy[t.came%len(t.busy)]) < time.Minute
}
