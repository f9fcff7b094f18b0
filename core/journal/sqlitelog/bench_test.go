package sqlitelog

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func quiet(dir string, d journal.Durability) Options {
	return Options{Dir: dir, Durability: d, Logger: slog.New(slog.DiscardHandler), Queue: 1 << 20}
}

// appendAll appends n events about the resources and waits for the last, without letting so many
// wait that the queue would merge them.
func appendAll(b *testing.B, l *Log, s *journaltest.Source, n, resources int) {
	b.Helper()
	for i := range n - 1 {
		if err := l.Append(s.Next(journaltest.URI(i % resources))); err != nil {
			b.Fatal(err)
		}
		for i%1024 == 0 && l.Stats().Waiting > l.opts.Queue/8 {
			time.Sleep(time.Millisecond) // lets the writer catch up
		}
	}
	journaltest.Append(b, l, s.Next(journaltest.URI(0)))
}

// BenchmarkAppend measures one appender that does not wait: durable events per second.
func BenchmarkAppend(b *testing.B) {
	for _, resources := range []int{100, 10_000} {
		for _, d := range []journal.Durability{journal.Always, journal.Interval} {
			b.Run(fmt.Sprint(d, "/", resources), func(b *testing.B) {
				l := open(b, quiet(b.TempDir(), d))
				s := new(journaltest.Source)
				appendAll(b, l, s, 100, resources)
				b.ResetTimer()
				appendAll(b, l, s, b.N, resources)
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
				closeLog(b, l)
			})
		}
	}
}

// BenchmarkFlush measures one appender that waits for each event.
func BenchmarkFlush(b *testing.B) {
	for _, d := range []journal.Durability{journal.Always, journal.Interval} {
		b.Run(string(d), func(b *testing.B) {
			l := open(b, quiet(b.TempDir(), d))
			s := new(journaltest.Source)
			for b.Loop() {
				if err := errors.Join(l.Append(s.Next(journaltest.URI(1))), l.Flush(b.Context())); err != nil {
					b.Fatal(err)
				}
			}
			closeLog(b, l)
		})
	}
}

// BenchmarkReplay reads 100,000 events and opens their log again.
func BenchmarkReplay(b *testing.B) {
	const n = 100_000
	dir := b.TempDir()
	l := open(b, quiet(dir, journal.Interval))
	appendAll(b, l, new(journaltest.Source), n, 10_000)
	closeLog(b, l)
	l = open(b, quiet(dir, journal.Interval)) // nothing is in memory
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			next := uint64(1)
			for e, err := range l.Read(b.Context(), 1) {
				if err != nil || e.Seq != next || len(e.Data()) < 200 {
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
			journaltest.InOrder(b, journaltest.ReadAll(b, l, n-9), l.Epoch(), n-9, 10)
		}
	})
	b.Run("states", func(b *testing.B) {
		for b.Loop() {
			if s, err := l.States(b.Context(), ""); err != nil || len(s.Resources) != 10_000 {
				b.Fatal(len(s.Resources), err)
			}
		}
	})
	closeLog(b, l)
	b.Run("reopen", func(b *testing.B) {
		for b.Loop() {
			closeLog(b, open(b, quiet(dir, journal.Interval)))
		}
	})
}

// BenchmarkHistory selects the versions of one resource of 10,000 in a log of 1,000,000 events.
func BenchmarkHistory(b *testing.B) {
	const n = 1_000_000
	dir := b.TempDir()
	l := open(b, quiet(dir, journal.Interval))
	began := time.Now()
	appendAll(b, l, new(journaltest.Source), n, 10_000)
	bounds, err := l.Bounds(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	b.Logf("%.0f events/s, %d MB; %d MB of Go heap", n/time.Since(began).Seconds(), bounds.Bytes>>20, mem.HeapAlloc>>20)
	closeLog(b, l)
	began = time.Now()
	l = open(b, quiet(dir, journal.Interval))
	b.Logf("opened in %v", time.Since(began))
	for name, sel := range map[string]journal.Selection{
		"resource": {ServerID: "docs", URI: journaltest.URI(77)}, "nothing": {ServerID: "none"}, "last second": {ServerID: "docs", URI: journaltest.URI(77), After: began.Add(-time.Second)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				count := 0
				for _, err := range l.Select(b.Context(), sel) {
					if err != nil {
						b.Fatal(err)
					}
					count++
				}
				if want := n / 10_000; name == "resource" && count != want {
					b.Fatalf("%d versions, want %d", count, want)
				}
			}
		})
	}
	closeLog(b, l)
}

// BenchmarkFollow measures the way of one event through the log: appended, durable, seen by a
// follower.
func BenchmarkFollow(b *testing.B) {
	l := open(b, quiet(b.TempDir(), journal.Always))
	s := new(journaltest.Source)
	journaltest.AppendN(b, l, s, 1)
	seen := make(chan struct{})
	go func() {
		for _, err := range l.Follow(b.Context(), 2) {
			if err != nil {
				return
			}
			seen <- struct{}{}
		}
	}()
	for b.Loop() {
		_ = l.Append(s.Next(journaltest.URI(1)))
		<-seen
	}
	closeLog(b, l)
}
