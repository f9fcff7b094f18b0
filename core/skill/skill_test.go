package skill

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

const uri = "skill://acme/billing/refunds/SKILL.md"

const text = "---\nname: refunds\ndescription: Process refunds\nmetadata:\n  version: \"2.1\"\n---\n\n# Refunds\n"

func file(uri, content string) string {
	return fmt.Sprintf(`{"uri":%q,"digest":"sha256:%x","size":%d}`, uri, sha256.Sum256([]byte(content)), len(content))
}

// entry returns an entry with these files besides SKILL.md.
func entry(files ...string) string {
	return fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":"refunds","description":"Process refunds","metadata":{"version":"2.1"}},"resources":[%s]}`,
		uri, strings.Join(append([]string{file(uri, text)}, files...), ","))
}

func mustParse(t *testing.T, raw string) Entry {
	t.Helper()
	e, err := Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestParse(t *testing.T) {
	t.Parallel()
	e := mustParse(t, entry(file("skill://acme/billing/refunds/examples/email.md", "Dear"), file("skill://acme/billing/refunds/a%20b.md", "")))
	if e.Name != "refunds" || e.Description != "Process refunds" || len(e.Files) != 3 || e.Dynamic() || e.Size() != int64(len(text)+4) || e.Dir() != "skill://acme/billing/refunds" {
		t.Errorf("entry %+v", e)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, mustParse(t, string(raw))); diff != "" {
		t.Errorf("the JSON form is another entry: %s", diff)
	}
	d := mustParse(t, `{"uri":"github://o/r/daily/SKILL.md","frontmatter":{"name":"daily","description":""},"resources":"dynamic","_meta":{}}`)
	if !d.Dynamic() || d.Digest().IsZero() {
		t.Errorf("dynamic entry %+v", d)
	}
	if raw, _ := json.Marshal(d); string(raw) != `{"uri":"github://o/r/daily/SKILL.md","frontmatter":{"name":"daily","description":""},"resources":"dynamic"}` {
		t.Errorf("dynamic entry is encoded as %s", raw)
	}
}

// TestParseRejects has one entry per rule that a hostile or broken server may break.
func TestParseRejects(t *testing.T) {
	t.Parallel()
	with := func(uri, frontmatter, resources string) string {
		return fmt.Sprintf(`{"uri":%s,"frontmatter":%s,"resources":%s}`, uri, frontmatter, resources)
	}
	const good, front = `"skill://refunds/SKILL.md"`, `{"name":"refunds","description":"d"}`
	main := file("skill://refunds/SKILL.md", text)
	other := func(uri string) string { return with(good, front, "["+main+","+file(uri, "x")+"]") }
	many := []string{}
	for i := range MaxFiles {
		many = append(many, file(fmt.Sprintf("skill://refunds/%d", i), "x"))
	}
	sized := func(size string) string {
		return fmt.Sprintf(`{"uri":"skill://refunds/big","digest":"sha256:%064x","size":%s}`, 1, size)
	}
	for name, raw := range map[string]string{
		"not JSON":             `{`,
		"not an object":        `[]`,
		"no uri":               `{"frontmatter":` + front + `,"resources":"dynamic"}`,
		"uri of another type":  with(`7`, front, `"dynamic"`),
		"uri without SKILL.md": with(`"skill://refunds"`, front, `"dynamic"`),
		"uri without a path":   with(`"skill://SKILL.md"`, front, `"dynamic"`),
		"uri without a scheme": with(`"refunds/SKILL.md"`, front, `"dynamic"`),
		"relative uri":         with(`"skill://a/../refunds/SKILL.md"`, front, `"dynamic"`),
		"control character":    with(`"skill://a\u001b/refunds/SKILL.md"`, front, `"dynamic"`),
		"bidi override":        with(`"skill://a\u202e/refunds/SKILL.md"`, front, `"dynamic"`),
		"long uri":             with(`"skill://`+strings.Repeat("a/", MaxURI/2)+`refunds/SKILL.md"`, front, `"dynamic"`),
		"another name":         with(good, `{"name":"payments","description":"d"}`, `"dynamic"`),
		"names of other case":  with(good, `{"name":"payments","NAME":"refunds","description":"d"}`, `"dynamic"`),
		"uri of other case":    `{"URI":` + good + `,"frontmatter":` + front + `,"resources":"dynamic"}`,
		"no description":       with(good, `{"name":"refunds"}`, `"dynamic"`),
		"no frontmatter":       `{"uri":` + good + `,"resources":"dynamic"}`,
		"frontmatter null":     with(good, `null`, `"dynamic"`),
		"huge frontmatter":     with(good, `{"name":"refunds","description":"`+strings.Repeat("d", MaxFrontmatter)+`"}`, `"dynamic"`),
		"deep frontmatter":     with(good, `{"name":"refunds","description":"d","x":`+strings.Repeat("[", catalog.MaxDepth)+strings.Repeat("]", catalog.MaxDepth)+`}`, `"dynamic"`),
		"no resources":         `{"uri":` + good + `,"frontmatter":` + front + `}`,
		"resources null":       with(good, front, `null`),
		"another word":         with(good, front, `"static"`),
		"no files":             with(good, front, `[]`),
		"without SKILL.md":     with(good, front, `[`+file("skill://refunds/a", "x")+`]`),
		"513 files":            with(good, front, "["+main+","+strings.Join(many, ",")+"]"),
		"16 MiB and a byte":    with(good, front, "["+main+","+sized(fmt.Sprint(MaxBytes-len(text)+1))+"]"),
		"one huge file":        with(good, front, "["+main+","+sized("9223372036854775807")+"]"),
		"a negative size":      with(good, front, "["+main+","+sized("-1")+"]"),
		"no size":              with(good, front, "["+main+","+sized("null")+"]"),
		"a fraction":           with(good, front, "["+main+","+sized("1.5")+"]"),
		"listed twice":         with(good, front, "["+main+","+main+"]"),
		"uppercase digest":     with(good, front, `[`+strings.ToUpper(main)+`]`),
		"empty digest":         with(good, front, `[{"uri":`+good+`,"digest":"","size":1}]`),
		"zero digest":          with(good, front, `[{"uri":`+good+`,"digest":"sha256:`+strings.Repeat("0", 64)+`","size":1}]`),
		"another algorithm":    with(good, front, `[{"uri":`+good+`,"digest":"md5:`+strings.Repeat("a", 64)+`","size":1}]`),
		"a file elsewhere":     other("skill://payments/a"),
		"the directory":        other("skill://refunds/"),
		"a sibling":            other("skill://refunds2/a"),
		"another scheme":       other("file://refunds/a"),
		"dots":                 other("skill://refunds/../payments/a"),
		"escaped dots":         other("skill://refunds/%2e%2E/payments/a"),
		"an escaped slash":     other("skill://refunds/..%2fpayments"),
		"a backslash":          other(`skill://refunds/..%5cpayments`),
		"an empty segment":     other("skill://refunds//a"),
		"a bad escape":         other("skill://refunds/%zz"),
		"a query":              other("skill://refunds/a?b"),
		"a fragment":           other("skill://refunds/a#b"),
		"an escaped NUL":       other("skill://refunds/%00"),
	} {
		if e, err := Parse([]byte(raw)); err == nil {
			t.Errorf("%s: accepted as %+v", name, e)
		} else if text := err.Error(); printable.Line(text, 1000) != text {
			t.Errorf("%s: the error is not printable: %q", name, text)
		}
	}
	// The limits themselves are allowed.
	mustParse(t, with(good, front, "["+main+","+strings.Join(many[1:], ",")+"]"))
	mustParse(t, with(good, front, "["+main+","+sized(fmt.Sprint(MaxBytes-len(text)))+"]"))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	e := mustParse(t, entry(file("skill://acme/billing/refunds/a.md", "abc")))
	for _, content := range []struct{ uri, text, reason string }{
		{uri, text, ""},
		{uri, strings.Replace(text, "# Refunds", "# Reefund", 1), "digest"},
		{uri, text + "x", "bytes instead of"},
		{"skill://acme/billing/refunds/a.md", "abc", ""},
		{"skill://acme/billing/refunds/a.md", "abd", "digest"},
		{"skill://acme/billing/refunds/b.md", "abc", "does not list"},
		{"skill://other/SKILL.md", text, "does not list"},
	} {
		err := e.Verify(content.uri, []byte(content.text))
		bad, ok := errors.AsType[*Mismatch](err)
		if (content.reason == "") != (err == nil) || err != nil && (!ok || !strings.Contains(bad.Reason, content.reason)) {
			t.Errorf("%s %q: %v, want %q", content.uri, content.text, err, content.reason)
		}
	}
}

// TestVerifyFrontmatter checks that what a user approves by the entry is what the file says.
func TestVerifyFrontmatter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ yaml, json, want string }{
		{"name: s\ndescription: d", `{"description":"d","name":"s"}`, ""},
		{"name: s\ndescription: d", `{"name":"s","description":"e"}`, "description"},
		{"name: s\ndescription: d\nallowed-tools: Bash", `{"name":"s","description":"d"}`, "allowed-tools"},
		{"name: s\ndescription: d", `{"name":"s","description":"d","license":"MIT"}`, "license"},
		{"name: s\ndescription: d\nx: {a: [1, 2.50, true, null]}", `{"name":"s","description":"d","x":{"a":[1,2.5,true,null]}}`, ""},
		{"name: s\ndescription: d\nx: {a: [1, 2]}", `{"name":"s","description":"d","x":{"a":[2,1]}}`, "x"},
		{"name: s\ndescription: d\nx: 9007199254740993", `{"name":"s","description":"d","x":9007199254740992}`, "x"},
		{"name: s\ndescription: d\nx: 2026-01-02", `{"name":"s","description":"d","x":"2026-01-02T00:00:00.000Z"}`, ""},
		{"name: s\ndescription: d\nx: 2026-01-02", `{"name":"s","description":"d","x":"2026-01-03"}`, "x"},
		{"name: s\ndescription: d\nx: yes\nz: 0x1f", `{"name":"s","description":"d","x":true,"z":31}`, ""},
		{"name: s\ndescription: d\nx: yes", `{"name":"s","description":"d","x":false}`, "x"},
		{"name: s\r\ndescription: >\r\n  two\r\n  lines", `{"name":"s","description":"two lines"}`, ""},
	} {
		e := Entry{URI: "skill://s/SKILL.md", Frontmatter: json.RawMessage(c.json)}
		err := e.Verify(e.URI, []byte("---\n"+c.yaml+"\n---\nBody\n"))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), `"`+c.want+`"`) {
			t.Errorf("%q and %s: %v, want %q", c.yaml, c.json, err, c.want)
		}
	}
	for name, content := range map[string]string{
		"none":      "# A note\n",
		"no end":    "---\nname: s\n",
		"not YAML":  "---\n\t{\n---\n",
		"a list":    "---\n- name\n---\n",
		"twice":     "---\nname: s\nmetadata: [{a: 1, b: 2, a: 1}]\n---\n",
		"too large": "---\nname: " + strings.Repeat("s", MaxFrontmatter) + "\n---\n",
		"aliases":   "---\na: &a [" + strings.Repeat("x,", 999) + "x]\nb: &b [" + strings.Repeat("*a,", 99) + "*a]\nc: [" + strings.Repeat("*b,", 99) + "*b]\n---\n",
	} {
		if raw, err := Frontmatter([]byte(content)); err == nil {
			t.Errorf("%s: %.100s", name, raw)
		}
	}
}

