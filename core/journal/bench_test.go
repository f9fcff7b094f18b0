package journal

import (
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// BenchmarkFollow publishes an update, which a follower encodes.
func BenchmarkFollow(b *testing.B) {
	m := NewMemory(MemoryOptions{})
	entries := m.Follow(b.Context(), 1)
	e := event.Event{ServerID: "docs", ResourceURI: "file:///a.md", Timestamp: time.Unix(1_700_000_000, 0), Cause: event.CauseNotify, Payload: event.ResourceUpdated{Name: "a.md"}}
	var line []byte
	b.ReportAllocs()
	m.Publish(e)
	for entry, err := range entries {
		if err != nil {
			b.Fatal(err)
		}
		line = entry.AppendData(line[:0])
		if entry.Seq >= uint64(b.N) {
			return
		}
		m.Publish(e)
	}
}
