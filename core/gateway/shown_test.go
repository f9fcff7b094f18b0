package gateway

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
)

// Clients get events only about what they could list or read, under the names they know.
func TestShows(t *testing.T) {
	t.Parallel()
	f, err := newFilter(nil, []string{"secret*", "file:///private/**"}, false)
	if err != nil {
		t.Fatal(err)
	}
	all := tracks(config.Server{Tracking: config.Tracking{TrackResources: true, TrackTools: true, TrackPrompts: true, Exclude: []string{"file:///tmp/*"}}})
	both, err := catalog.NewItem(catalog.Resources, []byte(`{"name":"both","uri":"file:///both"}`))
	if err != nil {
		t.Fatal(err)
	}
	listed, err := newItem(catalog.Resources, both)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[catalog.Kind][]item{catalog.Resources: {listed}}
	v := newView(contribution{}, []contribution{{id: "a", serverState: serverState{tracks: all}, lists: lists}, {id: "b", serverState: serverState{tracks: tracks(config.Server{Tracking: config.Tracking{TrackTools: true}})}, lists: lists}}, f, func(Refusal) {})
	v.refused = refusedItems(map[Refusal]struct{}{
		{Server: "a", Kind: catalog.Tools, Key: "broken"}:              {},
		{Server: "a", Kind: catalog.Tools, Key: "odd", Listed: true}:   {},
		{Server: "a", Kind: catalog.Resources, Key: "file:///hostile"}: {},
	})
	g := &Gateway{names: &Names{}}
	g.view.Store(v)
	g.names.apply([]string{"a", "b"})
	for _, id := range []string{"a", "b"} {
		g.names.Listed(journal.ListName{ServerID: id, Kind: catalog.Resources}, catalog.List{both})
	}
	for _, c := range []struct {
		server   string
		kind     catalog.Kind
		key      string
		exported string // "": not shown
	}{
		{"a", catalog.Resources, "file:///both", "mcptrack://server/a/file:///both"},
		{"a", catalog.Resources, "file:///gone", "file:///gone"},
		{"a", catalog.Resources, "mcptrack://server/b/x", "mcptrack://server/a/mcptrack://server/b/x"},
		{"a", catalog.Resources, "file:///private/x", ""},
		{"a", catalog.Resources, "file:///tmp/x", ""},
		{"a", catalog.Resources, "file:///hostile", ""},
		{"b", catalog.Resources, "file:///both", ""},
		{"c", catalog.Resources, "file:///both", ""},
		{"a", catalog.Tools, "gone", "a_gone"},
		{"a", catalog.Tools, "odd", "a_odd"},
		{"a", catalog.Tools, "broken", ""},
		{"a", catalog.Tools, "secret_tool", ""},
		{"b", catalog.Tools, "t", "b_t"},
		{"b", catalog.Prompts, "t", ""},
		{"b", catalog.Templates, "t:{x}", ""},
		{"a", catalog.Templates, "t:{x}", "mcptrack://server/a/t:{x}"},
		{"a", catalog.Templates, "file:///t/{x}", "file:///t/{x}"},
	} {
		if exported, ok := g.Exports(c.server, c.kind, c.key, ""); ok != (c.exported != "") || ok && exported != c.exported {
			t.Errorf("%s %s %s: %q, %t; want %q", c.server, c.kind, c.key, exported, ok, c.exported)
		}
	}
	// The stored name stays; what is hidden by now is hidden.
	if got, ok := g.Exports("a", catalog.Resources, "file:///both", "file:///both"); !ok || got != "file:///both" {
		t.Errorf("stored as file:///both: %s, %t", got, ok)
	}
	if got, ok := g.Exports("a", catalog.Resources, "file:///private/x", "file:///private/x"); ok {
		t.Errorf("hidden, but shown as %s", got)
	}
	if !g.ExportsServer("a") || g.ExportsServer("c") {
		t.Error("servers that are not exported are shown")
	}
}
