package lines

import (
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// TestOneLineForOneChange: a change of the list of resources, and the events about those of
// them that are followed, are one line.
func TestOneLineForOneChange(t *testing.T) {
	list := func(added, removed, changed []string) *event.Event {
		return &event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Resources, Added: added, Removed: removed, Changed: changed}}
	}
	of := func(uri string, p event.Payload) *event.Event {
		return &event.Event{ServerID: "docs", ResourceURI: uri, Payload: p}
	}
	var many []string
	for _, c := range "abcdefg" {
		many = append(many, "file:///"+string(c))
	}
	const a, b = "file:///a", "file:///b"
	for name, c := range map[string]struct {
		events []*event.Event
		want   []string
		plain  Writer
	}{
		"added":             {[]*event.Event{list([]string{a}, nil, nil), of(a, event.ResourceAdded{})}, []string{"added  " + a}, Writer{}},
		"not followed":      {[]*event.Event{list([]string{a}, nil, nil), list(nil, []string{a}, nil)}, []string{"added  " + a, "removed  " + a}, Writer{}},
		"twice":             {[]*event.Event{list([]string{a}, nil, nil), of(a, event.ResourceAdded{}), of(a, event.ResourceAdded{})}, []string{"added  " + a, "added  " + a}, Writer{}},
		"several":           {[]*event.Event{list([]string{a}, []string{b}, nil), of(a, event.ResourceAdded{}), of(b, event.ResourceRemoved{})}, []string{"resources  +" + a + " -" + b}, Writer{}},
		"described anew":    {[]*event.Event{list(nil, nil, []string{a}), of(a, event.ResourceChanged{})}, []string{"resources  ~" + a}, Writer{}},
		"removed before":    {[]*event.Event{of(a, event.ResourceRemoved{}), list(nil, []string{a}, nil), list([]string{a}, nil, nil), list(nil, []string{a}, nil)}, []string{"removed  " + a, "added  " + a, "removed  " + a}, Writer{}},
		"one of two before": {[]*event.Event{of(a, event.ResourceRemoved{}), list(nil, []string{a, b}, nil), of(b, event.ResourceRemoved{})}, []string{"removed  " + a, "removed  " + b}, Writer{}},
		"without the list":  {[]*event.Event{of(a, event.ResourceAdded{}), of(a, event.ResourceRemoved{})}, []string{"added  " + a, "removed  " + a}, Writer{}},
		"cut": {[]*event.Event{list(many, nil, nil), of(many[4], event.ResourceAdded{}), of(many[6], event.ResourceAdded{})},
			[]string{"resources  +" + strings.Join(many[:5], " +") + " +… 2 more", "added  " + many[6]}, Writer{}},
		"verbose": {[]*event.Event{list([]string{a}, nil, nil), of(a, event.ResourceAdded{})}, []string{"resources  +" + a, "added  " + a}, Writer{Verbose: true}},
	} {
		var got strings.Builder
		w := c.plain
		w.W = &got
		for _, e := range c.events {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		var lines []string
		for line := range strings.Lines(got.String()) {
			lines = append(lines, strings.TrimSpace(strings.SplitN(line, "docs", 2)[1]))
		}
		if strings.Join(lines, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: %q, want %q", name, lines, c.want)
		}
	}
}

// TestListedIsBounded: a server that lists and never reports fills no memory.
func TestListedIsBounded(t *testing.T) {
	w := Writer{W: new(strings.Builder)}
	for i := range 5 * maxListed {
		uri := "file:///" + strings.Repeat("x", i%300) + string(rune('a'+i%26))
		for _, e := range []*event.Event{
			{ServerID: "docs", Payload: event.ListChanged{List: catalog.Resources, Added: []string{uri}}},
			{ServerID: "docs", ResourceURI: uri + "/gone", Payload: event.ResourceRemoved{}},
		} {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(w.listed) > maxListed || len(w.removed) > maxListed {
		t.Errorf("%d and %d are remembered", len(w.listed), len(w.removed))
	}
}
