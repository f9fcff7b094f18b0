package coalesce

import (
	"fmt"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// benchmarked tracks n resources whose content is known.
func benchmarked(n int) (*Coalescer, []string) {
	c := New(Options{
		Window: 2 * time.Second, Patience: 250 * time.Millisecond, Digests: true,
		Baseline: func(string) catalog.Digest { return digestOf(1) },
		Publish:  func(Update) {},
	})
	uris := make([]string, n)
	for i := range uris {
		uris[i] = fmt.Sprintf("file:///%d.md", i)
		c.Add(uris[i], event.Descriptor{})
	}
	return c, uris
}

func answerAll(c *Coalescer, content int, now time.Time) {
	for r, ok := c.NextRead(8); ok; r, ok = c.NextRead(8) {
		c.Answer(r, OK, Content{Digest: digestOf(content)}, now)
	}
}

// BenchmarkChange is a signal, a read that finds another content, and the end of the window.
func BenchmarkChange(b *testing.B) {
	c, uris := benchmarked(1000)
	now := time.Unix(1_700_000_000, 0)
	b.ReportAllocs()
	for i := range b.N {
		c.Signal(uris[i%len(uris)], Signal{N: 1, Received: now}, now)
		answerAll(c, 2+i%1000, now)
		now = now.Add(3 * time.Millisecond)
		c.Advance(now)
	}
}

// BenchmarkFolded is a signal inside an open window.
func BenchmarkFolded(b *testing.B) {
	c, uris := benchmarked(1000)
	now := time.Unix(1_700_000_000, 0)
	b.ReportAllocs()
	for i := range b.N {
		c.Signal(uris[i%len(uris)], Signal{N: 1, Received: now}, now)
	}
}

// BenchmarkCompareAll reads 10,000 unchanged resources after a suspension.
func BenchmarkCompareAll(b *testing.B) {
	c, _ := benchmarked(10_000)
	now := time.Unix(1_700_000_000, 0)
	b.ReportAllocs()
	for range b.N {
		c.Suspend()
		c.CompareAll()
		answerAll(c, 1, now)
	}
}
