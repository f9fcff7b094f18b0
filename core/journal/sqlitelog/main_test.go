package sqlitelog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// childEnv makes the test binary a process that a test kills; see child_test.go.
const childEnv = "MCPTRACK_LOG_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(what))
	}
	goleak.VerifyTestMain(m)
}

// testLog shows a log's own log in the test's.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func open(t testing.TB, opts Options) *Log {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = testLog(t)
	}
	opts.check = time.Minute
	l, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// idle opens a log whose writer the test calls itself. Whatever waits for the writer hangs.
func idle(t *testing.T, opts Options) (*Log, *writer) {
	t.Helper()
	opts, err := opts.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	opts.Logger = testLog(t)
	l := newLog(t.Context(), opts)
	if l.dir, err = openDir(opts.Dir, false); err != nil {
		t.Fatal(err)
	}
	w, err := newWriter(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.life.End()
		l.life.Wait()
		w.finish()
		if err := l.dir.close(); err != nil {
			t.Error(err)
		}
	})
	return l, w
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// source makes events as the tracker does: numbered within one epoch.
type source struct {
	epoch string
	seq   uint64
}

func newSource() *source { return &source{epoch: journal.NewEpoch()} }

func (s *source) next(uri string) *event.Event {
	s.seq++
	size := int64(s.seq)
	return &event.Event{
		ID: event.FormatID(s.epoch, s.seq), Seq: s.seq, ServerID: "docs", ResourceURI: uri,
		Timestamp: time.Now(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Name: fmt.Sprintf("n%d", s.seq), MimeType: "text/plain", Size: &size, Digest: digest(s.seq)},
	}
}

func digest(n uint64) (d catalog.Digest) {
	for i := range 8 {
		d[i] = byte(n >> (8 * i))
	}
	d[31] = 1
	return d
}

func uri(n int) string { return fmt.Sprintf("file:///docs/%d.md", n) }

// appendN appends n events about 100 resources and waits for the last.
func appendN(t testing.TB, l *Log, s *source, n int) journal.Entry {
	t.Helper()
	for i := range n - 1 {
		if err := l.Append(s.next(uri(i % 100))); err != nil {
			t.Fatal(err)
		}
	}
	e, err := l.Store(t.Context(), s.next(uri((n-1)%100)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// read returns all entries from seq on.
func read(t testing.TB, l *Log, from uint64) []journal.Entry {
	t.Helper()
	var out []journal.Entry
	for e, err := range l.Read(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// inOrder fails unless the entries are n with ids that rise by one from first.
func inOrder(t testing.TB, entries []journal.Entry, epoch string, first uint64, n int) {
	t.Helper()
	if len(entries) != n {
		t.Fatalf("%d entries, want %d", len(entries), n)
	}
	for i, e := range entries {
		if e.Gap != nil || e.ID != event.FormatID(epoch, first+uint64(i)) {
			t.Fatalf("entry %d is %s (gap %v), want %s", i, e.ID, e.Gap, event.FormatID(epoch, first+uint64(i)))
		}
	}
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, within time.Duration, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// follower follows a log until that ends with an error.
type follower struct {
	began chan struct{} // closed at the first entry
	ended chan error    // gets the error; capacity 1
}

// startFollow follows from number from on, and waits for the first entry.
func startFollow(t *testing.T, l *Log, from uint64) *follower {
	t.Helper()
	f := &follower{began: make(chan struct{}), ended: make(chan error, 1)}
	go func() {
		first := true
		for _, err := range l.Follow(t.Context(), from) {
			if err != nil {
				f.ended <- err
			}
			if first {
				close(f.began)
				first = false
			}
		}
	}()
	<-f.began
	return f
}
