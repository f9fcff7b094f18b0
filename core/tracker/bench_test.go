package tracker

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// BenchmarkPublish commits an update to the published state and delivers it to a subscriber.
func BenchmarkPublish(b *testing.B) {
	t := New(Options{})
	_, sub := t.Subscribe(b.Context())
	w := newWorker(t, config.Server{ID: "docs", Enabled: true})
	b.ReportAllocs()
	for i := range b.N {
		w.updated(coalesce.Update{
			Known: coalesce.Known{URI: "file:///a.md", Content: coalesce.Content{Digest: catalog.Digest{1, byte(i)}, Size: 3}},
			Cause: event.CauseNotify, Read: true, Previous: coalesce.Content{Digest: catalog.Digest{1, byte(i - 1)}},
		})
		if i%1000 == 0 {
			sub.Next()
		}
	}
}
