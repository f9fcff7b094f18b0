package journaltest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// Logger returns a logger that writes to the output of the test.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Source makes events about the server docs. The zero value begins with version 1.
type Source struct{ N int }

// Next returns an event about a resource whose content has become the next version.
func (s *Source) Next(uri string) *event.Event {
	s.N++
	e := update("docs", uri, s.N)
	e.Seq = uint64(s.N)
	e.ID = event.FormatID("0000000000000abc", e.Seq) // the log assigns another one
	return e
}

// Digest returns the digest of version n of a content.
func Digest[N int | uint64](n N) catalog.Digest { return sha256.Sum256(fmt.Append(nil, n)) }

// URI returns the URI of a resource.
func URI(n int) string { return fmt.Sprintf("file:///docs/%d.md", n) }

// AppendN appends n events about 100 resources and waits until they are stored.
func AppendN(t testing.TB, log journal.Log, s *Source, n int) journal.Entry {
	t.Helper()
	for i := range n - 1 {
		add(t, log, s.Next(URI(i%100)))
	}
	e, err := log.Store(t.Context(), s.Next(URI((n-1)%100)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ReadAll returns what Read yields, and fails if an entry is malformed.
func ReadAll(t tb, log journal.Log, from uint64) (out []journal.Entry) {
	t.Helper()
	for e, err := range log.Read(within(t), from) {
		if err == nil {
			err = wellFormed(e)
		}
		if err != nil {
			t.Fatalf("Read(%d), entry %d: %v", from, len(out), err)
		}
		out = append(out, e)
	}
	return out
}

// InOrder fails unless the entries are exactly the n from number first on.
func InOrder(t testing.TB, entries []journal.Entry, epoch string, first uint64, n int) {
	t.Helper()
	if err := inOrder(entries, epoch, first, n); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until the condition holds, and fails if that takes longer than limit.
func Eventually(t tb, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
