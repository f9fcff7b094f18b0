package journal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func listOf(n int, version uint64) catalog.List {
	var items []catalog.Item
	for i := range n {
		items = append(items, catalog.Item{Key: fmt.Sprintf("file:///%s/%05d", strings.Repeat("x", 200), i), Digest: digest(uint64(i) + version)})
	}
	return catalog.NewList(items)
}

// TestListsSurviveARestart: long ones are stored in parts, and a shorter version leaves
// nothing of a longer one.
func TestListsSurviveARestart(t *testing.T) {
	t.Parallel()
	for what, opts := range map[string]Options{"directory": {Dir: t.TempDir()}, "server": {URL: journaltest.Store(t), Replicas: 1}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			long, tools, other := ListName{"docs", catalog.Resources}, ListName{"docs", catalog.Tools}, ListName{"other", catalog.Prompts}
			want := map[ListName]catalog.List{long: listOf(10_000, 1), tools: nil, other: listOf(2, 1)}
			j := open(t, opts)
			check := func() {
				t.Helper()
				if err := j.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				states, err := j.States(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, states.Lists); diff != "" {
					t.Errorf("(-want +got):\n%.2000s", diff)
				}
				if len(states.Resources) != 0 {
					t.Errorf("resources: %v", states.Resources)
				}
				one, err := j.States(t.Context(), "other")
				if err != nil || len(one.Lists) != 1 || len(one.Lists[other]) != len(want[other]) {
					t.Errorf("of one server: %v, %v", one, err)
				}
			}
			for name, list := range want {
				if err := j.RememberList(name, list); err != nil {
					t.Fatal(err)
				}
			}
			check()
			closeJournal(t, j)
			j = open(t, opts)
			check()
			want[long] = listOf(10, 2)
			if err := j.RememberList(long, want[long]); err != nil {
				t.Fatal(err)
			}
			check()
		})
	}
}
