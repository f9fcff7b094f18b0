package vault

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
)

func TestParse(t *testing.T) {
	type want struct {
		Title, Preview string
		Tags, Links    []string
		Metadata       string
	}
	tests := map[string]struct {
		src  string
		want want
	}{
		"nothing":              {"", want{Title: "note"}},
		"heading":              {"# The *title*\n\ntext", want{Title: "The title", Preview: "# The *title* text"}},
		"second heading first": {"## Two\n\n# One", want{Title: "One", Preview: "## Two # One"}},
		"tags": {"#one and #two/three, #Üben #日記 #a-b_c #👍ok (#paren)", want{
			Title: "note", Preview: "#one and #two/three, #Üben #日記 #a-b_c #👍ok (#paren)", Tags: []string{"a-b_c", "one", "paren", "two/three", "Üben", "日記", "👍ok"}}},
		"no tags":  {"#123 a#b x/#y # z `#code` \\#escaped", want{Title: "z `#code` #escaped", Preview: "x"}},
		"code":     {"```\n#no [[no]]\n```\n\n    #no\n\n`[[no]]` #yes", want{Title: "note", Tags: []string{"yes"}}},
		"trailing": {"#a/ #/b #c//d", want{Title: "note", Preview: "#a/ #/b #c//d", Tags: []string{"a", "b"}}},
		"front": {"---\ntitle: From front\ntags: [x, '#y/z', 12, 2024-a]\naliases:\n  - A\n---\n# Head\n#body", want{
			Title: "From front", Preview: "# Head #body", Tags: []string{"2024-a", "body", "x", "y/z"}, Metadata: `{"aliases":["A"],"tags":["x","#y/z",12,"2024-a"],"title":"From front"}`}},
		"front, text":     {"---\r\ntag: a, b c\r\n---\r\n", want{Title: "note", Tags: []string{"a", "b", "c"}, Metadata: `{"tag":"a, b c"}`}},
		"front, TOML":     {"+++\ntags = ['t']\n+++\nx", want{Title: "note", Preview: "x", Tags: []string{"t"}, Metadata: `{"tags":["t"]}`}},
		"front, dates":    {"---\nd: 2024-05-01\n1: x\n---\n", want{Title: "note", Metadata: `{"1":"x","d":"2024-05-01T00:00:00Z"}`}},
		"front, TOML day": {"+++\nd = 2024-05-01\n+++\n", want{Title: "note", Metadata: `{"d":"2024-05-01"}`}},
		"front, NaN":      {"---\ntitle: T\na: .nan\n---\n", want{Title: "T"}},
		"front, empty":    {"---\n---\nx", want{Title: "note", Preview: "x"}},
		"front, open":     {"---\ntags: [x]\n#y", want{Title: "note", Preview: "--- tags: [x] #y", Tags: []string{"y"}}},
		"front, bad":      {"---\n: : :\n\t-\n---\n#y", want{Title: "note", Preview: "#y", Tags: []string{"y"}}},
		"front, two same": {"---\na: 1\na: 2\n---\n#y", want{Title: "note", Preview: "#y", Tags: []string{"y"}}},
		"a line":          {"---\n\ntext #a\n\n---\n#b", want{Title: "note", Preview: "#b", Tags: []string{"b"}}},
		"mark":            {"\ufeff---\ntitle: T\n---\n", want{Title: "T", Metadata: `{"title":"T"}`}},
		"links": {"[[One]] [[dir/Two|two]] ![[pic.png]] [[Three#part]] [[#here]] [x](../up.md) [y](/top.md#h) [z](https://example.com/a.md) [w](sub/a%20b.md) [v](../../out.md)", want{
			Title: "note", Links: []string{"/dir/sub/a b.md", "/out.md", "/top.md", "/up.md", "One", "Three", "dir/Two", "pic.png"}}},
		"hostile": {"# a\x00b\u202e\x1b[31m\n\xff\xfe", want{Title: "a�b[31m", Preview: "# a b[31m"}},
	}
	m := newMarkdown()
	for name, tt := range tests {
		f := m.parse("dir/note.md", []byte(tt.src))
		got := want{f.title, f.preview, f.tags, f.links, string(f.metadata())}
		if tt.want.Preview == "" || name == "no tags" || name == "hostile" {
			tt.want.Preview = got.Preview
		}
		if name == "hostile" || name == "no tags" {
			tt.want.Title = got.Title
		}
		if diff := cmp.Diff(tt.want, got, cmp.Transformer("nil", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if strings.ContainsAny(f.title+f.preview, "\x00\x1b\n\u202e") || !utf8.ValidString(f.title+f.preview) {
			t.Errorf("%s: %q %q", name, f.title, f.preview)
		}
	}
}

// TestDeepFrontmatter: too deeply nested metadata is omitted, but title and tags of
// the same frontmatter are used.
func TestDeepFrontmatter(t *testing.T) {
	m := newMarkdown()
	lists := func(n int, in string) string { return strings.Repeat("[", n) + in + strings.Repeat("]", n) }
	for name, tt := range map[string]struct {
		src  string
		tags []string
		want bool
	}{
		"as deep as may be": {"---\ntitle: T\ntags: [x]\na: " + lists(catalog.MaxDepth-1, "") + "\n---\n", []string{"x"}, true},
		"one deeper":        {"---\ntitle: T\ntags: [x]\na: " + lists(catalog.MaxDepth, "") + "\n---\n", []string{"x"}, false},
		"very deep":         {"---\ntitle: T\ntags: [x]\na: " + lists(9990, "") + "\n---\n", []string{"x"}, false},
		"deep tags":         {"---\ntitle: T\ntags: [x, " + lists(5000, "y") + ", {a: " + lists(5000, "z") + "}]\n---\n", []string{"x"}, false},
		"deep maps":         {"---\ntitle: T\ntags: [x]\na: " + strings.Repeat("{b: ", 300) + "1" + strings.Repeat("}", 300) + "\n---\n", []string{"x"}, false},
		"deep TOML":         {"+++\ntitle = 'T'\ntags = ['x']\na = " + lists(300, "") + "\n+++\n", []string{"x"}, false},
		"brackets in text":  {"---\ntitle: T\ntags: [x]\na: '\"\\" + lists(300, "") + "'\n---\n", []string{"x"}, true},
	} {
		f := m.parse("n.md", []byte(tt.src))
		if f.title != "T" || !slices.Equal(f.tags, tt.tags) || (f.metadata() != nil) != tt.want {
			t.Errorf("%s: title %q, tags %q, metadata %.100s", name, f.title, f.tags, f.metadata())
		}
		if catalog.Depth(f.metadata()) > catalog.MaxDepth {
			t.Errorf("%s: %d levels", name, catalog.Depth(f.metadata()))
		}
	}
}

// FuzzParse: the facts of any note are bounded and printable.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"---\na: &x [*x]\n---\n#t", "[[[[a]]]] ![[", "#\xff", "---\n---\n---", "+++\n[[a]]\n+++", "# \u202e #a\n\t#b", "[a](%zz.md) [b](\\..\\x.md)", "---\ntags: {a: b}\n---",
		"---\na: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d]\n---\n",
	} {
		f.Add(seed)
	}
	m := newMarkdown()
	f.Fuzz(func(t *testing.T, src string) {
		got := m.parse("dir/note.md", []byte(src))
		if got.title == "" || utf8.RuneCountInString(got.title) > maxTitle || utf8.RuneCountInString(got.preview) > maxPreview ||
			len(got.tags) > maxTags || len(got.links) > maxLinks || len(got.metadata()) > maxMetadata || catalog.Depth(got.metadata()) > catalog.MaxDepth {
			t.Fatalf("unbounded: %+v", got)
		}
		for _, text := range append(append([]string{got.title, got.preview}, got.tags...), got.links...) {
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00") {
				t.Fatalf("unprintable: %q", text)
			}
		}
		if end := frontEnd([]byte(src)); end > len(src) || end < 0 {
			t.Fatalf("front matter ends at %d of %d", end, len(src))
		}
	})
}

