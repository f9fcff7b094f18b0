package mcpevents

import (
	"context"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Position says up to which entry a log was looked at.
type Position struct {
	Epoch string
	Seq   uint64
}

// Cursor returns the position as clients get it.
func (p Position) Cursor() string { return event.FormatID(p.Epoch, p.Seq) }

// maxReaders bounds how many clients read entries that the tail no longer keeps at a time.
const maxReaders = 8

// Reader reads the log from a position on. Run must be running.
type Reader struct {
	tail *tail
	// readers is a semaphore of capacity maxReaders for reading older entries. A caller
	// sends to acquire a slot and receives to release it; it is never closed.
	readers chan struct{}
}

// NewReader returns a reader of the log that returns only the events that scope shows.
func NewReader(log journal.Log, scope Scope) *Reader {
	return &Reader{tail: newTail(log, scope), readers: make(chan struct{}, maxReaders)}
}

// Run follows the log until ctx ends.
func (r *Reader) Run(ctx context.Context) error { return r.tail.run(ctx) }

// Batch is a part of the log.
type Batch struct {
	Occurrences []*Occurrence
	At          Position // the last entry that was looked at
	// Truncated says that entries before At are missing; there are no Occurrences then.
	Truncated bool
}

// Start returns where a subscription begins: at its cursor, or now without one.
// truncated says that events after the cursor are missing or were left out. If ceiling is not
// zero and more entries than that follow the cursor, or entries older than replayAge, the
// subscription begins now.
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

// Since returns the position before the first entry that was stored at t or later.
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

// replayAge is the greatest age of past events that a subscription with a ceiling, such as
// that of a webhook, still gets; see [Reader.Start].
const replayAge = 24 * time.Hour

// Look looks at the entries after p, at most limit, and returns those of them that match and
// are shown. It does not wait: b.At is p if there is nothing new. moved is closed when there
// may be more.
func (r *Reader) Look(ctx context.Context, p Position, match func(*Occurrence) bool, limit int) (b Batch, moved <-chan struct{}, err error) {
	entries, older, same, moved := r.tail.look(p, limit)
	if !same { // the log was replaced
		cursor := p.Cursor()
		at, _, err := r.Start(ctx, &cursor, 0, 0)
		if err != nil || at.Epoch == p.Epoch { // not yet seen by the tail
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
				return b, moved, nil // what was found counts
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

// without returns an event without the items that are hidden since it was read; nil if it is not
// shown at all.
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

// maxRead bounds what is read from the log at a time, in bytes.
const maxRead = 1 << 20

// read reads the entries after p from the log, at most limit: those that the tail no longer
// keeps.
func (r *Reader) read(ctx context.Context, p Position, limit int) ([]logged, error) {
	select {
	case r.readers <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-r.readers }()
	var out []logged
	size := 0
	for e, err := range r.tail.log.Read(ctx, p.Seq+1) {
		if err != nil {
			if len(out) > 0 {
				break // what was read counts
			}
			return nil, err
		}
		if epoch, _, err := event.ParseID(e.ID); err != nil || epoch != p.Epoch {
			return nil, journal.ErrEpoch // the tail will notice
		}
		occ, gap := r.tail.scope.occurrence(&e)
		out = append(out, logged{e.Seq, e.ID, occ, gap})
		if size += len(e.Data()); size > maxRead || len(out) >= limit {
			break
		}
	}
	return out, nil
}

// unavailable is the error of a request that the log cannot answer now. It has no details
// of the store.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &mcpserver.Error{Code: mcp.CodeInternal, Message: "StoreUnavailable"}
}
