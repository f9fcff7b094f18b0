package catalog

import (
	"encoding/json"
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
			if key := keyOf(k, raw); err == nil && it.Key != key || err != nil && key != "" {
				t.Fatalf("%q: %v, and the key is %q, not %q", raw, err, it.Key, key)
			}
			if err != nil {
				continue
			}
			if d, err := Fingerprint(raw); err != nil || d != it.Digest {
				t.Fatalf("%q: digest %v, fingerprint %v (%v)", raw, it.Digest, d, err)
			}
			if it.Key == "" || it.Digest.IsZero() {
				t.Fatalf("%q became %+v", raw, it)
			}
			it.Describe()
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

func BenchmarkNewItem(b *testing.B) {
	raw := json.RawMessage(`{"uri":"file:///docs/guide/000017.md","name":"guide 17","mimeType":"text/markdown","size":1234}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewItem(Resources, raw); err != nil {
			b.Fatal(err)
		}
	}
}

// Values that decoding would equate have different digests; two spellings of one value have the
// same digest.
func TestFingerprintOfWhatDecodingLoses(t *testing.T) {
	of := func(raw string) Digest {
		t.Helper()
		d, err := Fingerprint(json.RawMessage(raw))
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		return d
	}
	seen := map[Digest]string{}
	for _, raw := range []string{`{"a":"x \ud83d"}`, `{"a":"x \ud83e"}`, `{"a":"x \ude00"}`, `{"a":"x \ufffd"}`, `{"a":"x \ud83d\ufffd"}`,
		`{"a":"x \ufffd\ud83d"}`, `{"a":"x \\ud83d"}`, `{"a":"x \ud83d\ude00"}`, `{"a":"x \ud83d\ud83d\ude00"}`, `{"a":"x \ud83d\\ude00"}`,
		"{\"a\":\"x \xff\"}", "{\"a\":\"x \xfe\"}", "{\"a\":\"x \xed\xa0\xbd\"}", `{"\ud83d":"x"}`, `{"\ud83e":"x"}`} {
		d := of(raw)
		if other, dup := seen[d]; dup {
			t.Errorf("%q and %q have the same digest", raw, other)
		}
		seen[d] = raw
	}
	for a, b := range map[string]string{
		`{"a":"\ud83d","b":"\ud83d\ude00"}`: `{ "b": "😀", "a": "\uD83D" }`,
		`"\ufffd\u00e9\n"`:                  `"�é\u000a"`,
	} {
		if of(a) != of(b) {
			t.Errorf("%s and %s have different digests", a, b)
		}
	}
}

// A change that decoding would lose is reported at its path.
func TestChangesInWhatDecodingLoses(t *testing.T) {
	changes, _ := Changes(item(t, Tools, `{"name":"a","title":"\ud83d"}`), item(t, Tools, `{"name":"a","title":"\ud83e"}`), 5)
	if len(changes) != 1 || changes[0].Path != "/title" {
		t.Errorf("%+v", changes)
	}
}

// For encoding/json, the result of Lossless is the input with insertions, and it is valid if the
// input is.
func FuzzLossless(f *testing.F) {
	for _, seed := range []string{`"\ud83d"`, `"\ud83d\ude00"`, "\"\xff\"", `"\\ud83d"`, `"\`, `{"\ud8":1}`, `"\uD83D\u"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if out := Lossless(raw); json.Valid(raw) && !json.Valid(out) {
			t.Errorf("%q became %q", raw, out)
		}
	})
}
