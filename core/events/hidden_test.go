package events_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/events"
	"github.com/mcptrack/mcptrack/core/journal"
)

// TestHiddenItemsOfAList: an item that is hidden since its list changed is not named any more;
// the others are.
func TestHiddenItemsOfAList(t *testing.T) {
	t.Parallel()
	var hidden atomic.Value // the key from which on items are hidden
	hidden.Store("z")
	w := newWorldOn(t, journal.MemoryOptions{}, events.Options{},
		events.Scope{Item: func(_ string, _ catalog.Kind, key string) (string, bool) { return key, key < hidden.Load().(string) }})
	w.store(event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Ready}})
	first := w.poll(`{"name":"list.changed"}`)
	id := w.store(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Added: []string{"a", "b"}}})
	w.pollFor(id, first.Cursor, "list.changed", `{}`)
	for from, want := range map[string]string{"z": "[a b]", "b": "[a]", "a": ""} {
		hidden.Store(from)
		var got strings.Builder
		for _, e := range w.poll(`{"name":"list.changed","cursor":%q}`, first.Cursor).Events {
			got.WriteString(fmt.Sprint(e.Data["added"]))
		}
		if got.String() != want {
			t.Errorf("hidden from %s: %q, want %q", from, got.String(), want)
		}
	}
}
