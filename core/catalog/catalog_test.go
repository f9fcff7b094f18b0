package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func item(t testing.TB, k Kind, raw string) Item {
	t.Helper()
	it, err := NewItem(k, json.RawMessage(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return it
}

func list(t testing.TB, k Kind, raw ...string) List {
	t.Helper()
	var items []Item
	for _, r := range raw {
		items = append(items, item(t, k, r))
	}
	return NewList(items)
}

func TestDiff(t *testing.T) {
	from := list(t, Tools, `{"name":"a"}`, `{"name":"b","inputSchema":{"x":1,"y":2}}`, `{"name":"c","n":12345678901234567890}`)
	to := list(t, Tools, `{"name":"d"}`, `{ "inputSchema": {"y":2, "x":1}, "name":"b" }`, `{"name":"c","n":12345678901234567891}`)
	if diff := cmp.Diff(Delta{Added: []string{"d"}, Removed: []string{"a"}, Changed: []string{"c"}}, Diff(from, to)); diff != "" {
		t.Error(diff)
	}
	if !Diff(from, from).Empty() {
		t.Error("a list differs from itself")
	}
	if d := Diff(nil, to); len(d.Added) != 3 || len(d.Removed) != 0 {
		t.Errorf("from nothing: %+v", d)
	}
}

// Members that no SDK knows count: a changed schema is a change.
func TestFingerprintCoversAllMembers(t *testing.T) {
	base := item(t, Tools, `{"name":"a","x-unknown":{"$schema":"one"},"n":1.0}`)
	for _, raw := range []string{`{"name":"a","x-unknown":{"$schema":"two"},"n":1.0}`, `{"name":"a","n":1.0}`, `{"name":"a","x-unknown":{"$schema":"one"},"n":1.00}`} {
		if item(t, Tools, raw).Digest == base.Digest {
			t.Errorf("%s has the digest of another", raw)
		}
	}
	if item(t, Tools, `{"n":1.0, "x-unknown":{"$schema":"one"}, "name":"a"}`).Digest != base.Digest {
		t.Error("the order of keys counts")
	}
}

func TestUnusableItems(t *testing.T) {
	for _, raw := range []string{``, `null`, `[]`, `"a"`, `{}`, `{"name":1}`, `{"name":""}`, `{"name":"a"`} {
		if it, err := NewItem(Tools, json.RawMessage(raw)); err == nil {
			t.Errorf("%s became %+v", raw, it)
		}
	}
}

func TestDescribe(t *testing.T) {
	it := item(t, Resources, `{"uri":"file:///a","name":"A","mimeType":7,"size":3,"description":"d"}`)
	d := it.Describe()
	if d.Name != "A" || d.MimeType != "" || d.Size == nil || *d.Size != 3 || d.Description != "d" {
		t.Errorf("%+v", d)
	}
}

func TestGet(t *testing.T) {
	l := list(t, Resources, `{"uri":"b"}`, `{"uri":"a"}`, `{"uri":"c"}`)
	for _, key := range []string{"a", "b", "c"} {
		if it, ok := l.Get(key); !ok || it.Key != key {
			t.Errorf("%s: %v %v", key, it, ok)
		}
	}
	if _, ok := l.Get("d"); ok {
		t.Error("found what is not there")
	}
}

func TestDigestText(t *testing.T) {
	it := item(t, Tools, `{"name":"a"}`)
	back, err := ParseDigest(it.Digest.String())
	if err != nil || back != it.Digest {
		t.Errorf("%v %v", back, err)
	}
	for _, s := range []string{"sha256:", "sha256:zz", "md5:00", it.Digest.String() + "0"} {
		if _, err := ParseDigest(s); err == nil {
			t.Errorf("%q is a digest", s)
		}
	}
}

func FuzzNewItem(f *testing.F) {
	f.Add([]byte(`{"name":"a","uri":"b","n":[1,{"x":null}]}`))
	f.Add([]byte(`{"name":"\u0000","name":"b"}`))
	f.Add([]byte(`{"name":"cut \ud83d","uri":"a","x":"\ud83d"}`))
	f.Add([]byte(`{"uri":"a","x":"\ud83d\ude00"}`))
	f.Add([]byte("{\"name\":\"\xff\"} {}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, k := range Kinds() {
			it, err := NewItem(k, raw)
			if err != nil {
				continue
			}
			canonical := appendCanonical(nil, bytes.TrimSpace(raw), 0)
			if again, err := NewItem(k, canonical); err != nil || again.Digest != it.Digest {
				t.Fatalf("%q is %+v, but %q is %+v (%v)", raw, it, canonical, again, err)
			}
			if it.Key == "" || it.Digest.IsZero() {
				t.Fatalf("%q became %+v", raw, it)
			}
			it.Describe()
		}
	})
}

// The canonical form of JSON is what encoding/json makes of it, so that digests last.
func FuzzCanonical(f *testing.F) {
	for _, raw := range []string{
		` [ ] `, `{}`, `"a"`, ` -0 `, `1E5`, "null", `{"b":[1 ,2.50,true,false,null,{"z":{},"y":[[]]}],"a":"x"}`,
		`{"a":1,"b":2,"a":{"c":3},"\u0061":4,"B":5}`, `{"é":1,"z":2,"\ud83d\ude00":3,"\ud83d":4,"\"":5,"a\\":6}`,
		`"<b>&amp;\u003c\u2028\/\b\n\u0000\u007f` + "\x7f\u2028é\xff\xc0" + `"`, "{\"\xff\":1,\"\ufffd\":2}", strings.Repeat(`[{"b":[{}],"a":`, MaxDepth) + `"<"` + strings.Repeat("}]", MaxDepth),
		"\t{\r\n\"a\" : \"\\\\\" , \"b\":\"\\\"\" }",
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		decoded, err := decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(decoded)
		if got := appendCanonical(nil, bytes.TrimSpace(raw), 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q is %q, want %q (%v)", raw, got, want, err)
		}
	})
}

func TestDepth(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int{
		`1`: 0, `"[[["`: 0, `"\"[["`: 0, `[]`: 1, `{"a":[{}],"b":{}}`: 3, `["]",["\\"],[[]]]`: 3,
	} {
		if got := Depth([]byte(raw)); got != want {
			t.Errorf("%s: %d, want %d", raw, got, want)
		}
	}
}

func BenchmarkDescribe(b *testing.B) {
	it := Item{Raw: json.RawMessage(`{"uri":"file:///docs/guide/000017.md","name":"guide 17","mimeType":"text/markdown","size":1234}`)}
	b.ReportAllocs()
	for b.Loop() {
		it.Describe()
	}
}

func BenchmarkNewItem(b *testing.B) {
	raw := json.RawMessage(`{"uri":"file:///docs/guide/000017.md","name":"guide 17","mimeType":"text/markdown","size":1234}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewItem(Resources, raw); err != nil {
			b.Fatal(err)
		}
	}
}
