package mcpevents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Position identifies the last entry that was read from a log.
type Position struct {
	Epoch string
	Seq   uint64
}

// Cursor returns the position in the form that clients receive.
func (p Position) Cursor() string { return event.FormatID(p.Epoch, p.Seq) }

// maxReaders limits the number of clients that simultaneously read entries no longer cached in the
// tail.
const maxReaders = 8

// Reader reads the log, starting from any position. Its methods require that Run is running.
type Reader struct {
	tail *tail
	// readers is a semaphore with capacity maxReaders for reading older entries from the log. A
	// caller sends to it to acquire a slot and receives from it to release the slot. It is never
	// closed.
	readers chan struct{}
}

// NewReader returns a Reader for the log that returns only events visible in scope.
func NewReader(log journal.Log, scope Scope) *Reader {
	return &Reader{
		tail:    &tail{log: log, scope: scope},
		readers: make(chan struct{}, maxReaders),
	}
}

// Run follows the log until ctx is done.
func (r *Reader) Run(ctx context.Context) error { return r.tail.run(ctx) }

// Batch is the result of reading a section of the log.
type Batch struct {
	Occurrences []*Occurrence
	At          Position // position of the last entry that was read
	// Truncated reports that entries before At are missing. Occurrences is then empty.
	Truncated bool
}

// Start returns the position at which a subscription starts: at its cursor, or at the end of the
// log if cursor is nil. truncated reports that events after the cursor are missing or were skipped.
// If ceiling is not zero, a subscription also starts at the end of the log if more than ceiling
// entries follow the cursor, or if any of them are older than replayAge.
func (r *Reader) Start(ctx context.Context, cursor *string, maxAge time.Duration, ceiling uint64) (at Position, truncated bool, err error) {
	id := ""
	if cursor != nil {
		id = *cursor
	}
	b, err := r.tail.log.Bounds(ctx)
	if err != nil {
		return Position{}, false, err
	}
	if cursor == nil {
		return Position{b.Epoch, b.Last}, false, nil
	}
	res, err := r.tail.log.Resume(ctx, id)
	if err != nil {
		return Position{}, false, err
	}
	from := res.From
	if res.Gap != nil {
		truncated = true
		if res.Gap.Reason != journal.ReasonRetention {
			from = res.Next
		}
	}
	now := time.Now()
	if ceiling > 0 && from < res.Next {
		recent, err := r.tail.log.Since(ctx, now.Add(-replayAge))
		if err != nil {
			return Position{}, false, err
		}
		if res.Next-from > ceiling || from < recent {
			from, truncated = res.Next, true
		}
	}
	if maxAge > 0 && from < res.Next {
		recent, err := r.tail.log.Since(ctx, now.Add(-maxAge))
		if err != nil {
			return Position{}, false, err
		}
		if recent > from {
			from, truncated = recent, true
		}
	}
	return Position{b.Epoch, from - 1}, truncated, nil
}

// Since returns the position before the first entry that was stored at time t or later.
func (r *Reader) Since(ctx context.Context, t time.Time) (Position, error) {
	b, err := r.tail.log.Bounds(ctx)
	if err != nil {
		return Position{}, err
	}
	first, err := r.tail.log.Since(ctx, t)
	if err != nil {
		return Position{}, err
	}
	return Position{b.Epoch, max(first, b.First, 1) - 1}, nil
}

// replayAge limits the age of past events for a subscription with a ceiling, such as a webhook; see
// [Reader.Start].
const replayAge = 24 * time.Hour

// Look reads at most limit entries after p and returns the visible events that match. It does not
// wait: if there are no new entries, b.At is p. moved is closed when there may be more entries.
func (r *Reader) Look(ctx context.Context, p Position, match func(*Occurrence) bool, limit int) (b Batch, moved <-chan struct{}, err error) {
	entries, older, same, moved := r.tail.look(p, limit)
	if !same { // the log has been replaced
		cursor := p.Cursor()
		at, _, err := r.Start(ctx, &cursor, 0, 0)
		if err != nil || at.Epoch == p.Epoch { // the tail has not reached this position yet
			return Batch{At: p}, moved, err
		}
		return Batch{At: at, Truncated: true}, moved, nil
	}
	if older {
		if entries, err = r.read(ctx, p, limit); err != nil {
			return Batch{At: p}, moved, err
		}
	}
	b.At = p
	for i, e := range entries {
		if e.gap && i > 0 {
			break
		}
		if e.gap {
			b.At.Seq, b.Truncated = e.seq, true
			break
		}
		occ := e.occ
		if occ != nil && !match(occ) {
			occ = nil
		}
		if occ != nil && !r.tail.scope.Shows(occ) {
			if occ, err = r.without(ctx, b.At.Epoch, occ); err != nil && i > 0 {
				return b, moved, nil // return the events found so far
			} else if err != nil {
				return b, moved, err
			}
		}
		b.At.Seq = e.seq
		if occ != nil {
			b.Occurrences = append(b.Occurrences, occ)
		}
	}
	return b, moved, nil
}

