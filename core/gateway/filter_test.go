package gateway

import (
	"encoding/json"
	"errors"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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
		w.advance(5 * time.Second) // the tracker's own reads have ended
		asked := w.Server("a").Count("resources/read")
		for _, uri := range []string{"file:///pub/private/a", "file:///other/a", "mcptrack://server/a/file:///pub/private/a", "mcptrack://server/a/file:///other/a"} {
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

// The spelling of a URI affects neither Deny nor Allow.
func TestURIsAreInNormalForm(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"FILE:///a":                 "file:///a",
		"file://LocalHost/a":        "file:///a",
		"http://EXAMPLE.com:80/A?b": "http://example.com/A?b",
		"https://u@H:443":           "https://u@h",
		"file:///%7e/%41%2D":        "file:///~/A-",
		"file:///caf%C3%A9":         "file:///café",
		"file:///a b/c":             "file:///a b/c",
		"x:/a?q=%2f%26&r=%41":       "x:/a?q=/%26&r=A",
		"file:///a%23b%3Fc":         "file:///a%23b%3Fc",
		"urn:isbn:1":                "urn:isbn:1",
		"postgres://u@h:1/db/t":     "postgres://u@h:1/db/t",
	} {
		if is, ok := readURI(uri); !ok || is.uri != want {
			t.Errorf("%s: %q %t, want %q", uri, is.uri, ok, want)
		}
	}
	for _, uri := range []string{"file:///a/./b", "file:///../a", "file:///a/%2e%2e/b", "note:a/../b", "doc://../a", "file:///a//b", "file:///a%2fb", "file:///a%5cb", "file:///a\\b", "file:///a%00",
		"file:///a%zz", "file:///%ff", "file:///%2561", "file:///a#b", "file:///a?b", "file:///a ", "file://h/a", "relative/path", "https:/h/a", "http:h/a", "https:///h/a", "https://h:/a", "http://ex%61mple.com/a",
		"http://exa\tmple.com/a", "mcptrack://server/a/x:///b"} {
		if is, ok := readURI(uri); ok {
			t.Errorf("%s: %q", uri, is.uri)
		}
	}
	for _, c := range []struct {
		deny, uri string
		admitted  bool
	}{
		{"file:///etc/**", "file:///etc/passwd", false},
		{"FILE://localhost/etc/**", "file:///etc/passwd", false},
		{"file:///et%63/**", "file:///etc/passwd", false},
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

// spellings are URIs that a server which strips the scheme takes for secret/a.
func spellings() []string {
	return []string{
		"doc://secret/a", "doc:///secret/a", "doc:secret/a", "doc://pub/../secret/a", "doc:////secret/a", "doc:/secret/a", "doc://./secret/a",
		"DOC:///secret/a", "doc://SECRET/a", "doc:///SECRET/a", "doc:///%73ecret/a", "doc:s%65cret/a", "doc://pub/%2e%2e/secret/a", "doc://pub/%2E./secret/a",
		"doc://pub/%252e%252e/secret/a", "doc://pub/x/../../secret/a", "doc://pub//..//..//secret//a", "doc:./secret/a", "doc:/../secret/a", "doc://../secret/a",
		"doc:///secret/./a", "doc:///secret/x/../a", "doc://x/%252e%252e/../secret/a", "doc://me@secret/a", "doc://secret:1/a", "doc:///secret/a#x", "doc:///secret/a?x", "doc:///secret/a ", "doc:///secret/a%20",
	}
}

func TestSpellingsDoNotEvadeDeny(t *testing.T) {
	t.Parallel()
	for _, deny := range []string{
		"doc://secret/**", "doc:///secret/**", "doc:secret/**", "doc:/secret/**", "doc:////secret/**", "DOC://Secret/**", "doc:///%73ecret/*",
		"doc://secret/a", "doc:///secret/a", "doc:secret/a", "doc://{secret,other}/**", "doc:///{x/y,secret}/*", "*://secret/*", "*:{,/,//,///}secret/*", "**/secret/*",
		"mcptrack://server/s/doc://secret/**", "mcptrack://server/s/doc:///secret/*", "mcptrack://server/*/doc:secret/*",
	} {
		f, err := newFilter(nil, []string{deny}, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, uri := range spellings() {
			if f.admits(catalog.Resources, target{"s", uri}, uri) {
				t.Errorf("deny %s: %s is admitted", deny, uri)
			}
		}
		for _, uri := range []string{"doc://pub/a", "doc:///pub/secret.txt", "doc:secrets/a", "doc://secret-not/a"} {
			if !f.admits(catalog.Resources, target{"s", uri}, uri) {
				t.Errorf("deny %s: %s is not admitted", deny, uri)
			}
		}
	}
	f, err := newFilter(nil, []string{"ui://x/secret/**", "https://h/secret/*", "mcptrack://server/s/ui://y/secret/**"}, false)
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]bool{
		"ui:///x/secret/a": false, "ui:x/secret/a": false, "ui:///y/secret/a": false, "ui://x/a": true,
		"https://h/secret/a": false, "https://h/x//../secret/a": false, "https://h//secret/a": false, "https://g/h/secret/a": true,
	} {
		if got := f.admits(catalog.Resources, target{"s", uri}, uri); got != want {
			t.Errorf("%s is admitted: %t", uri, got)
		}
	}
}

// A URI that is not in normal form is not admitted, whatever Allow says.
func TestSpellingsDoNotEvadeAllow(t *testing.T) {
	t.Parallel()
	for _, allow := range []string{"doc://pub/**", "doc:pub/**", "doc:///pub/*", "*:{,/,//,///}pub/**"} {
		f, err := newFilter([]string{allow}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, uri := range append(spellings(), "doc://pub/../a", "doc:///pub/../a", "doc:pub/%252e%252e/a", "doc://pub/x/../../a") {
			if f.admits(catalog.Resources, target{"s", uri}, uri) {
				t.Errorf("allow %s: %s is admitted", allow, uri)
			}
		}
	}
	for allow, uri := range map[string]string{
		"doc://pub/**": "doc://pub/x/a", "doc:pub/**": "doc:pub/a", "doc:///pub/*": "doc:///pub/a?b=1", "**/pub/*": "doc:///x/pub/a", "doc://Pub/*": "doc://PUB/a", "doc://**": "doc://x/y",
		"**": "urn:x", "doc://*/a": "doc://b/a", "urn:isbn:*": "urn:isbn:1", "doc://h/": "doc://h/", "doc://u@h:1/*": "doc://u@h:1/a", "mcptrack://server/s/doc:///*": "doc:///a",
	} {
		f, err := newFilter([]string{allow}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		exported := uri
		if strings.HasPrefix(allow, serverPrefix) {
			exported = qualify("s", uri)
		}
		if !f.admits(catalog.Resources, target{"s", uri}, exported) {
			t.Errorf("allow %s: %s is not admitted", allow, uri)
		}
	}
}

// stripped is the path of a URI for a server that strips the scheme.
func stripped(uri string) string {
	return strings.TrimPrefix(path.Clean("/"+uri[schemeEnd(uri):]), "/")
}

// A glob that no URI matches is refused.
func TestGlobsWithDots(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"doc://pub/../secret/**", "doc:./secret/*", "file:///a/%2e%2e/b", "mcptrack://server/s/doc://./secret/*"} {
		if _, err := newFilter(nil, []string{glob}, false); err == nil {
			t.Errorf("%s is valid", glob)
		}
	}
}

// However a URI is written: if such a server reads it as secret/..., it is denied, and with Allow
// it is admitted only if the server reads it as pub/...
func TestNoSpellingEvadesTheFilter(t *testing.T) {
	t.Parallel()
	deny, err := newFilter(nil, []string{"doc://secret/**"}, false)
	if err != nil {
		t.Fatal(err)
	}
	allow, err := newFilter([]string{"doc://pub/**", "doc:///pub/**"}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		uri := "doc:" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"/", "//", "/", "..", ".", "secret", "pub", "a", "/../", "%2e", "%73", "?x", "#"}), 0, 9).Draw(t, "uri"), "")
		decoded := strings.NewReplacer("%2e", ".", "%73", "s").Replace(uri)
		decoded, _, _ = strings.Cut(decoded, "#")
		decoded, _, _ = strings.Cut(decoded, "?")
		is := func(dir string) bool { return strings.HasPrefix(stripped(decoded)+"/", dir+"/") }
		if is("secret") && deny.admits(catalog.Resources, target{"s", uri}, uri) {
			t.Fatalf("deny: %s is admitted", uri)
		}
		if !is("pub") && allow.admits(catalog.Resources, target{"s", uri}, uri) {
			t.Fatalf("allow: %s is admitted", uri)
		}
	})
}

