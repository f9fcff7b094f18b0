package gateway

import (
	"fmt"
	"maps"
	"regexp"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

func listOf(keys ...string) catalog.List {
	var items []catalog.Item
	for _, key := range keys {
		items = append(items, catalog.Item{Key: key})
	}
	return catalog.NewList(items)
}

// The names in an event follow from what was stored before it, and from nothing else.
func TestNamesOfEvents(t *testing.T) {
	t.Parallel()
	n := &Names{}
	n.Listed(journal.ListName{ServerID: "b", Kind: catalog.Resources}, listOf("x://remembered")) // before there is a config
	local := contribution{lists: map[catalog.Kind][]item{catalog.Tools: {{key: "a_search"}}, catalog.Resources: {{key: "mcptrack://index"}}}}
	n.start(local)
	n.apply([]string{"a", "b", "unreachable"})
	// changed stores that a server lists these items now, and wants the names in that event.
	lists := map[journal.ListName]catalog.List{{ServerID: "b", Kind: catalog.Resources}: listOf("x://remembered")}
	changed := func(server string, k catalog.Kind, want map[string]string, keys ...string) {
		t.Helper()
		name := journal.ListName{ServerID: server, Kind: k}
		list := listOf(keys...)
		d := catalog.Diff(lists[name], list)
		lists[name] = list
		n.Listed(name, list)
		got := n.Exported(&event.Event{ServerID: server, Payload: event.ListChanged{List: k, Added: d.Added, Removed: d.Removed, Changed: d.Changed}})
		if got == nil || !maps.Equal(got, want) {
			t.Errorf("%s lists %s: %v, want %v", server, keys, got, want)
		}
	}
	updated := func(server, uri, want string) {
		t.Helper()
		for _, p := range []event.Payload{event.ResourceUpdated{}, event.ResourceRemoved{}} {
			got := n.Exported(&event.Event{ServerID: server, ResourceURI: uri, Payload: p})
			if name, differs := got[uri]; got == nil || differs != (want != uri) || differs && name != want {
				t.Errorf("%s %s: %v, want %s", server, uri, got, want)
			}
		}
	}
	const ofA, ofB = "mcptrack://server/a/x://", "mcptrack://server/b/x://"
	changed("a", catalog.Resources, map[string]string{}, "x://1", "x://2")
	updated("a", "x://1", "x://1")
	changed("b", catalog.Resources, map[string]string{"x://1": ofB + "1"}, "x://1", "x://remembered")
	updated("a", "x://1", ofA+"1")
	updated("b", "x://1", ofB+"1")
	changed("a", catalog.Resources, map[string]string{"x://1": ofA + "1"}, "x://2")
	updated("b", "x://1", "x://1")
	changed("a", catalog.Resources, map[string]string{"x://remembered": ofA + "remembered", "mcptrack://index": "mcptrack://server/a/mcptrack://index"}, "x://2", "x://remembered", "mcptrack://index")
	changed("a", catalog.Resources, map[string]string{"x://remembered": ofA + "remembered", "mcptrack://index": "mcptrack://server/a/mcptrack://index"}, "x://2")
	// What is not listed keeps its URI where that leads to the server.
	of := func(uri string) string {
		return n.Exported(&event.Event{ServerID: "a", ResourceURI: uri, Payload: event.ResourceUpdated{}})[uri]
	}
	changed("a", catalog.Templates, map[string]string{"{x}": "mcptrack://server/a/{x}"}, "x://t/{y}", "{x}")
	if of("x://t/1") != "" || of("x://u/1") != ofA+"u/1" {
		t.Errorf("not listed: %q, %q", of("x://t/1"), of("x://u/1"))
	}
	changed("b", catalog.Templates, map[string]string{"x://t/{y}": "mcptrack://server/b/x://t/{y}"}, "x://t/{y}")
	if of("x://t/1") != ofA+"t/1" {
		t.Errorf("the templates of two servers match: %q", of("x://t/1"))
	}
	changed("a", catalog.Tools, map[string]string{"dig": "a_dig", "search": n.naming.export("a", "search")}, "dig", "search")
	if name := n.naming.export("a", "search"); name == "a_search" {
		t.Error("a tool has the name of one of the gateway's own")
	}
	// Without b nothing of it counts, and again when it is back.
	changed("b", catalog.Resources, map[string]string{"x://2": ofB + "2"}, "x://2")
	n.apply([]string{"a", "unreachable"})
	updated("a", "x://2", "x://2")
	n.apply([]string{"a", "b"})
	updated("a", "x://2", ofA+"2")
	for _, e := range []*event.Event{{Payload: event.ConfigReloaded{}}, {ServerID: "other", ResourceURI: "x://1", Payload: event.ResourceUpdated{}}, {ServerID: "a", Payload: event.ServerState{}}} {
		if got := n.Exported(e); got != nil {
			t.Errorf("%+v: %v", e, got)
		}
	}
	if _, others := n.listed[catalog.Resources]["x://remembered"]; others {
		t.Error("what nobody lists is counted")
	}
}

// While a server was not reached yet, its resources and templates are still its own.
func TestRememberedListsCount(t *testing.T) {
	t.Parallel()
	var lists [2]map[catalog.Kind][]item
	for i := range lists {
		lists[i] = map[catalog.Kind][]item{}
		for k, raw := range map[catalog.Kind]string{catalog.Resources: `{"name":"r","uri":"x://both"}`, catalog.Templates: `{"name":"t","uriTemplate":"x://t/{y}"}`} {
			one, err := catalog.NewItem(k, []byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			it, err := newItem(k, one)
			if err != nil {
				t.Fatal(err)
			}
			it.pattern = regexp.MustCompile(`^x://t/[^/]*$`)
			lists[i][k] = []item{it}
		}
	}
	known := map[catalog.Kind]catalog.List{catalog.Resources: listOf("x://both"), catalog.Templates: listOf("x://t/{y}")}
	both := newView(contribution{}, []contribution{{id: "a", lists: lists[0]}, {id: "b", lists: lists[1], known: known}}, filter{}, func(Refusal) {})
	alone := newView(contribution{}, []contribution{{id: "a", lists: lists[0]}, {id: "b", known: known}}, filter{}, func(Refusal) {})
	for k, key := range map[catalog.Kind]string{catalog.Resources: "mcptrack://server/a/x://both", catalog.Templates: "mcptrack://server/a/x://t/{y}"} {
		if len(alone.byKey[k]) != 1 || len(both.byKey[k]) != 2 || alone.byKey[k][key].server != "a" || both.byKey[k][key].server != "a" {
			t.Errorf("%s: %v, with b %v", k, alone.byKey[k], both.byKey[k])
		}
	}
}

// Many lists cost little, as the tracker waits meanwhile.
func BenchmarkNames(b *testing.B) {
	n := &Names{}
	ids := make([]string, 100)
	keys := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprint("s", i)
		for j := range keys {
			keys[j] = fmt.Sprintf("x://%d/%d", i, j)
		}
		n.Listed(journal.ListName{ServerID: ids[i], Kind: catalog.Resources}, listOf(keys...))
	}
	n.apply(ids)
	e := &event.Event{ServerID: "s99", ResourceURI: keys[500], Payload: event.ResourceUpdated{}}
	for b.Loop() {
		n.Exported(e)
	}
}
