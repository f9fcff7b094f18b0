package catalog

import "slices"

// ItemChange says how one descriptor of a list differs from its previous version.
// Its slices are never nil.
type ItemChange struct {
	Key     string   `json:"key"`            // the URI, URI template or name
	Fields  []string `json:"fields"`         // the members that differ, sorted
	Changes []Change `json:"changes"`        // the places, as deep as they can be named
	More    int      `json:"more,omitempty"` // places that were left out
}

const (
	// MaxItemChanges bounds the Changes of all items that [ItemChanges] returns.
	MaxItemChanges = 200
	// maxChangesPerItem bounds the Changes of one item.
	maxChangesPerItem = 20
)

// ItemChanges compares the items with the given keys in two versions of a list. It
// stops after [MaxItemChanges] changes in all, so the last keys may have no entry. A key
// that is not in the list from has no entry either.
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
