package capindex

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// list makes a list of items from JSON descriptors.
func list(t testing.TB, k catalog.Kind, descriptors ...string) catalog.List {
	t.Helper()
	var items []catalog.Item
	for _, d := range descriptors {
		it, err := catalog.NewItem(k, json.RawMessage(d))
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	return catalog.NewList(items)
}

// fakeSource provides a snapshot that a test can change.
type fakeSource struct {
	mu       sync.Mutex
	snapshot Capabilities
	asked    atomic.Int64
	delay    time.Duration // of each call; only in a synctest bubble
}

func (s *fakeSource) load() Capabilities {
	s.asked.Add(1)
	s.mu.Lock()
	snapshot := s.snapshot
	s.mu.Unlock()
	time.Sleep(s.delay) // fake time
	return snapshot
}

func (s *fakeSource) set(v Capabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot = v
}

func oneTool(t testing.TB, name string) Capabilities {
	return Capabilities{[]ServerCapabilities{{ID: "docs", Lists: map[catalog.Kind]catalog.List{catalog.Tools: list(t, catalog.Tools, `{"name":"`+name+`"}`)}}}}
}

func newIndex(t testing.TB, opts Options) *Index {
	t.Helper()
	x, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *Index) mustRead(t testing.TB, name string) Document {
	t.Helper()
	d, err := x.Read(t.Context(), scheme+name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