// without returns an event without the items that were hidden after it was read. It returns nil if
// the event itself is no longer visible.
func (r *Reader) without(ctx context.Context, epoch string, o *Occurrence) (*Occurrence, error) {
	if o.Name != ListChanged || !r.tail.scope.server(o.Server) {
		return nil, nil
	}
	entries, err := r.read(ctx, Position{epoch, o.Seq - 1}, 1)
	if err != nil || len(entries) == 0 || entries[0].seq != o.Seq {
		return nil, err
	}
	return entries[0].occ, nil
}

// maxRead limits the bytes of a single read from the log.
const maxRead = 1 << 20

// read reads at most limit entries after p from the log, for entries that the tail no longer
// caches.
func (r *Reader) read(ctx context.Context, p Position, limit int) ([]tailEntry, error) {
	select {
	case r.readers <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-r.readers }()
	var out []tailEntry
	size := 0
	for e, err := range r.tail.log.Read(ctx, p.Seq+1) {
		if err != nil {
			if len(out) > 0 {
				break // return the entries read so far
			}
			return nil, err
		}
		if epoch, _, err := event.ParseID(e.ID); err != nil || epoch != p.Epoch {
			return nil, journal.ErrEpoch // the tail will detect the replacement
		}
		occ, gap := r.tail.scope.occurrence(&e)
		out = append(out, tailEntry{e.Seq, e.ID, occ, gap})
		if size += len(e.Data()); size > maxRead || len(out) >= limit {
			break
		}
	}
	return out, nil
}

// unavailable returns the error for a request that the log cannot serve at the moment. It does not
// reveal details of the store.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &mcpserver.Error{Code: mcp.CodeInternal, Message: "StoreUnavailable"}
}

const (
	keptEntries = 8192
	keptBytes   = 16 << 20
	// wakeEvery is the minimum interval between closings of tail.moved, each of which wakes all
	// waiting streams. After a quiet period, streams wake immediately; during a burst, each wake-up
	// covers several entries.
	wakeEvery = 5 * time.Millisecond
)

// tailEntry is one log entry. occ is nil if there is nothing to send to clients for it.
type tailEntry struct {
	seq uint64
	id  string
	occ *Occurrence
	gap bool
}

// tail caches the newest entries of the log.
type tail struct {
	log   journal.Log
	scope Scope

	mu    sync.Mutex    // guards the fields below
	epoch string        // empty until the log is first read
	next  uint64        // sequence number after the last entry that was read
	kept  []tailEntry   // cached entries: contiguous up to next, oldest first
	bytes int           // estimated memory of kept
	woke  time.Time     // when moved was last closed
	timer *time.Timer   // will close moved; nil if no wake-up is pending
	moved wake.Change   // of next or epoch
	busy  [12]time.Time // ring buffer of the arrival times of the last occurrences
	came  int           // total number of occurrences
}

// run follows the log until ctx is done.
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
		if e.Again { // readers are told about the gap
			continue
		}
		if epoch, _, err := event.ParseID(e.ID); err != nil || epoch != b.Epoch {
			return journal.ErrEpoch
		}
		occ, gap := t.scope.occurrence(&e)
		t.add(tailEntry{e.Seq, e.ID, occ, gap})
	}
	return nil
}

// begin starts at the end of the log, which may be a different log than before. Entries that were
// stored meanwhile are not cached; a stream that needs them reads them from the log.
func (t *tail) begin(b journal.Bounds) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch == b.Epoch && t.next == b.Last+1 {
		return
	}
	t.epoch, t.next, t.kept, t.bytes = b.Epoch, b.Last+1, nil, 0
	t.wakeLocked()
}

func (t *tail) add(l tailEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.gap && l.seq >= t.next { // a gap covers several entries
		t.kept, t.bytes = nil, 0
	}
	t.kept, t.next = append(t.kept, l), l.seq+1
	t.bytes += l.size()
	for len(t.kept) > keptEntries || t.bytes > keptBytes && len(t.kept) > 1 {
		t.bytes -= t.kept[0].size()
		t.kept[0] = tailEntry{}
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

func (l *tailEntry) size() int {
	if l.occ == nil {
		return 64
	}
	size := 256 + len(l.occ.body) // data makes up most of body and does not share its memory
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
	t.moved.Happened()
}

func (t *tail) stopTimer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// look returns up to limit cached entries after the position. older reports that the next entries
// are no longer cached and must be read from the log first. same is false if the position belongs
// to another log. moved is closed when there may be more entries.
func (t *tail) look(p Position, limit int) (entries []tailEntry, older, same bool, moved <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	moved = t.moved.Next()
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
	return append(make([]tailEntry, 0, end-at), t.kept[at:end]...), false, true, moved
}

// end returns the position of the last entry that was read. It reports false until the log is first
// read.
func (t *tail) end() (Position, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Position{t.epoch, t.next - 1}, t.epoch != ""
}

// busyMinute reports whether at least twelve occurrences arrived within one minute.
func (t *tail) busyMinute() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.came >= len(t.busy) && time.Since(t.busy[t.came%len(t.busy)]) < time.Minute
}
