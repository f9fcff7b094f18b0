package engine_test

import (
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// One process takes many servers within seconds, and gives half of them to another one
// within a minute.
func TestManyServersAreShared(t *testing.T) {
	t.Parallel()
	const n = 300
	w := newWorld(t)
	cfg := disabled(names(n)...)
	opts := place{url: journaltest.Store(t), replicas: 1}
	has := func(p *run) (n int) {
		for _, st := range p.Tracker().Snapshot().Servers {
			if st.State == event.Disabled {
				n++
			}
		}
		return n
	}
	began := time.Now()
	one := w.engine(opts, engine.Options{Shared: true}, cfg)
	eventually(t, "one process has all servers", 2*time.Minute, func() bool { return has(one) == n })
	t.Logf("all taken after %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	two := w.engine(opts, engine.Options{Shared: true}, cfg)
	eventually(t, "each process has half of the servers", 2*time.Minute, func() bool { return has(one) == n/2 && has(two) == n/2 })
	t.Logf("shared evenly after %v", time.Since(began).Round(time.Millisecond))
}
