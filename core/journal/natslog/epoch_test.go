package natslog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// anew deletes the log, as an operator may, and makes the Log create another one with an entry.
func anew(t *testing.T, j *Log, s *journaltest.Source) journal.Entry {
	t.Helper()
	was := j.Epoch()
	if err := j.store.js.DeleteStream(t.Context(), j.store.opts.Stream); err != nil {
		t.Fatal(err)
	}
	e := journaltest.Append(t, j, s.Next(journaltest.URI(1)))
	if j.Epoch() == was || e.ID != event.FormatID(j.Epoch(), 1) {
		t.Fatalf("the new log, %s after %s, begins with %s", j.Epoch(), was, e.ID)
	}
	return e
}

// A process that only reads, and whose own writer notices nothing, gets an error, and can follow
// the new log.
func TestRealReadersSeeThatTheLogWasReplaced(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	a, b := open(t, Options{URL: url, Replicas: 1}), open(t, Options{URL: url, Replicas: 1})
	s := new(journaltest.Source)
	const n = 5
	journaltest.AppendN(t, a, s, n)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var first journal.Entry
	seen := 0
	for e, err := range b.Follow(ctx, 1) {
		if err != nil {
			if !errors.Is(err, journal.ErrEpoch) {
				t.Fatalf("ended with %v", err)
			}
			break
		}
		if seen++; seen == n {
			first = anew(t, a, s)
		} else if seen > n {
			t.Fatalf("%s comes after the end of the old log", e.ID)
		}
	}
	for e, err := range b.Follow(ctx, 1) {
		if err != nil || e.ID != first.ID {
			t.Errorf("the new log begins with %s, %v, want %s", e.ID, err, first.ID)
		}
		break
	}
	if got := journaltest.ReadAll(t, b, 1); len(got) != 1 || got[0].ID != first.ID {
		t.Errorf("%d entries are read", len(got))
	}
	// Its reader noticed: the number alone is above what it knows.
	if e := journaltest.Append(t, b, s.Next(journaltest.URI(2))); e.ID != event.FormatID(a.Epoch(), 2) {
		t.Errorf("stored as %s, in the log %s", e.ID, a.Epoch())
	}
}

// A process that stores in a log that another one recreated sees no failure, but its numbers do not
// rise.
func TestRealWriterSeesThatTheLogWasReplaced(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	a, b := open(t, Options{URL: url, Replicas: 1}), open(t, Options{URL: url, Replicas: 1})
	s := new(journaltest.Source)
	journaltest.AppendN(t, b, s, 5)
	anew(t, a, s)
	for want := uint64(2); want < 4; want++ {
		if e := journaltest.Append(t, b, s.Next(journaltest.URI(2))); e.ID != event.FormatID(a.Epoch(), want) {
			t.Errorf("stored as %s, in the log %s", e.ID, a.Epoch())
		}
	}
}

// A process that reconnects checks the epoch.
func TestRealReplacedLogIsSeenAfterReconnect(t *testing.T) {
	t.Parallel()
	f := startSlowStore(t)
	a, b := open(t, Options{URL: f.url, Replicas: 1}), open(t, Options{URL: f.url, Replicas: 1})
	s := new(journaltest.Source)
	journaltest.AppendN(t, a, s, 2)
	anew(t, a, s)
	f.cut()
	journaltest.Eventually(t, time.Minute, "the new epoch is known", func() bool { return b.Epoch() == a.Epoch() })
}

// A NATS server comes back with less than it acknowledged.
func TestRealShorterLogOfAServer(t *testing.T) {
	t.Parallel()
	server := journaltest.Start(t, t.TempDir())
	j := open(t, Options{URL: server.URL, Replicas: 1})
	epoch := j.Epoch()
	journaltest.AppendN(t, j, new(journaltest.Source), 100)
	server.Stop()
	blocks, err := filepath.Glob(filepath.Join(server.Dir, "jetstream", "*", "streams", "mcptrack", "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks %v, %v", blocks, err)
	}
	block := blocks[0]
	info, err := os.Stat(block)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(block, info.Size()*2/3); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(filepath.Dir(block), "index.db"))
	server.Start()
	journaltest.Eventually(t, time.Minute, "a new epoch", func() bool { return j.Epoch() != epoch })
	if e := journaltest.AppendN(t, j, new(journaltest.Source), 1); e.Seq > 100 {
		t.Fatalf("the log continues with %s: nothing was cut", e.ID)
	}
}
