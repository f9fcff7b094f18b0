package journal

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// ResourceID identifies a resource of a server.
type ResourceID struct{ ServerID, URI string }

// State is the last known content of a resource, published or not.
type State struct {
	Digest   catalog.Digest // or [catalog.Gone], or [catalog.Unread]
	Size     int64
	MimeType string
	When     time.Time // when it was read
	// Text is the content itself if the tracker keeps it. It is not stored with the state: see
	// [Log.Contents].
	Text *string
}

// ListName identifies a list of a server.
type ListName struct {
	ServerID string
	Kind     catalog.Kind
}

// States are the stored states of resources and lists.
type States struct {
	Resources map[ResourceID]State
	Lists     map[ListName]catalog.List // the items have only keys and digests
}

// StoredList returns a copy of a list with keys and digests only, as it is stored.
func StoredList(list catalog.List) catalog.List {
	items := make(catalog.List, len(list))
	for i, it := range list {
		items[i] = catalog.Item{Key: it.Key, Digest: it.Digest}
	}
	return items
}

// Known returns the state of a resource after an event. The zero State means that the resource is
// gone. ok is false if the event does not tell the state.
func Known(e *event.Event) (r ResourceID, st State, ok bool) {
	r = ResourceID{e.ServerID, e.ResourceURI}
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		st = State{Digest: p.Digest, MimeType: p.MimeType, When: e.Timestamp}
		if p.Size != nil {
			st.Size = *p.Size
		}
		return r, st, !p.Digest.IsZero()
	case event.ResourceRemoved:
		if p.Missing {
			return r, State{Digest: catalog.Gone(), When: e.Timestamp}, true
		}
		return r, State{When: e.Timestamp}, true
	}
	return r, State{}, false
}

// KnownList returns the list after an event; ok is false if the publisher of the event did not say.
func KnownList(e *event.Event) (name ListName, list catalog.List, ok bool) {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || p.Items == nil {
		return ListName{}, nil, false
	}
	return ListName{e.ServerID, p.List}, *p.Items, true
}

// KnownLists yields what is remembered in the step that stores the event: the list of [KnownList]
// and the resources that are then [Owed].
func KnownLists(e *event.Event) iter.Seq2[ListName, catalog.List] {
	return func(yield func(ListName, catalog.List) bool) {
		name, list, ok := KnownList(e)
		if !ok || !yield(name, list) {
			return
		}
		if p := e.Payload.(event.ListChanged); len(p.Follows) > 0 {
			yield(ListName{e.ServerID, Owed}, OwedList(p.Follows))
		}
	}
}

// Owed is the kind of the list of resources whose own events may be missing although the change of
// the list of resources is stored. The next tracker of the server publishes them. A tracker empties
// the list after it has appended them.
const Owed catalog.Kind = "owed"

// OwedList returns resources as an [Owed] list.
func OwedList(uris []string) catalog.List {
	items := make([]catalog.Item, len(uris))
	for i, uri := range uris {
		items[i].Key = uri
	}
	return catalog.NewList(items)
}

// Cursors is the kind of the list of cursors with which the event subscriptions of a server (MCP
// Events) are resumed, one item for each subscription.
const Cursors catalog.Kind = "cursors"

// CursorList returns cursors, keyed by subscription, as a list.
func CursorList(cursors map[string]string) catalog.List {
	var list catalog.List
	for _, key := range slices.Sorted(maps.Keys(cursors)) {
		if pair, err := json.Marshal([2]string{key, cursors[key]}); err == nil { // strings always encode
			list = append(list, catalog.Item{Key: string(pair)})
		}
	}
	return list
}

// CursorsOf returns the cursors in a list from CursorList.
func CursorsOf(list catalog.List) map[string]string {
	cursors := map[string]string{}
	for _, it := range list {
		var pair [2]string
		if json.Unmarshal([]byte(it.Key), &pair) == nil && pair[0] != "" {
			cursors[pair[0]] = pair[1]
		}
	}
	return cursors
}
