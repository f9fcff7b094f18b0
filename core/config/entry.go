package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// An entry is the object of one server while it is read.
type entry struct {
	*reader
	object  *hujson.Object
	start   int // offset of its opening brace
	path    pointer
	label   string // how messages name it: Server "docs"
	members map[string]*hujson.ObjectMember
}

func (r *reader) entry(object *hujson.Object, start int, path pointer, label string) *entry {
	return &entry{reader: r, object: object, start: start, path: path, label: label, members: firstMembers(object)}
}

// A field is one key of an entry with its value.
type field struct {
	name  string // as spelled in the file
	key   int    // offset
	value *hujson.Value
	path  pointer
}

// find returns the field of a key under any of its spellings. Two spellings with
// different values are an error.
func (e *entry) find(names ...string) (found field, ok bool) {
	for _, name := range names {
		m := e.members[name]
		if m == nil {
			continue
		}
		f := field{name: name, key: m.Name.StartOffset, value: &m.Value, path: e.path.key(name)}
		if !ok {
			found, ok = f, true
			continue
		}
		if kind(f.value) == kind(found.value) && text(f.value) == text(found.value) {
			continue
		}
		later := f
		if found.key > f.key {
			later = found
		}
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf("%s has both %q and %q with different values", e.label, found.name, f.name), "they mean the same; keep one")
	}
	return found, ok
}

// invalid reports a value of the wrong type.
func (e *entry) invalid(f field, expected, hint string) {
	if hint == "" && kind(f.value) == 'n' {
		hint = "remove the key to get the default"
	}
	e.errorAt(f.value.StartOffset, f.path, CodeType, fmt.Sprintf("%s has invalid %q; expected %s", e.label, f.name, expected), hint)
}

// expand returns the value of a string with its references replaced. Those that
// cannot be are reported, with name as the key.
func (e *entry) expand(v *hujson.Value, path pointer, name string) (string, bool) {
	value, errs := e.expander.expand(text(v))
	for _, err := range errs {
		e.errorAt(v.StartOffset, path, err.code, fmt.Sprintf("%s: %s %s", e.label, quote(name), err.message), err.hint)
	}
	return value, len(errs) == 0
}

// text returns a string value. Not ok means absent or reported.
func (e *entry) text(names ...string) (value string, f field, ok bool) {
	f, ok = e.find(names...)
	if !ok {
		return "", f, false
	}
	if !isString(f.value) {
		e.invalid(f, "string", "")
		return "", f, false
	}
	value, ok = e.expand(f.value, f.path, f.name)
	return value, f, ok
}

// boolean returns a boolean value, or the default if it is absent or wrong.
func (e *entry) boolean(name string, byDefault bool) bool {
	f, ok := e.find(name)
	if !ok {
		return byDefault
	}
	switch kind(f.value) {
	case 't':
		return true
	case 'f':
		return false
	case '"':
		e.invalid(f, "boolean", "write true or false, without quotes")
	case 'n':
		e.invalid(f, "boolean", "")
	default:
		e.invalid(f, "boolean", "write true or false")
	}
	return byDefault
}

// choice returns one of the allowed words, or the default if the value is absent
// or wrong. Allowed maps each spelling to its meaning.
func choice[T ~string](e *entry, byDefault T, allowed map[string]T, names ...string) (T, field, bool) {
	value, f, ok := e.text(names...)
	if !ok {
		return byDefault, f, false
	}
	if word, known := allowed[value]; known {
		return word, f, true
	}
	words := slices.Sorted(maps.Keys(allowed))
	var list strings.Builder
	for i, word := range words {
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(strconv.Quote(word))
	}
	hint := ""
	// Only a value without references may be compared aloud.
	if raw := text(f.value); raw == value {
		if near := nearest(raw, words); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
	}
	e.errorAt(f.value.StartOffset, f.path, CodeValue, fmt.Sprintf("%s has invalid %q; expected one of %s", e.label, f.name, list.String()), hint)
	return byDefault, f, false
}

// duration returns a duration of at least the least, or the default.
func (e *entry) duration(name string, byDefault, least time.Duration) time.Duration {
	f, ok := e.find(name)
	if !ok {
		return byDefault
	}
	const units = `write the unit: "30s", "500ms" or "2m"`
	if !isString(f.value) {
		hint := ""
		if kind(f.value) == '0' {
			hint = units
		}
		e.invalid(f, "duration", hint)
		return byDefault
	}
	value, ok := e.expand(f.value, f.path, f.name)
	if !ok {
		return byDefault
	}
	if !isDuration(value) {
		e.errorAt(f.value.StartOffset, f.path, CodeDuration, fmt.Sprintf("%s has invalid %q; expected duration", e.label, f.name), units)
		return byDefault
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < least {
		bound := fmt.Sprintf("at least %s", least)
		if err != nil {
			bound = "less than 292 years"
		}
		e.errorAt(f.value.StartOffset, f.path, CodeRange, fmt.Sprintf("%s has invalid %q; expected %s", e.label, f.name, bound), "")
		return byDefault
	}
	return d
}

// strings returns a list of strings. Each bad element is reported in the words of
// badElement; an element that cannot be expanded is left out of the result.
func (e *entry) strings(name string, badElement func(index int) string) (values []string, raw []*hujson.Value) {
	f, ok := e.find(name)
	if !ok {
		return nil, nil
	}
	list, ok := f.value.Value.(*hujson.Array)
	if !ok {
		hint := ""
		if isString(f.value) {
			hint = `write a list: ["…"]`
		}
		e.invalid(f, "array of strings", hint)
		return nil, nil
	}
	for i := range list.Elements {
		v := &list.Elements[i]
		if !isString(v) {
			e.errorAt(v.StartOffset, f.path.index(i), CodeType, badElement(i), "")
			continue
		}
		if value, ok := e.expand(v, f.path.index(i), fmt.Sprintf("%s[%d]", name, i)); ok {
			values, raw = append(values, value), append(raw, v)
		}
	}
	return values, raw
}

// present reports whether the key is there with something in it: an empty list
// or object says nothing.
func (e *entry) present(name string) (field, bool) {
	m := e.members[name]
	if m == nil {
		return field{}, false
	}
	switch t := m.Value.Value.(type) {
	case *hujson.Object:
		if len(t.Members) == 0 {
			return field{}, false
		}
	case *hujson.Array:
		if len(t.Elements) == 0 {
			return field{}, false
		}
	}
	return field{name: name, key: m.Name.StartOffset, value: &m.Value, path: e.path.key(name)}, true
}
