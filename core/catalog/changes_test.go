package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func tool(t testing.TB, raw string) Item {
	t.Helper()
	it, err := NewItem(Tools, json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func TestChanges(t *testing.T) {
	t.Parallel()
	const from = `{"name":"t","description":"adds","inputSchema":{"type":"object","required":["a"],
		"properties":{"a":{"type":"string"},"old/er":{"type":"number"}}},"x-n":1,
		"arguments":[{"name":"city","required":true},{"name":"unit"}]}`
	for name, c := range map[string]struct {
		to   string
		want []string
	}{
		"nothing": {from, nil},
		"only the order of keys": {`{"x-n":1,"description":"adds","name":"t","arguments":[{"required":true,"name":"city"},{"name":"unit"}],
			"inputSchema":{"properties":{"old/er":{"type":"number"},"a":{"type":"string"}},"required":["a"],"type":"object"}}`, nil},
		"several changes": {`{"name":"t","description":"adds!","title":"Add","inputSchema":{"type":"object","required":["a","b"],
			"properties":{"a":{"type":"integer"},"b":{"type":"string"}}},"x-n":1.0,
			"arguments":[{"name":"country"},{"name":"unit"},{"name":"city","required":false}]}`, []string{
			"added /arguments/0", "changed /arguments/2/required", "changed /description",
			"changed /inputSchema/properties/a/type", "added /inputSchema/properties/b", "removed /inputSchema/properties/old~1er",
			"changed /inputSchema/required", "added /title", "changed /x-n"}},
		"another type": {`{"name":"t","description":["adds"],"inputSchema":true,"x-n":1,"arguments":[{"name":"city","required":true},{"name":"unit"}]}`,
			[]string{"changed /description", "changed /inputSchema"}},
		"another order": {strings.Replace(from, `{"name":"city","required":true},{"name":"unit"}`, `{"name":"unit"},{"name":"city","required":true}`, 1),
			[]string{"changed /arguments"}},
		"an argument taken away": {strings.Replace(from, `{"name":"city","required":true},`, "", 1), []string{"removed /arguments/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes, more := Changes(tool(t, from), tool(t, c.to), 100)
			var got []string
			for _, ch := range changes {
				got = append(got, string(ch.Op)+" "+ch.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || more != 0 {
				t.Errorf("%d more; -want +got:\n%s", more, diff)
			}
		})
	}
}

func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	deep := func(leaf string) string {
		return `{"name":"t","s":` + strings.Repeat(`{"a":`, 200) + leaf + strings.Repeat("}", 200) + "}"
	}
	changes, _ := Changes(tool(t, deep("1")), tool(t, deep("2")), 10)
	if len(changes) != 1 || strings.Count(changes[0].Path, "/") != maxDepth {
		t.Errorf("a deep change is %v", changes)
	}
	wide := func(v string) string {
		var b strings.Builder
		for i := range 500 {
			b.WriteString(`,"` + strings.Repeat("k", i+1) + `":` + v)
		}
		return `{"name":"t"` + b.String() + "}"
	}
	changes, more := Changes(tool(t, wide("1")), tool(t, wide("2")), 20)
	if len(changes) != 20 || more != 480 {
		t.Errorf("%d changes and %d more", len(changes), more)
	}
	long := `{"name":"t","` + strings.Repeat("n", 100*maxPath) + `":1}`
	if changes, _ = Changes(tool(t, `{"name":"t"}`), tool(t, long), 1); len(changes[0].Path) > 2*maxPath {
		t.Errorf("a path of %d bytes", len(changes[0].Path))
	}
	if f := (Change{Added, "/a~1b~0/c"}).Field(); f != "a/b~" {
		t.Errorf("field %q", f)
	}
}

// Two descriptors differ in some place exactly if their digests differ, and the reported paths are
// right.
func TestChangesAgreeWithDigests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var value func(depth int) *rapid.Generator[any]
		value = func(depth int) *rapid.Generator[any] {
			plain := rapid.OneOf(rapid.Int().AsAny(), rapid.StringMatching("[a-c/~]{0,2}").AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
			if depth == 0 {
				return plain
			}
			return rapid.OneOf(plain,
				rapid.MapOfN(rapid.StringMatching("[a-c/~]{1,2}"), value(depth-1), 0, 3).AsAny(),
				rapid.SliceOfN(value(depth-1), 0, 3).AsAny())
		}
		item := func(label string) Item {
			m := rapid.MapOfN(rapid.StringMatching("[a-c/~]{1,2}"), value(3), 0, 3).Draw(t, label)
			m["name"] = "t"
			raw, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			it, err := NewItem(Tools, raw)
			if err != nil {
				t.Fatal(err)
			}
			return it
		}
		from, to := item("from"), item("to")
		changes, more := Changes(from, to, 1000)
		if (len(changes) > 0) != (from.Digest != to.Digest) || more != 0 {
			t.Fatalf("%v, digests equal: %t", changes, from.Digest == to.Digest)
		}
		if !slices.IsSortedFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) }) {
			t.Fatalf("not sorted: %v", changes)
		}
		back, _ := Changes(to, from, 1000)
		if len(back) != len(changes) {
			t.Fatalf("there %v, back %v", changes, back)
		}
	})
}

// The versions of a change have both digests, and are bounded.
func TestItemVersions(t *testing.T) {
	from := list(t, Tools, `{"name":"gone"}`, `{"name":"same"}`, `{"name":"other","title":"A"}`)
	to := list(t, Tools, `{"name":"new"}`, `{"name":"same"}`, `{"name":"other","title":"B"}`)
	of := func(l List, key string) Digest { it, _ := l.Get(key); return it.Digest }
	want := []ItemVersion{{"gone", Digest{}, of(from, "gone")}, {"new", of(to, "new"), Digest{}}, {"other", of(to, "other"), of(from, "other")}}
	if diff := cmp.Diff(want, ItemVersions(from, to, Diff(from, to))); diff != "" {
		t.Error(diff)
	}
	var many List
	for i := range MaxItemVersions {
		many = append(many, Item{Key: fmt.Sprintf("t%05d", i), Digest: Digest{1}})
	}
	delta := Diff(from, NewList(many))
	delta.Changed = []string{"other"}
	got := ItemVersions(from, NewList(many), delta)
	if len(got) != MaxItemVersions || got[0].Key != "other" || got[1].Key != "t00000" {
		t.Errorf("%d versions, the first %+v", len(got), got[:2])
	}
}

// The digest of a text is the fingerprint of its definition.
func TestText(t *testing.T) {
	for _, text := range []string{"a", "<b> & \u2028 \"c\"\n"} {
		definition, digest := Text(text)
		if d, err := Fingerprint(json.RawMessage(definition)); err != nil || d != digest {
			t.Errorf("%q: %v, fingerprint %v, %v", definition, digest, d, err)
		}
	}
	if definition, digest := Text(""); definition != "" || !digest.IsZero() {
		t.Errorf("of nothing: %q, %v", definition, digest)
	}
}
