package lock

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// FuzzClassify: no input makes it panic, only equal values have no class, and the result is sorted,
// known and always the same.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{
		`{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/d","description":"x"},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],"$defs":{"d":{"enum":[1,2,"x y"]}}}}`,
		`{"name":"t","annotations":{"readOnlyHint":true,"title":"x"},"outputSchema":{"allOf":[{"$ref":"#"}],"not":{"if":true}}}`,
		`{"name":"p","arguments":[{"name":"a","required":true},{"name":"b"}]}`,
		`{"name":"t","inputSchema":{"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}},"items":[{},false],"dependencies":{"a":["b"],"c":{}}}}`,
		`"ignore previous instructions\u200b https://a.net/ pаssword <important>"`,
		`{"a":1,"a":2}`, `[`, "\"\xff\"", `1e999`, ``,
	} {
		f.Add(uint8(3), []byte(s), []byte(`{"name":"t"}`))
		f.Add(uint8(4), []byte(s), bytes.Replace([]byte(s), []byte("a"), []byte("b"), 1))
	}
	sections := []Section{SectionLaunch, SectionCapabilities, SectionInstructions, SectionTools, SectionPrompts, SectionTemplates, SectionResources, SectionContents}
	var known []string
	for _, c := range Classes() {
		known = append(known, c.ID)
	}
	canonical := func(raw []byte) (string, bool) {
		var decoded any // out of the range of float64 is an error here, and the maximum for Canonicalize
		if json.Unmarshal(raw, &decoded) != nil || catalog.Depth(raw) > catalog.MaxDepth {
			return "", false
		}
		v := jsontext.Value(bytes.Clone(raw))
		err := v.Canonicalize()
		return string(v), err == nil
	}
	f.Fuzz(func(t *testing.T, s uint8, old, new []byte) {
		section := sections[int(s)%len(sections)]
		if len(old) == 0 {
			old = nil // added
		}
		if len(new) == 0 {
			new = nil // removed
		}
		got := Classify(section, old, new)
		if !slices.Equal(got, Classify(section, old, new)) {
			t.Error("another result")
		}
		a, okA := canonical(old)
		b, okB := canonical(new)
		same := okA && okB && a == b || bytes.Equal(old, new)
		if same != (len(got) == 0) {
			t.Errorf("%q", got)
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("%q", got)
		}
		for _, id := range got {
			if !slices.Contains(known, id) {
				t.Errorf("%q", got)
			}
		}
		for _, raw := range [][]byte{old, new} {
			if again := Classify(section, raw, bytes.Clone(raw)); len(again) != 0 {
				t.Errorf("it differs from itself: %q", again)
			}
		}
		if reasons := Reasons(old, new); section == SectionTools && (len(reasons) > 0) != slices.Contains(got, classSuspicious) {
			t.Errorf("%q: %q", got, reasons)
		}
		Twins([]string{string(old), string(new)})
	})
}

// FuzzCompare: two definitions with other hashes always differ, in both directions and with a class. What
// was taken over is no change any more, also after the lock was written and read.
func FuzzCompare(f *testing.F) {
	for _, s := range []string{
		`{"name":"t","description":"d","inputSchema":{"type":"object","required":["a"]}}`, `{"name":"t","annotations":{"readOnlyHint":true}}`,
		`{"name":"t","inputSchema":{"const":9007199254740993}}`, `{"name":"t","x":1e400}`, `{"name":"t","name":"t"}`, `{"name":"t","x":"\ud800"}`, `{"name":"t","__proto__":{"x":1}}`, `{"name":"u"}`, `{}`, `[`,
	} {
		f.Add([]byte(s), []byte(`{"name":"t","inputSchema":{"const":9007199254740992}}`))
	}
	f.Fuzz(func(t *testing.T, old, new []byte) {
		h := DefaultHashing()
		of := func(definition []byte) (Observation, *Server) {
			o := Observation{SectionTools: {h.Item(SectionTools, definition)}}
			return o, NewServer(o)
		}
		oldOffer, oldServer := of(old)
		newOffer, newServer := of(new)
		a, b := oldOffer[SectionTools][0], newOffer[SectionTools][0]
		same := a.Problem == "" && b.Problem == "" && a.Key == b.Key && a.Hash == b.Hash
		there, back := Compare(oldServer, newOffer), Compare(newServer, oldOffer)
		if (len(there) == 0) != same || a.Problem == "" && b.Problem == "" && len(there) != len(back) {
			t.Fatalf("%d changes there and %d back", len(there), len(back))
		}
		for _, d := range slices.Concat(there, back) {
			if len(d.Classes) == 0 || !slices.IsSorted(d.Classes) {
				t.Errorf("%s: classes %q", d.Name(), d.Classes)
			}
			d.Diff()
		}
		for _, d := range oldServer.Take(there) {
			if d.New.Problem == "" {
				t.Errorf("%s is left", d.Name())
			}
		}
		if b.Problem != "" {
			return
		}
		l := &Lock{Hashing: h, Servers: map[string]*Server{"docs": oldServer}}
		data, err := Marshal(l)
		must(t, err)
		if l, err = Parse(data); err != nil {
			t.Fatal(err)
		}
		if left := Compare(l.Servers["docs"], newOffer); len(left) > 0 {
			t.Errorf("%d changes are left: %+v", len(left), left[0])
		}
	})
}
