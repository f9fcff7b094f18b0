package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Op says how one member of a descriptor differs.
type Op string

// The ops.
const (
	Added   Op = "added"
	Removed Op = "removed"
	Changed Op = "changed"
)

// Change is one place in which two descriptors differ: the innermost value that can be
// named.
type Change struct {
	Op Op `json:"op"`
	// Path is a JSON Pointer (RFC 6901), such as /inputSchema/properties/path/type:
	// into the old descriptor for what was removed, else into the new one.
	Path string `json:"path"`
}

// Field is the member of the descriptor that the change is in: "inputSchema".
func (c Change) Field() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/"), "/")
	return unescape(name)
}

// Bounds of a comparison: a difference beyond them is reported as a change of the whole
// value.
const (
	maxDepth = 32  // levels of nested values
	maxPath  = 256 // bytes of a pointer
)

// Changes compares two descriptors member by member and returns up to limit
// changes, in order of their paths, and how many more there are. Elements of
// arrays are matched by their names where all have one (arguments of prompts), else
// by position; arrays of plain values (required, enum) are one value.
func Changes(from, to Item, limit int) (changes []Change, more int) {
	a, errA := decode(Lossless(from.Raw))
	b, errB := decode(Lossless(to.Raw))
	if errA != nil || errB != nil {
		return nil, 0 // not the Raw of an Item
	}
	c := comparison{limit: limit}
	c.compare("", a, b, 0)
	slices.SortStableFunc(c.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return c.changes, c.found - len(c.changes)
}

func decode(lossless json.RawMessage) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(lossless))
	dec.UseNumber() // digits count, as they do for the digest
	err = dec.Decode(&v)
	return v, err
}

// comparison walks two values in a fixed order and keeps the first changes.
type comparison struct {
	limit   int
	changes []Change
	found   int // number of all changes, kept or not
}

func (c *comparison) note(op Op, path string) {
	c.found++
	if len(c.changes) < c.limit {
		c.changes = append(c.changes, Change{op, path})
	}
}

func (c *comparison) compare(path string, from, to any, depth int) {
	if depth < maxDepth && len(path) < maxPath {
		switch a := from.(type) {
		case map[string]any:
			if b, ok := to.(map[string]any); ok {
				c.objects(path, a, b, depth)
				return
			}
		case []any:
			if b, ok := to.([]any); ok && !plain(a) && !plain(b) {
				c.arrays(path, a, b, depth)
				return
			}
		}
	}
	if !reflect.DeepEqual(from, to) {
		c.note(Changed, path)
	}
}

func (c *comparison) objects(path string, from, to map[string]any, depth int) {
	both := maps.Clone(from)
	maps.Copy(both, to)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		at := path + "/" + escape(name)
		a, had := from[name]
		b, has := to[name]
		switch {
		case !has:
			c.note(Removed, at)
		case !had:
			c.note(Added, at)
		default:
			c.compare(at, a, b, depth+1)
		}
	}
}

func (c *comparison) arrays(path string, from, to []any, depth int) {
	was, is := names(from), names(to)
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	if was == nil || is == nil {
		for i := range max(len(from), len(to)) {
			switch {
			case i >= len(to):
				c.note(Removed, at(i))
			case i >= len(from):
				c.note(Added, at(i))
			default:
				c.compare(at(i), from[i], to[i], depth+1)
			}
		}
		return
	}
	before := c.found
	for i, v := range from {
		if _, ok := is[nameOf(v)]; !ok {
			c.note(Removed, at(i))
		}
	}
	for j, v := range to {
		if i, ok := was[nameOf(v)]; ok {
			c.compare(at(j), from[i], v, depth+1)
		} else {
			c.note(Added, at(j))
		}
	}
	if c.found == before && !reflect.DeepEqual(from, to) {
		c.note(Changed, path) // nothing but the order
	}
}

// plain reports whether an array has elements, none of which is an object or array.
func plain(array []any) bool {
	return !slices.ContainsFunc(array, func(v any) bool {
		switch v.(type) {
		case map[string]any, []any:
			return true
		}
		return false
	}) && len(array) > 0
}

// names maps the names of an array's objects to their positions. It returns nil unless
// all elements are objects with unique names.
func names(array []any) map[string]int {
	out := make(map[string]int, len(array))
	for i, v := range array {
		m, _ := v.(map[string]any)
		name, ok := m["name"].(string)
		if _, twice := out[name]; !ok || twice {
			return nil
		}
		out[name] = i
	}
	return out
}

func nameOf(v any) string {
	name, _ := v.(map[string]any)["name"].(string)
	return name
}

// escape returns the reference token of a name (RFC 6901, 3), truncated if it is long.
func escape(name string) string {
	if len(name) > maxPath {
		name = strings.ToValidUTF8(name[:maxPath], "") + "…"
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func unescape(token string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(token) }
