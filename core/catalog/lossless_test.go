package catalog

import (
	"encoding/json"
	"testing"
)

// Values that decoding would equate keep different digests, and two spellings of one
// value keep the same.
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

// Such a change is reported at its path.
func TestChangesInWhatDecodingLoses(t *testing.T) {
	changes, _ := Changes(item(t, Tools, `{"name":"a","title":"\ud83d"}`), item(t, Tools, `{"name":"a","title":"\ud83e"}`), 5)
	if len(changes) != 1 || changes[0].Path != "/title" {
		t.Errorf("%+v", changes)
	}
}

// The result is the input with insertions as far as encoding/json sees it, and is valid
// if the input is.
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
