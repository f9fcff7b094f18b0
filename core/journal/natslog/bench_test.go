package natslog

import (
	"log/slog"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// BenchmarkAppend measures one appender that does not wait, on three nodes that sync always:
// durable events per second.
func BenchmarkAppend(b *testing.B) {
	c := journaltest.StartCluster(b)
	j := open(b, Options{URL: c.URLs[0], Queue: 1 << 22, Drain: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	s := new(journaltest.Source)
	journaltest.AppendN(b, j, s, 100)
	b.ResetTimer()
	journaltest.AppendN(b, j, s, b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	closeLog(b, j)
}

// BenchmarkRead reads 100,000 events from a server.
func BenchmarkRead(b *testing.B) {
	const n = 100_000
	j := open(b, Options{URL: journaltest.Store(b), Replicas: 1, Queue: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	journaltest.AppendN(b, j, new(journaltest.Source), n)
	for b.Loop() {
		journaltest.InOrder(b, journaltest.ReadAll(b, j, 1), j.Epoch(), 1, n)
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s")
}
