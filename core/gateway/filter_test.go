package gateway

import (
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func TestAllowAndDeny(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.opts.Allow = []string{"a_*", "b_read", "file:///pub/**", "note:///**"}
		w.opts.Deny = []string{"a_write", "file:///pub/private/*", "delete", "*admin*", "ad_min", "file:///typo/**"}
		for _, id := range []string{"a", "b"} {
			s := w.Serve(id, era)
			s.SetList(catalog.Tools, tool("read"), tool("write"), tool("delete"), tool("db/admin/drop"))
			s.SetQuietly("file:///pub/"+id, "public")
			s.SetQuietly("file:///pub/private/"+id, "private")
			s.SetQuietly("file:///other/"+id, "private")
			s.SetList(catalog.Templates, map[string]any{"name": "p", "uriTemplate": "file:///pub/private/{x}"},
				map[string]any{"name": "p", "uriTemplate": "file:///pub/" + id + "/{+x}"})
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		if allow, deny := w.gateway.Unmatched(); !slices.Equal(allow, []string{"note:///**"}) || !slices.Equal(deny, []string{"ad_min", "file:///typo/**"}) {
			w.Errorf("unmatched: %q and %q", allow, deny)
		}
		c := w.client(era)
		w.wantKeys(c, catalog.Tools, "a_read", "b_read")
		w.wantKeys(c, catalog.Resources, "file:///pub/a", "file:///pub/b")
		w.wantKeys(c, catalog.Templates, "file:///pub/a/{+x}", "file:///pub/b/{+x}")
		for _, name := range []string{"a_write", "a_delete", "b_write"} {
			if _, err := w.do(c, "tools/call", `{"name":"`+name+`"}`); err == nil {
				w.Errorf("%s was called", name)
			}
		}
		w.advance(5 * time.Second) // the tracker's own reads are over
		asked := w.Server("a").Count("resources/read")
		for _, uri := range []string{"file:///pub/private/a", "file:///other/a", "mcptrack://server/a/file:///pub/private/a", "mcptrack://server/a/file:///other/a",
			"file:///pub/a/../private/a", "file:///pub/a/%2e%2E/private/a", "file:///pub/a/..%2fprivate/a",
			"mcptrack://server/a/FILE:///pub/private/a", "mcptrack://server/a/file://localhost/pub/private/a", "mcptrack://server/a/file:///pub/%70rivate/a",
			"mcptrack://server/a/file:///pub/private//a", "mcptrack://server/a/file:///pub/x/../../other/a"} {
			if _, err := c.Read(w.Context(), uri); err == nil {
				w.Errorf("%s was read", uri)
			}
			if n := w.Server("a").Count("resources/read"); n != asked {
				w.Fatalf("%s: the server was asked", uri)
			}
		}
		if ack, err := c.Subscribe(w.Context(), session.Filter{URIs: []string{"file:///other/a", "file:///pub/a"}}); err == nil && len(ack.MissingURIs) != 1 {
			w.Errorf("%+v", ack)
		}
	})
}

