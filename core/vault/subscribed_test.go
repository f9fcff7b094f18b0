package vault

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestPublishedURIsEqualDifferences: after any change, exactly the URIs whose rendered
// content differs are updated, including pages of recent and alternative spellings.
func TestPublishedURIsEqualDifferences(t *testing.T) {
	t.Parallel()
	paths := []string{"a", "a/1.md", "a/2.md", "a/b", "a/b/3.md", "a/b/x.png", "c.md", "d.md", "é.md"}
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string, most int) int { return rapid.IntRange(0, most).Draw(r, name) }
		entryAt := func(p string) *entry {
			if !strings.Contains(p, ".") {
				return folder(p)
			}
			// Times that differ by less than is shown, and ones that order anew.
			at := time.Unix(int64(draw("second", 2)), int64(draw("nanosecond", 1)))
			e := &entry{path: p, size: int64(draw("size", 1)), modified: at}
			if isNote(p) {
				e.note = &note{
					path: p, title: fmt.Sprint(draw("title", 1)), preview: fmt.Sprint(draw("preview", 1)),
					tags: []string{fmt.Sprint("t", draw("tag", 1))}, size: e.size, modified: at,
				}
				// As of a text: whatever it says differs only if it does.
				e.note.digest = [32]byte{byte(e.size), e.note.title[0], e.note.preview[0], e.note.tags[0][1], byte(draw("rest", 1))}
			}
			return e
		}
		some := func() (l scanned) {
			at := rapid.SampledFrom(append([]string{""}, paths...)).Draw(r, "at")
			l.path = at
			for _, p := range paths {
				if within(p, at) && rapid.IntRange(0, 3).Draw(r, "there") > 0 {
					l.entries = append(l.entries, entryAt(p))
				}
			}
			return l
		}
		old, _ := newSnapshot().with([]scanned{some(), {path: "d.md", entries: []*entry{entryAt("d.md")}}})
		next, changes := old.with([]scanned{some()})

		asked := map[string]target{}
		for _, t := range []target{{kind: kindRecent, limit: defaultLimit}, {kind: kindStats}, {kind: kindTags}, {kind: kindTags, full: true}, {kind: kindStructure}, {kind: kindFolder}} {
			asked[t.uri()] = t
		}
		for _, p := range paths {
			asked[noteURI(p)], asked[folderURI(p)] = target{kind: kindNote, path: p}, target{kind: kindFolder, path: p}
		}
		extra := func(uri string) {
			t, err := parseURI(uri)
			if err != nil {
				r.Fatalf("%s: %v", uri, err)
			}
			asked[uri] = t
		}
		for _, mode := range []string{"preview", "full"} {
			for limit := range 4 {
				for offset := range 9 {
					extra(fmt.Sprintf("vault://recent?mode=%s&limit=%d&offset=%d", mode, limit+1, offset))
				}
			}
		}
		for _, uri := range []string{
			"vault://recent?offset=9223372036854775807", "vault://recent?limit=20", "vault://tags?mode=summary",
			"vault://note/%61/1.md", "vault://note/é.md", "vault://folder/%61", "vault://folder/a/", "vault://folder/a/b/",
		} {
			extra(uri)
		}
		var want []string
		for uri, t := range asked {
			if old.fingerprint(t) != next.fingerprint(t) {
				want = append(want, uri)
			}
		}
		u := &updater{Listener: Listener{Subscribed: func() []string { return slices.Collect(maps.Keys(asked)) }}}
		got := u.affected(old, next, changes)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			r.Fatalf("updated URIs (-want +got):\n%s", diff)
		}
	})
}

// TestManyPages: many subscribed pages do not slow updates down. Comparing a page does
// not render it, which would take a thousand allocations.
func TestManyPages(t *testing.T) { // not parallel: allocations of other tests would count
	const notes, pages = 3000, 1000
	var all scanned
	for i := range notes {
		n := &note{path: fmt.Sprintf("n%05d.md", i), title: "A note", modified: time.Unix(int64(i), 0)}
		all.entries = append(all.entries, &entry{path: n.path, note: n, modified: n.modified})
	}
	old, _ := newSnapshot().with([]scanned{all})
	n := *all.entries[notes/2].note
	n.digest[0], n.title = 1, "Another title"
	next, changes := old.with([]scanned{{path: n.path, entries: []*entry{{path: n.path, note: &n, modified: n.modified}}}})
	var subscribed []string
	for i := range pages {
		subscribed = append(subscribed, target{kind: kindRecent, limit: 100, offset: i + 1000}.uri())
	}
	u := &updater{Listener: Listener{Subscribed: func() []string { return subscribed }}}
	var uris []string
	allocs := testing.AllocsPerRun(3, func() { uris = u.affected(old, next, changes) })
	if allocs > 20*pages {
		t.Errorf("%.0f allocations for %d pages", allocs, pages)
	}
	if len(uris) != 100 { // those with its place
		t.Errorf("%d pages are updated, want 100", len(uris))
	}
}
