package gateway

import (
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

func TestNames(t *testing.T) {
	t.Parallel()
	several := newNaming([]string{"docs", "docs_v2", "my_server", "a b", "x"}, nil)
	for _, c := range []struct{ server, name, want string }{
		{"docs", "search", "docs_search"},
		{"docs", "v2_search", "docs_v2_search"},
		{"docs_v2", "search", "docs_v2_search_074a2d02"}, // "docs" is also a server
		{"my_server", "read.file", "my_server_read.file"},
		{"x", "ünï/code", "x__n__code_205feb52"},
		{"x", "y_00112233", "x_y_00112233_dcdb2e8b"}, // looks hashed
		{"x", strings.Repeat("n", 62), "x_" + strings.Repeat("n", 62)},
		{"x", strings.Repeat("n", 63), "x_" + strings.Repeat("n", 53) + "_f0bdcb35"},
	} {
		if got := several.export(c.server, c.name); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.name, c.server, got, c.want)
		}
	}
	one := newNaming([]string{"docs"}, nil)
	if got := one.export("docs", "any name/at all"); got != "any name/at all" {
		t.Errorf("of one server: %q", got)
	}
	own := map[string]bool{"changes_since": true}
	for _, c := range []struct {
		servers []string
		name    string
		want    string
	}{
		{[]string{"docs"}, "changes_since", "docs_changes_since_362d38ba"},
		{[]string{"docs"}, "docs_changes_since", "docs_changes_since"},
		{[]string{"changes", "docs"}, "since", "changes_since_be5deea2"},
		{[]string{"changes", "docs"}, "until", "changes_until"},
	} {
		if got := newNaming(c.servers, own).export(c.servers[0], c.name); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.name, c.servers, got, c.want)
		}
	}
}

// Names are unique, valid, and depend only on the set of servers. The alphabets are small, so
// that every possible collision occurs.
func TestNamesAreUniqueAndStable(t *testing.T) {
	t.Parallel()
	id := rapid.OneOf(rapid.StringMatching(`[a_]{1,4}`), rapid.StringMatching(`[ab_.é ]{1,3}`),
		rapid.StringMatching(`a{50,66}`))
	name := rapid.OneOf(rapid.StringMatching(`[a_]{1,5}`), rapid.StringMatching(`[ab_é/]{1,3}`),
		rapid.StringMatching(`a{1,2}_[0-9a-f]{8}`), rapid.StringMatching(`a{40,70}b?`))
	rapid.Check(t, func(t *rapid.T) {
		servers := rapid.SliceOfNDistinct(id, 2, 6, rapid.ID).Draw(t, "servers")
		names := rapid.SliceOfNDistinct(name, 1, 8, rapid.ID).Draw(t, "names")
		n := newNaming(servers, nil)
		shuffled := newNaming(rapid.Permutation(servers).Draw(t, "order"), nil)
		whose := map[string][2]string{}
		add := func(s, name string) string {
			out := n.export(s, name)
			if other, taken := whose[out]; taken && other != [2]string{s, name} {
				t.Fatalf("%q: both %q and %q", out, other, [2]string{s, name})
			}
			whose[out] = [2]string{s, name}
			if len(out) > maxExported || !isName(out) {
				t.Fatalf("%q is no name", out)
			}
			if again := shuffled.export(s, name); again != out {
				t.Fatalf("%q and, in another order, %q", out, again)
			}
			return out
		}
		for _, s := range servers {
			for _, name := range names {
				out := add(s, name)
				for _, other := range servers { // the item that would take the name
					if rest, ok := strings.CutPrefix(out, other+"_"); ok && rest != "" {
						add(other, rest)
					}
				}
			}
		}
	})
}