func TestFilesRegardlessOfCase(t *testing.T) {
	t.Parallel()
	for goos, admitted := range map[string]bool{"linux": true, "freebsd": true, "darwin": false, "windows": false} {
		f, err := newFilter(nil, []string{"file:///Users/me/.ssh/**"}, caseless(goos))
		if err != nil {
			t.Fatal(err)
		}
		for uri, want := range map[string]bool{
			"file:///Users/me/.ssh/id": false, "file:///Users/ME/.SSH/id": admitted, "file:///USERS/me/.\u017fSH/id": admitted, "FILE:/Users/me/.Ssh/id": admitted, "file:///Users/me/ssh": true, "doc:///users/ME/.SSH/id": true,
		} {
			if got := f.admits(catalog.Resources, target{"s", uri}, uri); got != want {
				t.Errorf("%s: %s is admitted: %t", goos, uri, got)
			}
		}
	}
}

// Completions reveal no denied resource.
func TestCompletionsAreFiltered(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.opts.Deny = []string{"doc://secret/**", "doc://pub/*.key"}
		s := w.Serve("a", era)
		s.SetList(catalog.Templates, map[string]any{"name": "p", "uriTemplate": "doc://{dir}/{file}"}, map[string]any{"name": "q", "uriTemplate": "doc:{+path}"})
		s.SetList(catalog.Prompts, map[string]any{"name": "p", "arguments": []any{map[string]any{"name": "x"}}})
		w.start(sessiontest.Entry("a"))
		c := w.client(era)
		for _, tt := range []struct{ ref, argument, context, values, want string }{
			{`"type":"ref/resource","uri":"doc://{dir}/{file}"`, "dir", `{}`, `"pub","secret","SECRET"`, `{"values":["pub"]}`},
			{`"type":"ref/resource","uri":"doc://{dir}/{file}"`, "file", `{"dir":"secret"}`, `"a","b"`, `{"values":[]}`},
			{`"type":"ref/resource","uri":"doc://{dir}/{file}"`, "file", `{"dir":"pub"}`, `"a.key","b"`, `{"values":["b"]}`},
			{`"type":"ref/resource","uri":"doc://{dir}/{file}"`, "file", `{}`, `"a.key","b"`, `{"values":["a.key","b"],"total":7}`},
			{`"type":"ref/resource","uri":"doc://{dir}/{file}"`, "other", `{}`, `"a"`, `{"values":[]}`},
			{`"type":"ref/resource","uri":"doc:{+path}"`, "path", `{}`, `"///secret/a","pub/b","//pub/../secret/b"`, `{"values":["pub/b"]}`},
			{`"type":"ref/prompt","name":"p"`, "x", `{}`, `"doc:/secret/a","doc://pub/b","secret: x","word"`, `{"values":["doc://pub/b","secret: x","word"]}`},
		} {
			var result map[string]any
			if err := json.Unmarshal([]byte(`{"completion":{"values":[`+tt.values+`],"total":7}}`), &result); err != nil {
				w.Fatal(err)
			}
			s.Fail(sessiontest.Fault{Method: "completion/complete", Times: 1, Result: result})
			raw, err := w.do(c, "completion/complete", `{"ref":{`+tt.ref+`},"argument":{"name":"`+tt.argument+`","value":""},"context":{"arguments":`+tt.context+`}}`)
			var got, want map[string]any
			if err == nil {
				err = errors.Join(json.Unmarshal(fields(json.RawMessage(raw))["completion"], &got), json.Unmarshal([]byte(tt.want), &want))
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				w.Errorf("%s %s %s: %s %v, want %s", tt.ref, tt.argument, tt.context, raw, err, tt.want)
			}
		}
	})
}

