package mcpserver

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzObject compares our reader of objects with encoding/json, which differs only in that it
// accepts duplicate members.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : 1 , "b":[{"}":"]"},2] }`, `{"a":"\"","\u0061b":{}}`, `{"a":1,"a":2}`, `{"":-1.5e3,"x":null}`,
		`[]`, `{`, `{"a":}`, "{\"a\":\t[1,\n2] }\r\n", `{"\ud800":1}`, `{"a\\":"\\"}`, "{\"\xff\":1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, failed := object(data)
		var want map[string]json.RawMessage
		err := json.Unmarshal(data, &want)
		switch {
		case want == nil || err != nil:
			if failed == nil {
				t.Fatalf("%q: %q, encoding/json says %v", data, got, err)
			}
			return
		case failed != nil:
			if names := strings.Count(string(data), `":`) + strings.Count(string(data), `" `); names <= len(want) {
				t.Fatalf("%q: %v, encoding/json has %q", data, failed, want)
			}
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %q, want %q", data, got, want)
		}
		for name, value := range got {
			if !json.Valid(value) || bytes.TrimSpace(value)[0] == ',' {
				t.Errorf("%q: %q has %q", data, name, value)
			}
			if w, ok := want[strings.ToValidUTF8(name, "\ufffd")]; ok && !bytes.Equal(value, w) {
				t.Errorf("%q: %q has %q, want %q", data, name, value, w)
			}
		}
	})
}

func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	if m, err := parse([]byte("\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)); err != nil || m.method != "initialize" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestWithKeepsExistingMembers(t *testing.T) {
	t.Parallel()
	got, err := with(json.RawMessage("{\n\"a\": \"<&>\",\n\"_meta\":{\"x\":9007199254740993}}"), []member{{"a", json.RawMessage(`1`)}, {"b", json.RawMessage(`2`)}, {"_meta", json.RawMessage(`{"y":3}`)}})
	if err != nil || bytes.ContainsAny(got, "\r\n") {
		t.Fatal(err, string(got))
	}
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(got))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": "<&>", "b": json.Number("2"), "_meta": map[string]any{"x": json.Number("9007199254740993"), "y": json.Number("3")}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

func TestTextIsDecodedAsByEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `"`, `""`, `"a"`, `"a\"b"`, `"\u0061"`, "\"\xff\"", `null`, `5`, `{"a":"b"}`, `"a"b"`} {
		var want string
		if json.Unmarshal([]byte(raw), &want) != nil {
			want = ""
		}
		if got := text(json.RawMessage(raw)); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}
