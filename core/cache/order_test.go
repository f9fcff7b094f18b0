package cache

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// The last parameters win, whatever the order of the answers.
func TestLaterRequestWins(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	sh, v := s.Open("docs"), s.View("docs")
	first, second := sh.Fetch(catalog.Prompts, "p", ""), sh.Fetch(catalog.Prompts, "p", "")
	if got := second.Prompt(NewPrompt("p", map[string]string{"n": "2"}, nil, time.Time{})); got != Stored {
		t.Fatalf("outcome %d", got)
	}
	if got := first.Prompt(NewPrompt("p", map[string]string{"n": "1"}, nil, time.Time{})); got != Superseded {
		t.Errorf("outcome %d for the answer to the earlier request", got)
	}
	if p, _ := v.Prompt("p"); p.Arguments["n"] != "2" {
		t.Errorf("kept %v", p.Arguments)
	}
}

// An update during a fetch makes its result outdated, and the entry stale.
func TestUpdateDuringFetch(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	sh, v := s.Open("docs"), s.View("docs")
	keep(t, sh, "file:///a", "old")
	f := sh.Fetch(catalog.Resources, "file:///a", "file:///a")
	byTemplate := sh.Fetch(catalog.Templates, "file:///{x}", "file:///a")
	other := sh.Fetch(catalog.Resources, "file:///b", "file:///b")
	sh.Updated("file:///a")
	if r, _ := v.Resource("file:///a"); !r.Stale {
		t.Error("what is cached is not stale")
	}
	if got := f.Resource(resource("file:///a", "older")); got != Outdated {
		t.Errorf("outcome %d", got)
	}
	if got := byTemplate.Resource(resource("file:///a", "older")); got != Outdated {
		t.Errorf("outcome %d by template", got)
	}
	if got := other.Resource(resource("file:///b", "b")); got != Stored {
		t.Errorf("outcome %d for another URI", got)
	}
	keep(t, sh, "file:///a", "new")
	if r, ok := v.Resource("file:///a"); r.Stale || text(t, r, ok) != "new" {
		t.Errorf("cached %+v", r)
	}
	if n := len(sh.byURI) + len(sh.flights); n != 0 {
		t.Errorf("%d traces of fetches are left", n)
	}
}

// A content that was read for another reason updates the entries of the URI, also under templates,
// and nothing else.
func TestRefresh(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	sh, v := s.Open("docs"), s.View("docs")
	if sh.Holds("file:///a") {
		t.Error("an empty session holds something")
	}
	none := sh.Fetch(catalog.Resources, "file:///a", "file:///a").Refresh(resource("file:///a", "new"))
	if _, ok := v.Resource("file:///a"); ok || none != nil {
		t.Errorf("a refresh stored %v", none)
	}
	keep(t, sh, "file:///a", "old")
	made := resource("file:///a", "old")
	made.Template, made.Params = "file:///{x}", map[string]string{"x": "a"}
	sh.Fetch(catalog.Templates, made.Template, made.URI).Resource(made)
	v.ClearResource("file:///a")
	if !sh.Holds("file:///a") {
		t.Error("what is cached under a template does not count")
	}
	keep(t, sh, "file:///a", "old")

	late := sh.Fetch(catalog.Resources, "file:///a", "file:///a")
	got := sh.Fetch(catalog.Resources, "file:///a", "file:///a").Refresh(resource("file:///a", "new"))
	if len(got) != 2 || text(t, got[0].Was, true) != "old" || text(t, got[1].Now, true) != "new" {
		t.Errorf("refreshed %+v", got)
	}
	if r, ok := v.Template("file:///{x}"); text(t, r, ok) != "new" || r.Params["x"] != "a" {
		t.Errorf("under the template %+v", r)
	}
	if got := late.Refresh(resource("file:///a", "older")); got != nil {
		t.Errorf("an earlier read refreshed %+v", got)
	}
	sh.Gone("file:///a")
	if sh.Holds("file:///a") || s.recent.Len() != 0 {
		t.Error("what is gone is kept")
	}
}

// With concurrent readers, writers, updates and evictions, the sums stay right, and no entry in the
// end is older than the last update.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := NewStore(16 << 10)
	sh, v := s.Open("docs"), s.View("docs")
	const uris = 8
	var version [uris]struct {
		sync.Mutex
		n int
	}
	uri := func(i int) string { return fmt.Sprintf("file:///%d", i) }
	fetch := func(i int) {
		for {
			f := sh.Fetch(catalog.Resources, uri(i), uri(i))
			version[i].Lock()
			n := version[i].n
			version[i].Unlock()
			if f.Resource(resource(uri(i), fmt.Sprint(n))) != Outdated {
				return
			}
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 500 {
				i := (n*7 + g) % uris
				switch n % 4 {
				case 0:
					version[i].Lock()
					version[i].n++
					version[i].Unlock()
					sh.Updated(uri(i))
				case 1:
					v.Resource(uri(i))
					if n%100 == 1 {
						v.ClearAll()
					}
				default:
					fetch(i)
				}
			}
		})
	}
	wg.Wait()
	for i := range uris {
		r, ok := v.Resource(uri(i))
		if ok && !r.Stale && text(t, r, ok) != fmt.Sprint(version[i].n) {
			t.Errorf("%s: cached version %s as current; it is %d", uri(i), text(t, r, ok), version[i].n)
		}
	}
	v.ClearAll()
	if s.used != 0 || s.recent.Len() != 0 || len(sh.byURI) != 0 || len(sh.flights) != 0 {
		t.Errorf("after clearing: %d entries, %d bytes, %d URIs, %d flights", s.recent.Len(), s.used, len(sh.byURI), len(sh.flights))
	}
}
