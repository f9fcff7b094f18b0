package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// notesOf returns a snapshot of notes with the given links.
func notesOf(links map[string][]string) *snapshot {
	var all scanned
	for p, to := range links {
		all.entries = append(all.entries, &entry{path: p, note: &note{path: p, links: to}})
	}
	s, _ := newSnapshot().with([]scanned{all})
	return s
}

// plainResolve is a naive implementation of resolve.
func (s *snapshot) plainResolve(link, from string) (best string) {
	if exact, ok := strings.CutPrefix(link, "/"); ok && s.note(exact) != nil {
		return exact
	}
	want := linkName(strings.TrimPrefix(link, "/"))
	if strings.HasPrefix(want, "./") || strings.HasPrefix(want, "../") {
		want = path.Join(path.Dir(linkName(from)), want)
	}
	rank := func(p string) int {
		switch {
		case linkName(p) == want:
			return 0
		case path.Dir(p) == path.Dir(from):
			return 1
		}
		return 2
	}
	for _, n := range s.recent {
		if have := linkName(n.path); have != want && !strings.HasSuffix(have, "/"+want) {
			continue
		}
		if best == "" || cmp.Or(rank(n.path)-rank(best), len(n.path)-len(best), strings.Compare(n.path, best)) < 0 {
			best = n.path
		}
	}
	return best
}

// TestResolve: resolve agrees with plainResolve, and backlinks are its inverse.
func TestResolve(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		folder := rapid.SampledFrom([]string{"", "a/", "A/", "b/", "a/b/", "b/a/", "a/b/a/", "ba/", "İ/", "x.md/"})
		name := rapid.SampledFrom([]string{"n", "N", "a", "b", "ba", "ß", "İ", "n.md"})
		ext := rapid.SampledFrom([]string{".md", ".MD"})
		before := rapid.SampledFrom([]string{"", "", "/", "./", "../", "../../", "/./"})
		after := rapid.SampledFrom([]string{"", "", ".md", "/", "/."})
		notes := make(map[string][]string)
		for range rapid.IntRange(1, 12).Draw(r, "notes") {
			var links []string
			for range rapid.IntRange(0, 4).Draw(r, "links") {
				links = append(links, before.Draw(r, "before")+folder.Draw(r, "to")+name.Draw(r, "link")+after.Draw(r, "after"))
			}
			notes[folder.Draw(r, "in")+name.Draw(r, "name")+ext.Draw(r, "ext")] = links
		}
		s := notesOf(notes)
		leads := make(map[string][]string)
		for from, links := range notes {
			l := s.linker()
			for _, link := range links {
				got, want := l.resolve(link, from), s.plainResolve(link, from)
				if got != want {
					r.Fatalf("%q in %q leads to %q, want %q", link, from, got, want)
				}
				if want != from && !slices.Contains(leads[want], from) {
					leads[want] = append(leads[want], from)
				}
			}
		}
		for p := range notes {
			got, err := s.backlinks(t.Context(), p)
			slices.Sort(leads[p])
			if err != nil || !slices.Equal(got, leads[p]) {
				r.Fatalf("backlinks of %q are %q, want %q (%v)", p, got, leads[p], err)
			}
		}
	})
}

// TestManyNotesWithOneName: resolving is not quadratic in notes of the same name.
func TestManyNotesWithOneName(t *testing.T) { // not parallel: it has a time limit
	if testing.Short() {
		t.Skip("large, nightly")
	}
	const notes, links = 8_000, 20
	for name, link := range map[string]func(i, j int) string{
		"broken":     func(i, j int) string { return fmt.Sprintf("/gone%d/%d/index.md", i, j) },
		"in a level": func(i, j int) string { return fmt.Sprintf("d%d/index", j) },
		"spellings":  func(i, j int) string { return strings.ToUpper("index.md"[:j%8]) + "index.md"[j%8:] },
	} {
		all := make(map[string][]string, notes)
		for i := range notes {
			p := fmt.Sprintf("e/d%d/index.md", i)
			for j := range links {
				all[p] = append(all[p], link(i, j))
			}
		}
		s := notesOf(all)
		began := time.Now()
		if _, err := s.backlinks(t.Context(), "e/d0/index.md"); err != nil {
			t.Error(err)
		}
		to := &note{path: "x.md"}
		for i := range maxLinks {
			to.links = append(to.links, link(i, i))
		}
		s.linkTargets(to)
		if took := time.Since(began); took > 40*time.Second { // minutes when each link walks all notes; a generous limit
			t.Errorf("%s: %v", name, took)
		}
	}
}

// TestReadNoteIsCancelled: ReadNote ends with its context.
func TestReadNoteIsCancelled(t *testing.T) {
	t.Parallel()
	e := open(t, quick(vaultOf(t, map[string]string{"n.md": "x"})))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTestOver)
	if n, err := e.ReadNote(ctx, "n.md"); !errors.Is(err, errTestOver) {
		t.Errorf("%+v, %v", n, err)
	}
}
