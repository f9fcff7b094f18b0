package cache

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
)

func result(text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"contents": []any{map[string]any{"uri": "file:///a", "text": text}}})
	return raw
}

func resource(uri, text string) Resource { return NewResource(uri, result(text), time.Unix(1, 0)) }

// keep stores the text as the content of the URI.
func keep(t *testing.T, sh *Session, uri, text string) {
	t.Helper()
	if got := sh.Fetch(catalog.Resources, uri, uri).Resource(resource(uri, text)); got != Stored {
		t.Fatalf("storing %s: outcome %d", uri, got)
	}
}

func text(t *testing.T, r Resource, ok bool) string {
	t.Helper()
	if !ok {
		return ""
	}
	s, isText := r.Text()
	if !isText {
		t.Fatalf("%s is no text", r.URI)
	}
	return s
}

func TestGettersAndClears(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	v := s.View("docs")
	if _, ok := v.Resource("file:///a"); ok {
		t.Error("found something in a store without a session")
	}
	v.ClearAll()
	sh := s.Open("docs")
	keep(t, sh, "file:///a", "one")
	made := resource("file:///2026/plan", "plan")
	made.Template, made.Params = "file:///{y}/{n}", map[string]string{"y": "2026", "n": "plan"}
	sh.Fetch(catalog.Templates, made.Template, made.URI).Resource(made)
	sh.Fetch(catalog.Prompts, "greet", "").Prompt(NewPrompt("greet", map[string]string{"who": "you"}, []byte(`{"messages":[]}`), time.Unix(2, 0)))
	sh.Fetch(catalog.Tools, "add", "").ToolResult(NewToolResult("add", map[string]any{"a": 1}, nil, "no answer", time.Unix(3, 0)))

	if r, ok := v.Template(made.Template); !ok || r.URI != made.URI || !cmp.Equal(r.Params, made.Params) {
		t.Errorf("template %+v, %t", r, ok)
	}
	if _, ok := v.Resource(made.URI); ok {
		t.Error("a read by template is also cached as a read by URI")
	}
	if p, ok := v.Prompt("greet"); !ok || p.Arguments["who"] != "you" || string(p.Raw()) != `{"messages":[]}` {
		t.Errorf("prompt %+v, %t", p, ok)
	}
	if r, ok := v.ToolResult("add"); !ok || r.Success || r.Error != "no answer" || r.Raw() != nil || string(r.Arguments()) != `{"a":1}` {
		t.Errorf("result %+v, %t", r, ok)
	}
	if got := v.Keys(catalog.Resources); !cmp.Equal(got, []string{"file:///a"}) {
		t.Errorf("keys %q", got)
	}
	for name, clear := range map[string]func(string) bool{
		"file:///a": v.ClearResource, made.Template: v.ClearTemplate, "greet": v.ClearPrompt, "add": v.ClearToolResult,
	} {
		if !clear(name) || clear(name) {
			t.Errorf("clearing %s twice did not find it once", name)
		}
	}
	if s.recent.Len() != 0 || s.used != 0 {
		t.Errorf("after clearing: %d entries, %d bytes", s.recent.Len(), s.used)
	}
}

// The result of a getter belongs to the caller: others do not see its modifications.
func TestReadersCannotWrite(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	sh, v := s.Open("docs"), s.View("docs")
	params := map[string]string{"n": "plan"}
	made := resource("file:///plan", "plan")
	made.Template, made.Params = "file:///{n}", params
	sh.Fetch(catalog.Templates, made.Template, made.URI).Resource(made)
	params["n"] = "theirs" // the map that was passed in is not shared either

	r, _ := v.Template("file:///{n}")
	copy(r.Raw(), "overrule")
	r.Params["n"] = "mine"
	r.MimeType = "x/y"
	again, _ := v.Template("file:///{n}")
	if again.Params["n"] != "plan" || again.MimeType != "" || text(t, again, true) != "plan" {
		t.Errorf("changed through a copy: %+v", again)
	}
}