func TestDigestAndDiff(t *testing.T) {
	t.Parallel()
	a, b, c := file("skill://acme/billing/refunds/a", "a"), file("skill://acme/billing/refunds/b", "b"), file("skill://acme/billing/refunds/b", "changed")
	one, two := mustParse(t, entry(a, b)), mustParse(t, entry(b, a))
	if one.Digest() != two.Digest() || one.Digest().IsZero() {
		t.Error("the order of files has an influence on the digest")
	}
	if d := Diff(one.Files, two.Files); len(d.Added)+len(d.Removed)+len(d.Changed) > 0 {
		t.Error("the order of files is a difference")
	}
	three := mustParse(t, entry(c, file("skill://acme/billing/refunds/c", "c")))
	if three.Digest() == one.Digest() {
		t.Error("other files have the same digest")
	}
	file := func(e Entry, name string) File {
		f, ok := e.File("skill://acme/billing/refunds/" + name)
		if !ok {
			t.Fatalf("no file %s", name)
		}
		return f
	}
	was := file(one, "b")
	want := Delta{
		Added:   []File{file(three, "c")},
		Removed: []File{file(one, "a")},
		Changed: []FileChange{{file(three, "b"), was.Digest, was.Size}},
	}
	if diff := cmp.Diff(want, Diff(one.Files, three.Files)); diff != "" {
		t.Error(diff)
	}
	if described := mustParse(t, strings.Replace(entry(a, b), "Process refunds", "Send all money", 1)); described.Digest() == one.Digest() {
		t.Error("another description has the same digest")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(entry(file("skill://acme/billing/refunds/a%20b", "x"))), []byte(text))
	f.Add([]byte(`{"uri":"s://a/b/SKILL.md","frontmatter":{"name":"b","description":""},"resources":"dynamic"}`), []byte("---\nname: b\ndescription:\n---"))
	f.Add([]byte(`{"uri":"s:///b/SKILL.md","frontmatter":{"name":"b","Name":"c","description":"\ud800"},"resources":[]}`), []byte("---\n? [a]\n: *b\n---\n"))
	f.Fuzz(func(t *testing.T, raw, content []byte) {
		e, err := Parse(raw)
		if err != nil {
			if text := err.Error(); printable.Line(text, 1<<20) != text {
				t.Fatalf("the error is not printable: %q", text)
			}
			return
		}
		if len(e.Files) > MaxFiles || e.Size() > MaxBytes || e.Digest().IsZero() || !e.Contains(e.URI) {
			t.Fatalf("accepted %s", raw)
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Parse(again); err != nil || same.Digest() != e.Digest() {
			t.Fatalf("%s is parsed and encoded as %s: %v", raw, again, err)
		}
		_ = e.Verify(e.URI, content)
		if front, err := Frontmatter(content); err == nil && !json.Valid(front) {
			t.Fatalf("frontmatter %s", front)
		}
	})
}

func TestMains(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string][]string{
		"skill://acme/refunds/a/b.md": {"skill://acme/refunds/a/SKILL.md", "skill://acme/refunds/SKILL.md", "skill://acme/SKILL.md"},
		"skill://refunds/":            {"skill://refunds/SKILL.md"},
		"skill://refunds":             nil,
		"refunds":                     nil,
		"/refunds":                    nil,
		"skill://" + strings.Repeat("a/", MaxURI/2): nil,
	} {
		if diff := cmp.Diff(want, slices.Collect(Mains(uri))); diff != "" {
			t.Errorf("%.50s: %s", uri, diff)
		}
	}
}
