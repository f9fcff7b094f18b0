package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Op describes how a value in a descriptor changed.
type Op string

// The possible operations.
const (
	Added   Op = "added"
	Removed Op = "removed"
	Changed Op = "changed"
)

// Change describes one difference between two descriptors, at the innermost value that has a path.
type Change struct {
	Op Op `json:"op"`
	// Path is a JSON Pointer (RFC 6901), such as /inputSchema/properties/path/type. It refers to
	// the old descriptor for a removed value, and otherwise to the new descriptor.
	Path string `json:"path"`
}

// Field returns the top-level member of the descriptor that contains the change, such as
// "inputSchema".
func (c Change) Field() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/"), "/")
	return unescape(name)
}

// Limits on a comparison. A difference nested more deeply is reported as a change to the enclosing
// value.
const (
	maxDepth = 32  // maximum nesting depth that is compared
	maxPath  = 256 // maximum length of a JSON Pointer in bytes
)

// Changes compares two descriptors member by member. It returns up to limit changes, sorted by
// path, and the number of further changes. Array elements are matched by name if all of them have
// one (arguments of prompts), and otherwise by position; an array of plain values (required, enum)
// is compared as one value.
func Changes(from, to Item, limit int) (changes []Change, more int) {
	a, errA := decode(from.Raw)
	b, errB := decode(to.Raw)
	if errA != nil || errB != nil {
		return nil, 0 // Raw was not created by NewItem
	}
	for _, item := range []any{a, b} {
		if members, ok := item.(map[string]any); ok {
			dropNull(members)
		}
	}
	c := comparison{limit: limit}
	c.compare("", a, b, 0)
	sort.SliceStable(c.changes, func(i, j int) bool { return c.changes[i].Path < c.changes[j].Path })
	return c.changes, c.found - len(c.changes)
}

// dropNull removes the members of an item that are null: they mean the same as absent ones.
func dropNull(members map[string]any) {
	maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
}

// decode decodes the JSON of an item.
func decode(raw json.RawMessage) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // keep the exact digits of numbers, which are part of the digest
	err = dec.Decode(&v)
	return v, err
}

// comparison walks two JSON values in a fixed order and records the first changes, up to a limit.
type comparison struct {
	limit   int
	changes []Change
	found   int // total number of changes, recorded or not
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
		c.note(Changed, path) // only the order of the elements differs
	}
}

// plain reports whether an array is non-empty and contains no objects or arrays.
func plain(array []any) bool {
	return !slices.ContainsFunc(array, func(v any) bool {
		switch v.(type) {
		case map[string]any, []any:
			return true
		}
		return false
	}) && len(array) > 0
}

// names maps the names of the objects in an array to their positions. It returns nil unless all
// elements are objects with unique names.
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

// escape returns name as a JSON Pointer reference token (RFC 6901, section 3), truncated if it is
// too long.
func escape(name string) string {
	if len(name) > maxPath {
		name = strings.ToValidUTF8(name[:maxPath], "") + "…"
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// At returns the value in a decoded JSON document to which a JSON Pointer leads, such as /a/0 or its equal a/0.
func At(v any, pointer string) (at any, found bool) {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch in := v.(type) {
		case map[string]any:
			v, found = in[unescape(token)]
		case []any:
			i, err := strconv.Atoi(token)
			if found = err == nil && i >= 0 && i < len(in); found {
				v = in[i]
			}
		default:
			found = false
		}
		if !found {
			return nil, false
		}
	}
	return v, true
}

func unescape(token string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(token) }

// ItemChange describes how one item of a list differs from its previous version. Its slices are
// never nil.
type ItemChange struct {
	Key     string   `json:"key"`            // the URI, URI template or name
	Fields  []string `json:"fields"`         // names of the members that differ, sorted
	Changes []Change `json:"changes"`        // the differences between the two versions
	More    int      `json:"more,omitempty"` // number of changes omitted from Changes
}

const (
	// MaxItemChanges limits the total number of Changes in the result of [ItemChanges].
	MaxItemChanges = 200
	// maxChangesPerItem limits the number of Changes for one item.
	maxChangesPerItem = 20
)

// ItemChanges compares the items with the given keys in two versions of a list. It stops after a
// total of [MaxItemChanges] changes, so the last keys may be missing from the result. Keys that do
// not exist in the older list are skipped.
func ItemChanges(from, to List, keys []string) []ItemChange {
	var out []ItemChange
	room := MaxItemChanges
	for _, key := range keys {
		if room == 0 {
			break
		}
		before, _ := from.Get(key)
		after, _ := to.Get(key)
		if before.Raw == nil {
			continue
		}
		c := ItemChange{Key: key, Fields: []string{}, Changes: []Change{}}
		changes, more := Changes(before, after, min(room, maxChangesPerItem))
		c.Changes, c.More = append(c.Changes, changes...), more
		room -= len(changes)
		for _, change := range changes {
			c.Fields = append(c.Fields, change.Field())
		}
		slices.Sort(c.Fields)
		c.Fields = slices.Compact(c.Fields)
		out = append(out, c)
	}
	return out
}

// ItemVersion identifies the definition of one item of a list before and after a change.
type ItemVersion struct {
	Key            string `json:"key"`                     // the URI, URI template or name
	Digest         Digest `json:"digest,omitzero"`         // zero if the item was removed
	PreviousDigest Digest `json:"previousDigest,omitzero"` // zero if the item was added, or if it is unknown
}

// MaxItemVersions limits the result of [ItemVersions].
const MaxItemVersions = 1000

// ItemVersions returns the versions of the items that differ between two versions of a list, sorted by
// key. If there are more than [MaxItemVersions], the versions of removed items are left out first, then
// the versions of added items.
func ItemVersions(from, to List, delta Delta) []ItemVersion {
	keys := slices.Concat(delta.Changed, delta.Added, delta.Removed)
	keys = keys[:min(len(keys), MaxItemVersions)]
	slices.Sort(keys)
	var out []ItemVersion
	for _, key := range keys {
		before, _ := from.Get(key)
		after, _ := to.Get(key)
		out = append(out, ItemVersion{key, after.Digest, before.Digest})
	}
	return out
}
