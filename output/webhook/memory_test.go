package webhook

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// A subscription to which nothing is sent takes about 8 KiB at most, with its goroutine.
func TestIdleSubscriptionIsSmall(t *testing.T) {
	const n = 1000
	used := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	w := newWorld(t, Options{Allow: urls(t, "https://**"), MaxEach: n})
	subscribe := func(i int) {
		if _, err := w.ask(mcp.MethodSubscribeEvents, "chat", params(fmt.Sprintf("https://hooks.example/h/%d", i), oneSecret)); err != nil {
			t.Fatal(err)
		}
	}
	subscribe(0)
	before := used()
	for i := range n - 1 {
		subscribe(i + 1)
	}
	working := func() (working int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, sub := range w.byID {
			if sub.stop != nil {
				working++
			}
		}
		return working
	}
	w.until("a worker for each", func() bool { return working() == n })
	each := (int64(used()) - int64(before)) / (n - 1)
	t.Logf("%d bytes", each)
	// A little more, as how large stacks are is decided by the runtime.
	if limit := int64(9 << 10); each > limit && !raceEnabled {
		t.Errorf("%d bytes for each subscription, more than %d", each, limit)
	}
}
