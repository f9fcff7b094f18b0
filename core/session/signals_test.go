package session

import (
	"fmt"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

func subscribed(n int) *Signals {
	g := newSignals(20_000, false)
	var f Filter
	for i := range n {
		f.URIs = append(f.URIs, fmt.Sprintf("test://%d", i))
	}
	g.setWanted(wantedOf(f))
	return g
}

func updated(uri string) *wire.Notification {
	return &wire.Notification{Method: mcp.NotificationResourceUpdated, URI: uri}
}

// A flood of signals for known keys must not allocate: it would double the decoder's garbage.
func TestSignalDoesNotAllocate(t *testing.T) {
	g, n := subscribed(1000), updated("test://5")
	g.notify(n, false)
	if got := testing.AllocsPerRun(1000, func() { g.notify(n, false) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkSignal(b *testing.B) {
	for name, uri := range map[string]string{"subscribed": "test://5", "unsubscribed": "other://a/b/c/d/e/f"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			g, n := subscribed(1000), updated(uri)
			for b.Loop() {
				g.notify(n, false)
			}
		})
	}
}

// A closed session starts no requests, in the background or otherwise.
func TestListenAfterClose(t *testing.T) {
	t.Parallel()
	s := newSession(config.Server{}, Options{}.withDefaults())
	_ = s.Close()
	if l, err := s.listen(t.Context(), Filter{URIs: []string{"a:b"}}); l != nil || err == nil {
		t.Errorf("%v, %v", l, err)
	}
}
