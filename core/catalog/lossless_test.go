package catalog

import (
	"encoding/json"
	"testing"
)

// What decoding would make one stays apart, and what is written in two ways stays one.
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

// The change is found where it is, too.
func TestChangesInWhatDecodingLoses(t *testing.T) {
	changes, _ := Changes(item(t, Tools, `{"name":"a","title":"\ud83d"}`), item(t, Tools, `{"name":"a","title":"\ud83e"}`), 5)
	if len(changes) != 1 || changes[0].Path != "/title" {
		t.Errorf("%+v", changes)
	}
}

// FuzzLossless: what comes out is what came in with more in it, as far as encoding/json
// can tell, and valid if that was.
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
