package sse

import (
	"context"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
)

// Source is the log that a hub sends. Its fields have the contracts of the methods of
// [journal.Journal] of the same name. All but Settle are required.
type Source struct {
	Bounds func(context.Context) (journal.Bounds, error)
	Follow func(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error]
	Read   func(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error]
	Resume func(ctx context.Context, id string) (journal.Resumption, error)
	Since  func(context.Context, time.Time) (uint64, error)
	// Settle waits until Bounds includes every entry that was appended before; for
	// [Hub.Shutdown].
	Settle func(context.Context) error
}

// FromJournal returns the journal as a source.
func FromJournal(j *journal.Journal) Source {
	return Source{
		Bounds: j.Bounds, Follow: j.Follow, Read: j.Read, Resume: j.Resume, Since: j.Since,
		Settle: j.Flush,
	}
}
