package vault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// found returns the paths that a search finds, in order.
func (e *recorder) found(o SearchOptions) (paths []string) {
	e.t.Helper()
	results, total, err := e.Search(e.t.Context(), o)
	must(e.t, err)
	for _, r := range results {
		paths = append(paths, r.Path)
	}
	if o.Limit == 0 && total != len(paths) {
		e.t.Errorf("%+v: %d of %d", o, len(paths), total)
	}
	return paths
}

func TestSearch(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{
		"bread.md":      "# Bread\n\nFlour, water and salt. #food/baking",
		"a/pizza.md":    "---\ntags: [Food]\n---\nA dough like that of bread, with tomatoes",
		"a/b/wetter.md": "Über das Wetter in Köln #outside",
		"c.md":          "salt lake #foodie",
	})
	for i, name := range []string{"bread.md", "a/pizza.md", "a/b/wetter.md", "c.md"} {
		at := time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)
		must(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	e := open(t, quick(dir))
	for _, tt := range []struct {
		o    SearchOptions
		want []string
	}{
		{SearchOptions{Query: "bread"}, []string{"bread.md", "a/pizza.md"}}, // the title counts more
		{SearchOptions{Query: "BREAD tomatoes"}, []string{"a/pizza.md"}},
		{SearchOptions{Query: "tom"}, []string{"a/pizza.md"}}, // the beginning of a word
		{SearchOptions{Query: "to"}, nil},                     // too short for one
		{SearchOptions{Query: "the"}, nil},                    // no stop word, and "that" does not begin with it
		{SearchOptions{Query: "über köln"}, []string{"a/b/wetter.md"}},
		{SearchOptions{Query: "salt"}, []string{"c.md", "bread.md"}},
		{SearchOptions{Query: "salt", Tag: "food"}, []string{"bread.md"}},
		{SearchOptions{Tag: "#FOOD"}, []string{"a/pizza.md", "bread.md"}}, // not foodie; the newest first
		{SearchOptions{Tag: "food/baking"}, []string{"bread.md"}},
		{SearchOptions{Tag: "bak"}, nil},
		{SearchOptions{Query: "bread", Folder: "a"}, []string{"a/pizza.md"}},
		{SearchOptions{Query: "bread", Limit: 1}, []string{"bread.md"}},
		{SearchOptions{Query: "nothing"}, nil},
	} {
		if diff := cmp.Diff(tt.want, e.found(tt.o)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.o, diff)
		}
	}
	results, _, err := e.Search(t.Context(), SearchOptions{Query: "tomatoes"})
	must(t, err)
	if r := results[0]; r.Snippet != "A dough like that of bread, with tomatoes" || r.URI != "vault://note/a/pizza.md" || r.Score <= 0 {
		t.Errorf("%+v", r)
	}
	for _, o := range []SearchOptions{
		{}, {Query: "…"}, {Query: strings.Repeat("x", maxQuery+1)}, {Query: "a b c d e f g h i j k l m n o p q r"}, {Tag: "x", Limit: -1}, {Tag: "x", Limit: 101}, {Tag: "x", Folder: "../y"},
	} {
		if _, _, err := e.Search(t.Context(), o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.40v: %v", o, err)
		}
	}
}

// TestSearchAfterChanges: searches reflect the current notes.
func TestSearchAfterChanges(t *testing.T) {
	t.Parallel()
	const many = 200
	dir := t.TempDir()
	for i := range 30 {
		put(t, filepath.Join(dir, fmt.Sprintf("n%d.md", i)), "common first")
	}
	e := open(t, quick(dir))
	want := func(query string, n int) {
		t.Helper()
		e.until(fmt.Sprintf("%d notes with %q", n, query), func() bool {
			_, total, err := e.Search(t.Context(), SearchOptions{Query: query})
			must(t, err)
			return total == n
		})
	}
	want("first", 30)
	put(t, filepath.Join(dir, "n1.md"), "common second")
	put(t, filepath.Join(dir, "new.md"), "common second")
	must(t, os.Remove(filepath.Join(dir, "n2.md")))
	must(t, os.Rename(filepath.Join(dir, "n3.md"), filepath.Join(dir, "m3.md")))
	want("second", 2)
	want("first", 28)
	want("common", 30)
	put(t, filepath.Join(dir, "n1.md"), "common first") // as it was when all was indexed
	want("second", 1)
	want("first", 29)
	for i := range many + 50 {
		put(t, filepath.Join(dir, fmt.Sprintf("more/n%d.md", i)), "third")
	}
	want("third", many+50)
	if len(e.text.indexed) != many+80 {
		t.Errorf("%d notes are known", len(e.text.indexed))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i := range 20 {
				if _, total, err := e.Search(ctx, SearchOptions{Query: "third"}); err != nil || total < many {
					t.Errorf("%d, %v", total, err)
				}
				put(t, filepath.Join(dir, "busy.md"), fmt.Sprint("fourth ", i))
			}
		})
	}
	wg.Wait()
	want("fourth", 1)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	put(t, filepath.Join(dir, "busy.md"), "fifth")
	e.wantIndex()
	if _, _, err := e.Search(canceled, SearchOptions{Query: "fifth"}); err == nil {
		t.Log("the search was faster than its cancellation")
	}
	want("fifth", 1)
}