// The end of a session clears its cache, and late results are rejected.
func TestClose(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	sh := s.Open("docs")
	other := s.Open("other")
	keep(t, sh, "file:///a", "one")
	keep(t, other, "file:///a", "theirs")
	late := sh.Fetch(catalog.Resources, "file:///a", "file:///a")
	sh.Close()
	if got := late.Resource(resource("file:///a", "late")); got != Superseded {
		t.Errorf("outcome %d after the end", got)
	}
	if _, ok := s.View("docs").Resource("file:///a"); ok {
		t.Error("kept beyond the session")
	}
	if _, ok := s.View("other").Resource("file:///a"); !ok {
		t.Error("another server's cache was also cleared")
	}
	next := s.Open("docs")
	sh.Close() // the old one, again
	keep(t, next, "file:///a", "two")
	if r, ok := s.View("docs").Resource("file:///a"); text(t, r, ok) != "two" {
		t.Error("closing an old session closed the new one")
	}
}

func TestRemoved(t *testing.T) {
	t.Parallel()
	s := NewStore(0)
	sh, v := s.Open("docs"), s.View("docs")
	keep(t, sh, "file:///a", "a")
	keep(t, sh, "file:///b", "b")
	f := sh.Fetch(catalog.Resources, "file:///a", "file:///a")
	prompt := sh.Fetch(catalog.Prompts, "file:///a", "")
	sh.Remove(catalog.Resources, []string{"file:///a"})
	if got := f.Resource(resource("file:///a", "a")); got != Superseded {
		t.Errorf("outcome %d for what is not offered any more", got)
	}
	if got := prompt.Prompt(Prompt{Name: "file:///a"}); got != Stored {
		t.Errorf("outcome %d for another kind", got)
	}
	if got := v.Keys(catalog.Resources); !cmp.Equal(got, []string{"file:///b"}) {
		t.Errorf("cached %q", got)
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	s := NewStore(10 << 10)
	a, b := s.Open("a"), s.Open("b")
	big := strings.Repeat("x", 1<<10)
	keep(t, a, "file:///first", big)
	for i := range 50 {
		keep(t, b, fmt.Sprintf("file:///%d", i), big)
		s.View("a").Resource("file:///first") // used now, so it stays
		if s.used > s.max {
			t.Fatalf("%d bytes of %d", s.used, s.max)
		}
	}
	if _, ok := s.View("a").Resource("file:///first"); !ok {
		t.Error("the most recently used entry was evicted")
	}
	if _, ok := s.View("b").Resource("file:///0"); ok {
		t.Error("the least recently used entry is still cached")
	}
	if n := s.recent.Len(); n < 5 || n > 11 { // at least 40 of 51 were evicted
		t.Errorf("%d entries are left", n)
	}
	if got := b.Fetch(catalog.Resources, "file:///49", "file:///49").Resource(resource("file:///49", strings.Repeat("x", 3<<10))); got != TooLarge {
		t.Errorf("outcome %d for a result that is too large", got)
	}
	if _, ok := s.View("b").Resource("file:///49"); ok {
		t.Error("the previous content is still cached")
	}
}

func TestFreshness(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	for raw, want := range map[string]struct {
		ttl     time.Duration
		private bool
	}{
		`{"contents":[],"ttlMs":60000,"cacheScope":"public"}`: {time.Minute, false},
		`{"contents":[],"ttlMs":1500,"cacheScope":"private"}`: {1500 * time.Millisecond, true},
		`{"contents":[]}`: {0, true},
		`{"contents":[],"ttlMs":-5,"cacheScope":"everybody"}`:   {0, true},
		`{"contents":[],"ttlMs":"60000","cacheScope":7}`:        {0, true},
		`{"contents":[],"ttlMs":1e300,"cacheScope":"public"}`:   {24 * time.Hour, false},
		`{"contents":[],"ttlMs":null,"cacheScope":"PUBLIC"}`:    {0, true},
		`{"contents":[],"ttlMs":60000.5,"cacheScope":"public"}`: {time.Minute, false},
	} {
		r := NewResource("file:///a", json.RawMessage(raw), at)
		if r.Expires.Sub(at) != want.ttl || r.Private != want.private {
			t.Errorf("%s: fresh for %s, private %t", raw, r.Expires.Sub(at), r.Private)
		}
	}
}
