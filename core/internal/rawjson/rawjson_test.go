package rawjson

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Members and elements are found as encoding/json finds them, whatever their values contain.
func TestMembers(t *testing.T) {
	t.Parallel()
	values := []string{`1`, `-1.5e3`, `true`, `null`, `""`, `"a\"b"`, `"\\"`, `"\\\""`, `"}],{["`, `{}`, `[]`, `{"a":[1,{"b":"]"}]}`, `[[],{},"x",[1,2]]`, `"ü\u00e9\ud83d\ude00"`, "\"\xff\""}
	names := []string{`a`, ``, `ü`, `\"`, `\\`, `\u0061b`, "\xff", `{`, `,`}
	space := []string{"", " ", "\n\t ", "\r\n"}
	for i := range 4000 {
		pick := func(of []string, n int) string { return of[(i*7+n*13+i/(n+1))%len(of)] }
		var members, elements []string
		for n := range i % 6 {
			gap := pick(space, n)
			elements = append(elements, gap+pick(values, n)+pick(space, n+1))
			members = append(members, gap+`"`+pick(names, n)+`"`+gap+`:`+elements[n])
		}
		list, object := "["+strings.Join(elements, ",")+"]", "{"+strings.Join(members, ",")+"}"
		var wantList []json.RawMessage
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(list), &wantList) != nil || json.Unmarshal([]byte(object), &want) != nil {
			t.Fatalf("%s %s", list, object)
		}
		equal := func(a, b json.RawMessage) bool { return string(a) == string(b) }
		if got := Elements([]byte(list)); !slices.EqualFunc(got, wantList, equal) {
			t.Errorf("%s has the elements %q", list, got)
		}
		got := map[string]json.RawMessage{}
		for _, m := range Members([]byte(object)) {
			got[m.Name] = m.Value // the last of several counts, as in encoding/json
			if !strings.HasPrefix(object[m.At:], string(m.Value)) {
				t.Errorf("%s: the value of %q is not at %d", object, m.Name, m.At)
			}
		}
		if !maps.EqualFunc(got, want, equal) {
			t.Errorf("%s has the members %q, want %q", object, got, want)
		}
	}
	for _, other := range []string{`[]`, `1`, `"{}"`, ` null`, ``} {
		if got := Members([]byte(other)); got != nil {
			t.Errorf("%s has the members %v", other, got)
		}
	}
	for _, other := range []string{`{}`, `1`, `"[]"`, ``} {
		if got := Elements([]byte(other)); got != nil {
			t.Errorf("%s has the elements %v", other, got)
		}
	}
}
