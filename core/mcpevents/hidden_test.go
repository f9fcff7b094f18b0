package mcpevents_test

import (
	"cmp"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpevents"
)

// TestHiddenItemsOfAList: an item that is hidden since its list changed is not named any more;
// the others are.
func TestHiddenItemsOfAList(t *testing.T) {
	t.Parallel()
	var hidden atomic.Value // the key from which on items are hidden
	hidden.Store("z")
	w := newWorldOn(t, journal.MemoryOptions{}, mcpevents.Options{},
		mcpevents.Scope{Item: func(_ string, _ catalog.Kind, key, _ string) (string, bool) { return key, key < hidden.Load().(string) }})
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

// TestNamesAreStored: an event has the names that were stored with it, whatever the scope would
// call the items now; one without any has those of the scope.
func TestNamesAreStored(t *testing.T) {
	t.Parallel()
	var now atomic.Value // what the scope calls items: this and their key
	now.Store("one/")
	w := newWorldOn(t, journal.MemoryOptions{}, mcpevents.Options{}, mcpevents.Scope{Item: func(_ string, _ catalog.Kind, key, stored string) (string, bool) {
		return cmp.Or(stored, now.Load().(string)+key), true
	}})
	w.store(event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Ready}})
	from := map[string]string{"list.changed": w.poll(`{"name":"list.changed"}`).Cursor, "resource.updated": w.poll(`{"name":"resource.updated"}`).Cursor}
	last := ""
	for i, names := range []map[string]string{{}, {"a": "theirs/a"}, {"a": "two\nlines"}, nil} {
		w.store(event.Event{ServerID: "docs", ResourceURI: "a", Exported: names, Payload: event.ResourceUpdated{}})
		last = w.store(event.Event{ServerID: "docs", Exported: names, Payload: event.ListChanged{List: catalog.Resources, Added: []string{"a", fmt.Sprint(i)}, Removed: []string{"b"}}})
	}
	w.pollFor(last, from["list.changed"], "list.changed", `{}`)
	for name, want := range map[string]string{
		"list.changed":     "[0 a] [b] [1 theirs/a] [b] [2 one/a] [b] [one/3 one/a] [one/b] ",
		"resource.updated": "a theirs/a one/a one/a ",
	} {
		var got strings.Builder
		for _, e := range w.poll(`{"name":%q,"cursor":%q}`, name, from[name]).Events {
			if name == "list.changed" {
				fmt.Fprint(&got, e.Data["added"], e.Data["removed"], " ")
			} else {
				fmt.Fprint(&got, e.Data["uri"], " ")
			}
		}
		if got.String() != want {
			t.Errorf("%s: %q, want %q", name, got.String(), want)
		}
	}
}
