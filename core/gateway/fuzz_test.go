package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// An accepted item is the same item under its new name, with unique members and in one line.
func FuzzItem(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","inputSchema":{"type":"object"}}`, `{"name":"a","name":"b","inputSchema":{"type":"object"}}`,
		`{"inputSchema":{"type":"object","properties":{"name":{"name":"a"}}},"name" : "a\u00e9","_meta":{"x":1}}`,
		`{"Name":"x","name":"a","uri":"u:x","uriTemplate":"u:{x}","inputSchema":{"type":"object"}}`,
		"{\"name\":\"a\",\n\"uri\":\"u:x\"}", `{"name":"a","uriTemplate":"{+x:9}{?a,b*}"}`,
		`{"name":"a","annotations":{"priority":2,"audience":["user"]},"uri":"u:x","icons":[{"src":"x"}]}`,
	} {
		f.Add([]byte(seed), "new_name", false)
		f.Add([]byte(seed), `"}<>\`, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, key string, down bool) {
		for _, k := range catalog.Kinds() {
			it, err := catalog.NewItem(k, raw)
			if err != nil {
				continue
			}
			checked, err := newItem(k, it)
			if err != nil || key == "" || strings.ToValidUTF8(key, "") != key {
				continue
			}
			out := checked.as(key, checked.ui, down)
			var was, now map[string]any
			if err := json.Unmarshal(raw, &was); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(out, &now); err != nil || strings.ContainsAny(string(out), "\n\r") {
				t.Fatalf("%s: %v", out, err)
			}
			if now[k.KeyField()] != key {
				t.Fatalf("%s: the key is %v, want %q", out, now[k.KeyField()], key)
			}
			meta, _ := now["_meta"].(map[string]any)
			if mark, _ := meta[downMember].(bool); down && !mark {
				t.Fatalf("%s is not marked", out)
			}
			if _, again := checked.as(it.Key, checked.ui, false), checked.as(key, checked.ui, down); string(again) != string(out) {
				t.Fatalf("%s, and again %s", out, again)
			}
			if checked.suspicion != "" {
				again, err := catalog.NewItem(k, checked.raw)
				if err != nil {
					t.Fatal(err)
				}
				if twice, err := newItem(k, again); err != nil || twice.suspicion != "" {
					t.Fatalf("%s is cleaned again: %s %v", checked.raw, twice.suspicion, err)
				}
				continue
			}
			delete(was, k.KeyField())
			delete(now, k.KeyField())
			delete(was, "_meta")
			delete(now, "_meta")
			a, _ := json.Marshal(was)
			b, _ := json.Marshal(now)
			if string(a) != string(b) {
				t.Fatalf("%s became %s", a, b)
			}
		}
	})
}

// Rewritten results stay valid and complete.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"resource_link","uri":"file:///x"},7,{"type":"resource","resource":{"uri":"file:///y"}}],"n":12345678901234567890}`))
	f.Add([]byte(`{"messages":[{"content":[{"type":"resource","resource":{"uri":"file:///x"}}]},{"content":{"type":"text"}}]}`))
	f.Add([]byte(`{"contents":[{"uri":"file:///x","text":"uri"},{"uri":7},null]}`))
	it, err := catalog.NewItem(catalog.Resources, []byte(`{"name":"x","uri":"file:///x"}`))
	if err != nil {
		f.Fatal(err)
	}
	x, err := newItem(catalog.Resources, it)
	if err != nil {
		f.Fatal(err)
	}
	lists := map[catalog.Kind][]item{catalog.Resources: {x}}
	v := newExports(contribution{}, []contribution{{id: "a", lists: lists}, {id: "b", lists: lists}}, filter{}, func(Refusal) {})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		for _, out := range []json.RawMessage{
			v.rewriteContent("a", raw), v.rewriteMessages("b", raw), v.rewriteContents(target{"a", "file:///x"}, "mcptrack://server/a/file:///x", raw),
		} {
			if !json.Valid(out) || len(fields(out)) != len(fields(raw)) {
				t.Fatalf("%s became %s", raw, out)
			}
		}
	})
}
