package pending

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/event"
)

// foldKey identifies items that can be merged: a newer item makes an older one with the same
// key unnecessary.
type foldKey struct {
	server, uri string
	what        event.Type
	name        string // of a prompt or tool, which has no URI
}

func (i *Item[N]) key() foldKey {
	if i.Event == nil {
		return foldKey{what: "note", name: i.Key}
	}
	k := foldKey{server: i.Event.ServerID, uri: i.Event.ResourceURI, what: i.Event.Type()}
	switch p := i.Event.Payload.(type) {
	case event.PromptContent:
		k.name = p.Name
	case event.ToolResult:
		k.name = p.Name
	}
	return k
}

// fold merges items into newer ones of the same key and returns what is left, in the order of
// the newer ones, and how many events were merged. An item that a caller waits for is not
// merged.
func fold[N any](items []*Item[N]) (kept []*Item[N], folded int) {
	newest := make(map[foldKey]*Item[N], len(items))
	for n := len(items) - 1; n >= 0; n-- {
		it := items[n]
		if it.Done != nil {
			kept = append(kept, it)
			continue
		}
		k := it.key()
		newer, ok := newest[k]
		if !ok {
			newest[k] = it
			kept = append(kept, it)
			continue
		}
		if it.Event != nil {
			newer.Event = merge(it.Event, newer.Event)
			folded++
		}
	}
	slices.Reverse(kept)
	return kept, folded
}

// merge returns the newer event with the members that only the older one has. It changes
// neither, because events are shared.
func merge(older, newer *event.Event) *event.Event {
	e := *newer
	if e.Received.IsZero() || !older.Received.IsZero() && older.Received.Before(e.Received) {
		e.Received = older.Received
	}
	switch now := newer.Payload.(type) {
	case event.ResourceUpdated:
		was, _ := older.Payload.(event.ResourceUpdated)
		switch {
		case was.Digest.IsZero() || now.Digest.IsZero():
		case was.PreviousDigest.IsZero():
			now.PreviousDigest, now.PreviousText, now.Changed = was.PreviousDigest, was.PreviousText, was.Changed
		default:
			changed := now.Digest != was.PreviousDigest
			now.PreviousDigest, now.PreviousText, now.Changed = was.PreviousDigest, was.PreviousText, &changed
		}
		e.Payload = now
	case event.ServerState:
		if was, ok := older.Payload.(event.ServerState); ok {
			now.Previous = was.Previous
			e.Payload = now
		}
	case event.ListChanged:
		if was, ok := older.Payload.(event.ListChanged); ok && now.List == was.List {
			e.Payload, e.Exported = mergeLists(was, now), mergeNames(older.Exported, newer.Exported, now)
		}
	}
	return &e
}

// mergeNames combines the exported names of two changes of a list; now is the newer one.
func mergeNames(older, newer map[string]string, now event.ListChanged) map[string]string {
	if older == nil || newer == nil {
		return nil
	}
	names := maps.Clone(older)
	for _, key := range slices.Concat(now.Added, now.Removed, now.Changed) {
		delete(names, key)
	}
	maps.Copy(names, newer)
	return names
}

// mergeLists combines two changes of one list. An entry that was added and removed ends as
// removed, and one that was removed and added as changed.
func mergeLists(was, now event.ListChanged) event.ListChanged {
	type fate struct{ before, after bool }
	fates := map[string]fate{}
	for _, l := range []event.ListChanged{was, now} {
		note := func(keys []string, before, after bool) {
			for _, k := range keys {
				f, seen := fates[k]
				if !seen {
					f.before = before
				}
				f.after = after
				fates[k] = f
			}
		}
		note(l.Removed, true, false)
		note(l.Added, false, true)
		note(l.Changed, true, true)
	}
	sum := event.ListChanged{List: now.List, Error: now.Error, Items: cmp.Or(now.Items, was.Items)}
	sum.Follows = slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.Follows, now.Follows))))
	for k, f := range fates {
		switch {
		case f.before && f.after:
			sum.Changed = append(sum.Changed, k)
		case f.after:
			sum.Added = append(sum.Added, k)
		case f.before:
			sum.Removed = append(sum.Removed, k)
		}
	}
	slices.Sort(sum.Added)
	slices.Sort(sum.Removed)
	slices.Sort(sum.Changed)
	return sum
}