// TestHostileMarkup: no text takes the parser much longer than others of its size,
// and tags in a long paragraph are still found.
func TestHostileMarkup(t *testing.T) {
	t.Parallel()
	m := newMarkdown()
	size := 1 << 17
	if testing.Short() {
		size >>= 3
	}
	for _, unit := range []string{
		"[", "![[", "> ", "- ", "`", "*", "*a", "_a ", "<", "[](", "#a ", "[[a]] ", "a\n", "``` ", "    ", "1. ", "[a]: b\n", "[a]: b\n\n", "[a][b]", "&", "<!--", "\\",
		"***a", "> - ", "[[", "#", "- a\n  ", "<a ", "[a\n", "`a``b", "*a_b", "[x](a\n", "a*\n", "- [](\n", "| [](a |\n", "<?", "<a b='", "![](", "[^1]: a\n",
	} {
		src := []byte(strings.Repeat(unit, size/len(unit)))
		if took := m.fastest(src, 10*time.Second); took > 10*time.Second { // hours without limitMarkup; a generous limit
			t.Errorf("%q: %v", unit, took)
		}
	}
	for name, front := range map[string]string{
		"YAML": "---\na: " + strings.Repeat("[", 60_000) + "\n---\n", "YAML maps": "---\n" + strings.Repeat("{a: ", 15_000) + "\n---\n",
		"TOML": "+++\na = " + strings.Repeat("[", 60_000) + "\n+++\n", "TOML tables": "+++\n" + strings.Repeat("[[a.b]]\n", 8_000) + "+++\n",
	} {
		if took := m.fastest([]byte(front), 10*time.Second); took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
	var table strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&table, "| [[n%d]] | #t%d |\n", i, i%400)
	}
	if f := m.parse("n.md", []byte(table.String())); len(f.links) != 3000 || len(f.tags) != 400 {
		t.Errorf("%d links, %d tags", len(f.links), len(f.tags))
	}
}