func TestReadNote(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{
		"a/one.md":   "---\ntitle: First\ntags: [x]\nn: 1\n---\n[[two]] [[nowhere]] [three](../b/three.md)",
		"a/two.md":   "[[a/one|back]] [[One]]",
		"b/two.md":   "[[two]]",
		"b/three.md": "![[one#part]]",
		"b/one.md":   "x",
	})
	e := open(t, quick(dir))
	n, err := e.ReadNote(t.Context(), "a/one")
	must(t, err)
	n.Modified = ""
	want := &Note{
		Path: "a/one.md", URI: "vault://note/a/one.md", Title: "First", Size: 82, Tags: []string{"x"},
		Frontmatter: []byte(`{"n":1,"tags":["x"],"title":"First"}`), Links: []string{"a/two.md", "b/three.md"}, Broken: []string{"nowhere"},
		Backlinks: []string{"a/two.md"}, Content: n.Content,
	}
	want.Size = int64(len(n.Content))
	if diff := cmp.Diff(want, n); diff != "" {
		t.Error(diff)
	}
	if n, err := e.ReadNote(t.Context(), "b/one.md"); err != nil || !slices.Equal(n.Backlinks, []string{"b/three.md"}) {
		t.Errorf("a link prefers the note in the same folder: %+v, %v", n, err)
	}
	for path, want := range map[string]error{"nope": ErrNotFound, "": ErrInvalid, "../x": ErrInvalid, "a": ErrNotFound} {
		if _, err := e.ReadNote(t.Context(), path); !errors.Is(err, want) {
			t.Errorf("%q: %v", path, err)
		}
	}
	paths, total := e.Complete("t", false)
	if want := []string{"a/two.md", "b/three.md", "b/two.md"}; !slices.Equal(paths, want) || total != 3 {
		t.Errorf("completed to %q", paths)
	}
	if paths, _ := e.Complete("", true); !slices.Equal(paths, []string{"a", "b"}) {
		t.Errorf("completed to %q", paths)
	}
}

// TestRecentFull: mode=full contains texts within contentBudget, and previews beyond.
func TestRecentFull(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", contentBudget-10)
	dir := vaultOf(t, map[string]string{"small.md": "# Small\ntext", "big.md": big})
	old := time.Date(2020, 1, 2, 3, 4, 5, 678e6, time.UTC)
	must(t, os.Chtimes(filepath.Join(dir, "small.md"), old, old))
	e := open(t, quick(dir))
	got := decode[struct {
		Notes []struct {
			Path, Title, ModifiedAt string
			Preview, Content        *string
			Meta                    struct {
				Size                        int
				SizeFormatted, LastModified string
			} `json:"_meta"`
		}
		Mode       string
		Pagination struct {
			Limit, Offset, Total int
			HasMore              bool
		}
	}](e, "vault://recent?mode=full")
	if got.Mode != "full" || len(got.Notes) != 2 || got.Pagination.Total != 2 || got.Pagination.HasMore || got.Pagination.Limit != 20 {
		t.Fatalf("%+v", got)
	}
	first, second := got.Notes[0], got.Notes[1]
	if first.Path != "big.md" || first.Content == nil || len(*first.Content) != len(big) || first.Preview != nil || first.Meta.SizeFormatted != "2.0 MB" {
		t.Errorf("big.md is not there with its text: %.200v", first)
	}
	if second.Content != nil || second.Preview == nil || *second.Preview != "# Small text" || second.Title != "Small" ||
		second.ModifiedAt != "2020-01-02T03:04:05.678Z" || second.Meta.Size != 12 || second.Meta.SizeFormatted != "12 B" {
		t.Errorf("small.md: %+v", second)
	}
}

// A note that has changed since the last scan is found by what it is now.
func TestSearchBeforeTheScan(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{"n.md": "---\ntags: [old]\n---\n"})
	v, err := Open(Options{Dir: dir})
	must(t, err)
	defer v.Close()
	scans, _, err := v.scan.scan(t.Context(), []string{""}, newSnapshot())
	must(t, err)
	scanned, _ := newSnapshot().with(scans)
	v.now.Store(scanned)
	put(t, filepath.Join(dir, "n.md"), "---\ntags: [new]\n---\n")
	for query, want := range map[string]int{"new": 1, "old": 0} {
		if _, total, err := v.Search(t.Context(), SearchOptions{Query: query}); err != nil || total != want {
			t.Errorf("%q: %d found, %v", query, total, err)
		}
	}
}