// The spelling of a URI changes neither what is denied nor what is allowed.
func TestURIsAreNormalized(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"FILE:///a":                  "file:///a",
		"file://LocalHost/a":         "file:///a",
		"http://EXAMPLE.com:80/A?b":  "http://example.com/A?b",
		"https://u@H:443":            "https://u@h",
		"file:///%7e/%41%2D":         "file:///~/A-",
		"file:///a/./b/../c":         "file:///a/c",
		"file:///../../a":            "file:///a",
		"file:///a/%2e%2e/b":         "file:///b",
		"file:///caf%C3%A9":          "file:///café",
		"note:a/../b":                "note:b",
		"x:/a?q=%2f%26&r=%41":        "x:/a?q=/%26&r=A",
		"file:///a%2fb":              "",
		"file:///a%5cb":              "",
		"file:///a\\b":               "",
		"file:///a%00":               "",
		"file:///a%zz":               "",
		"file:///%ff":                "",
		"relative/path":              "",
		"file:/etc/x":                "file:///etc/x",
		"file:etc/x":                 "file:///etc/x",
		"https:/h/a":                 "",
		"http:h/a":                   "",
		"https:///h/a":               "",
		"http://ex%61mple.com/a":     "",
		"http://exa\tmple.com/a":     "",
		"file:///a%23b%3Fc":          "file:///a%23b%3Fc",
		"urn:isbn:1":                 "urn:isbn:1",
		"mcptrack://server/a/x:///b": "mcptrack://server/a/x:///b",
	} {
		got, ok := normalizeURI(uri, false)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q %t, want %q", uri, got, ok, want)
		}
		if ok {
			if again, ok := normalizeURI(got, true); !ok || again != got && uri != "file:///a%2523" {
				t.Errorf("%s: normalized again: %q %t", got, again, ok)
			}
		}
	}
	for _, c := range []struct {
		deny, uri string
		admitted  bool
	}{
		{"file:///etc/**", "file:///etc/passwd", false},
		{"FILE://localhost/etc/**", "file:///etc/passwd", false},
		{"file:///et%63/**", "file:///etc/passwd", false},
		{"file:///x/../etc/*", "file:///etc/passwd", false},
		{"file:///etc/**", "file:////etc//passwd", false},
		{"file:///etc/**", "file:///%2565tc/passwd", false},
		{"file:///etc/**", "file:///%252e%252e/etc/passwd", false},
		{"file:///etc/**", "file:///home%2F..%2Fetc/passwd", false},
		{"file:///etc/passwd", "file:///etc/passwd#x", false},
		{"file:///etc/passwd", "file:///etc/passwd?x", false},
		{"https://h/a", "https://H:443/%61", false},
		{"https://h/a", "https://u:p@h/a", false},
		{"file:///etc/**", "file:/etc/passwd", false},
		{"file:///etc/**", "file:etc/passwd", false},
		{"file:/etc/**", "file:///etc/passwd", false},
		{"file:///etc/**", "file://127.0.0.1/etc/passwd", false},
		{"file:///etc/passwd", "file:///etc/passwd ", false},
		{"https://h/a", "https://h/b", true},
		{"file:///etc/**", "file:///home/100%25", true},
		{"file:///etc/**", "file:///home/etc/x", true},
		{"mcptrack://server/s/file:///etc/**", "file:///etc/x", false},
		{"*delete*", "file:///home/delete", true}, // "*" stays within a segment
		{"**/delete", "file:///home/delete", false},
		{"nothing", "no uri", false},
	} {
		f, err := newFilter(nil, []string{c.deny}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.admits(catalog.Resources, target{"s", c.uri}, c.uri); got != c.admitted {
			t.Errorf("deny %s: %s is admitted: %t", c.deny, c.uri, got)
		}
	}
	f, err := newFilter([]string{"file:///pub/**"}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]bool{
		"file:///pub/a": true, "FILE:///pub/%61": true, "file:///pub/../etc/a": false, "file:///pub/%2e%2e/etc/a": false,
		"file:///pub/..%2fetc/a": false, "file:///pub/..\\etc": false, "file:///pub/%252e%252e/etc/a": false,
	} {
		if got := f.admits(catalog.Resources, target{"s", uri}, uri); got != want {
			t.Errorf("allow: %s is admitted: %t", uri, got)
		}
	}
}

// Slashes are ordinary characters of names.
func TestGlobsForNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		deny, name string
		admitted   bool
	}{
		{"*delete*", "db/delete_all", false},
		{"db*", "db/x/y", false},
		{"db/*", "db/x/y", false},
		{"{a,b}/*", "b/c/d", false},
		{"?b", "/b", false},
		{"a/b", "a/b", false},
		{"a/b", "a/c", true},
	} {
		f, err := newFilter(nil, []string{c.deny}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.admits(catalog.Tools, target{"s", c.name}, "s_"+c.name); got != c.admitted {
			t.Errorf("deny %s: %s is admitted: %t", c.deny, c.name, got)
		}
	}
}