// A read does not return the contents of other resources that are denied.
func TestContentsAreFiltered(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.opts.Deny = []string{"doc://root/secret/**"}
		s := w.Serve("a", era)
		s.SetQuietly("doc://root", "x")
		w.start(sessiontest.Entry("a"))
		c := w.client(era)
		w.advance(5e9)
		s.Fail(sessiontest.Fault{Method: "resources/read", Result: map[string]any{"contents": []any{
			map[string]any{"uri": "doc://root", "text": "x"}, map[string]any{"uri": "doc:///root/secret/a", "text": "hidden"},
			map[string]any{"uri": "doc://root/b", "text": "y"}, map[string]any{"uri": "secret", "text": "hidden"}}}})
		raw, err := w.do(c, "resources/read", `{"uri":"doc://root"}`)
		if err != nil || strings.Contains(raw, "hidden") || !strings.Contains(raw, `"x"`) || !strings.Contains(raw, `"y"`) {
			w.Errorf("%s %v", raw, err)
		}
	})
}

// No request for a denied resource reaches the server, however its URI is written.
func TestSpellingsAreNotForwarded(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.opts.Deny = []string{"doc://secret/**"}
		s := w.Serve("a", era)
		s.SetQuietly("doc://pub/a", "public")
		s.SetQuietly("doc://secret/a", "private")
		s.SetList(catalog.Templates, map[string]any{"name": "p", "uriTemplate": "doc:{+x}"}, map[string]any{"name": "p", "uriTemplate": "doc:///secret/{x}"})
		w.start(sessiontest.Entry("a"))
		c := w.client(era)
		w.wantKeys(c, catalog.Resources, "doc://pub/a")
		w.wantKeys(c, catalog.Templates, "doc:{+x}")
		w.advance(5e9)
		read := w.Server("a").Count("resources/read")
		for _, uri := range spellings() {
			for _, uri := range []string{uri, qualify("a", uri)} {
				if _, err := c.Read(w.Context(), uri); err == nil || w.Server("a").Count("resources/read") != read {
					w.Errorf("%s was read: %v", uri, err)
				}
			}
		}
		if ack, err := c.Subscribe(w.Context(), session.Filter{URIs: spellings()}); err == nil && len(ack.MissingURIs) != len(spellings()) {
			w.Errorf("%+v", ack)
		}
	})
}
