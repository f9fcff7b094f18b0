package journal

import (
	"log/slog"
	"testing"
	"time"
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
			inOrder(b, read(b, j, 1), j.Epoch(), 1, n)
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
