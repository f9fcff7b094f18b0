package journal

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func quiet(dir string, d Durability) Options {
	return Options{Dir: dir, Durability: d, Logger: slog.New(slog.DiscardHandler), Queue: 1 << 20}
}

// BenchmarkAppend is one appender that does not wait: events a second that are
// durable.
func BenchmarkAppend(b *testing.B) {
	for _, d := range []Durability{Always, Interval, OS} {
		b.Run(string(d), func(b *testing.B) {
			j := open(b, quiet(b.TempDir(), d))
			s := newSource()
			appendN(b, j, s, 100)
			b.ResetTimer()
			appendN(b, j, s, b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			closeJournal(b, j)
		})
	}
}

// BenchmarkStore is one appender that waits for each event.
func BenchmarkStore(b *testing.B) {
	for _, d := range []Durability{Always, OS} {
		b.Run(string(d), func(b *testing.B) {
			j := open(b, quiet(b.TempDir(), d))
			s := newSource()
			for b.Loop() {
				if _, err := j.Store(b.Context(), s.next(uri(1))); err != nil {
					b.Fatal(err)
				}
			}
			closeJournal(b, j)
		})
	}
}

// BenchmarkReplay reads 100,000 events, and reopens their log.
func BenchmarkReplay(b *testing.B) {
	const n = 100_000
	dir := b.TempDir()
	j := open(b, quiet(dir, OS))
	appendN(b, j, newSource(), n)
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			next := uint64(1)
			for e, err := range j.Read(b.Context(), 1) {
				if err != nil || e.Seq != next || len(e.Data) < 200 {
					b.Fatal(e, err)
				}
				next++
			}
			if next != n+1 {
				b.Fatalf("read up to %d", next-1)
			}
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("tail10", func(b *testing.B) {
		for b.Loop() {
			inOrder(b, read(b, j, n-9), j.Epoch(), n-9, 10)
		}
	})
	b.Run("bounds", func(b *testing.B) {
		for b.Loop() {
			if _, err := j.Bounds(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	closeJournal(b, j)
	b.Run("reopen", func(b *testing.B) {
		for b.Loop() {
			closeJournal(b, open(b, quiet(dir, OS)))
		}
	})
	b.Run("reopen-killed", func(b *testing.B) {
		index := filepath.Join(dir, "store", "jetstream", "$G", "streams", "mcptrack", "msgs", "index.db")
		for b.Loop() {
			b.StopTimer()
			if err := errors.Join(os.Remove(index), os.Remove(filepath.Join(dir, "mark"))); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			j := open(b, quiet(dir, Always))
			inOrder(b, read(b, j, n-9), j.Epoch(), n-9, 10)
			b.StopTimer()
			closeJournal(b, j)
			b.StartTimer()
		}
	})
}

// BenchmarkClusterAppend is BenchmarkAppend on three nodes that sync always.
func BenchmarkClusterAppend(b *testing.B) {
	c := journaltest.StartCluster(b)
	j := open(b, Options{URL: c.URLs[0], Queue: 1 << 22, Drain: time.Minute})
	s := newSource()
	appendN(b, j, s, 100)
	b.ResetTimer()
	appendN(b, j, s, b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	closeJournal(b, j)
}

// BenchmarkFollow is the way of one event through the log: appended, durable,
// seen by a follower.
func BenchmarkFollow(b *testing.B) {
	j := open(b, quiet(b.TempDir(), Always))
	s := newSource()
	appendN(b, j, s, 1)
	seen := make(chan struct{})
	go func() {
		for _, err := range j.Follow(b.Context(), 2) {
			if err != nil {
				return
			}
			seen <- struct{}{}
		}
	}()
	time.Sleep(50 * time.Millisecond)
	for b.Loop() {
		_ = j.Append(s.next(uri(1)))
		<-seen
	}
	closeJournal(b, j)
}