func TestQualifiedURIsAreReversible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		server := rapid.StringN(1, 20, -1).Draw(t, "server")
		uri := rapid.StringN(1, 40, -1).Draw(t, "uri")
		q := qualify(server, uri)
		s, u, ok := unqualify(q)
		if !ok || s != server || u != uri {
			t.Fatalf("%q: %q %q %t", q, s, u, ok)
		}
		if s, u, ok := unqualify(qualify("x", q)); !ok || s != "x" || u != q {
			t.Fatalf("nested: %q %q %t", s, u, ok)
		}
	})
	for _, bad := range []string{"", "file:///a", "mcptrack://server/", "mcptrack://server/a", "mcptrack://server/a/", "mcptrack://server//u", "mcptrack://server/%zz/u"} {
		if s, u, ok := unqualify(bad); ok {
			t.Errorf("%q: %q %q", bad, s, u)
		}
	}
	if got := qualify("my docs", "file:///{path}"); got != "mcptrack://server/my%20docs/file:///{path}" {
		t.Error(got)
	}
	if got := qualify("..", "u"); got != "mcptrack://server/%2E%2E/u" {
		t.Error(got)
	}
}

func listOf(keys ...string) catalog.List {
	var items []catalog.Item
	for _, key := range keys {
		items = append(items, catalog.Item{Key: key})
	}
	return catalog.NewList(items)
}

// The names in an event follow only from what was stored before it.
func TestNamesOfEvents(t *testing.T) {
	t.Parallel()
	n := &Names{}
	n.Listed(journal.ListName{ServerID: "b", Kind: catalog.Resources}, listOf("x://remembered")) // before a config exists
	local := contribution{lists: map[catalog.Kind][]item{catalog.Tools: {{key: "a_search"}}, catalog.Resources: {{key: "mcptrack://index"}}}}
	n.start(local, nil)
	n.apply([]config.Server{{ID: "a"}, {ID: "b"}, {ID: "unreachable"}})
	// changed stores that a server now lists these items, and checks the names in the event.
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
	// An unlisted URI stays unchanged if it leads to the server.
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
	// b's lists count only while b is configured.
	changed("b", catalog.Resources, map[string]string{"x://2": ofB + "2"}, "x://2")
	n.apply([]config.Server{{ID: "a"}, {ID: "unreachable"}})
	updated("a", "x://2", "x://2")
	n.apply([]config.Server{{ID: "a"}, {ID: "b"}})
	updated("a", "x://2", ofA+"2")
	for _, e := range []*event.Event{{Payload: event.ConfigReloaded{}}, {ServerID: "other", ResourceURI: "x://1", Payload: event.ResourceUpdated{}}, {ServerID: "a", Payload: event.ServerState{}}} {
		if got := n.Exported(e); got != nil {
			t.Errorf("%+v: %v", e, got)
		}
	}
	if _, others := n.listed[catalog.Resources]["x://remembered"]; others {
		t.Error("unlisted items are counted")
	}
}

// The resources and templates of a server that was not reached yet still belong to it.
func TestRememberedListsCount(t *testing.T) {
	t.Parallel()
	var lists [2]map[catalog.Kind][]item
	for i := range lists {
		lists[i] = map[catalog.Kind][]item{
			catalog.Resources: itemsOf(t, catalog.Resources, "x://both"), catalog.Templates: itemsOf(t, catalog.Templates, "x://t/{y}")}
	}
	known := map[catalog.Kind]catalog.List{catalog.Resources: listOf("x://both"), catalog.Templates: listOf("x://t/{y}")}
	both := newExports(contribution{}, []contribution{{id: "a", lists: lists[0]}, {id: "b", lists: lists[1], known: known}}, filter{}, func(Refusal) {})
	alone := newExports(contribution{}, []contribution{{id: "a", lists: lists[0]}, {id: "b", known: known}}, filter{}, func(Refusal) {})
	for k, key := range map[catalog.Kind]string{catalog.Resources: "mcptrack://server/a/x://both", catalog.Templates: "mcptrack://server/a/x://t/{y}"} {
		if len(alone.byKey[k]) != 1 || len(both.byKey[k]) != 2 || alone.byKey[k][key].server != "a" || both.byKey[k][key].server != "a" {
			t.Errorf("%s: %v, with b %v", k, alone.byKey[k], both.byKey[k])
		}
	}
}
