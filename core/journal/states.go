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

// ResourceID identifies a resource by its server and its URI.
type ResourceID struct{ ServerID, URI string }

// State is the last known content of a resource, whether or not an event has reported it.
type State struct {
	Digest   catalog.Digest // may also be [catalog.Gone] or [catalog.Unread]
	Size     int64
	MimeType string
	When     time.Time // time at which the content was read
	// Text is the text of the resource if the tracker keeps it in memory, otherwise nil. It is not
	// stored with the state; [Log.Contents] stores texts.
	Text *string
}

// ListName identifies one list of a server, such as its list of tools.
type ListName struct {
	ServerID string
	Kind     catalog.Kind
}

// States contains the stored states of resources and lists.
type States struct {
	Resources map[ResourceID]State
	Lists     map[ListName]catalog.List // items contain only keys and digests
}

// StoredList returns a copy of the list with only the keys and digests of its items, which is the
// form in which lists are stored.
func StoredList(list catalog.List) catalog.List {
	items := make(catalog.List, len(list))
	for i, it := range list {
		items[i] = catalog.Item{Key: it.Key, Digest: it.Digest}
	}
	return items
}

// Known returns the state that a resource has after the event. The zero State means that the
// resource was removed. ok is false if the event does not report a state.
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

// KnownList returns the content that a list has after the event. ok is false if the event does not
// include the items of the list.
func KnownList(e *event.Event) (name ListName, list catalog.List, ok bool) {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || p.Items == nil {
		return ListName{}, nil, false
	}
	return ListName{e.ServerID, p.List}, *p.Items, true
}

// KnownLists yields the lists that the log stores together with the event: the list from
// [KnownList], and a [Pending] list if events about single resources are still to follow.
func KnownLists(e *event.Event) iter.Seq2[ListName, catalog.List] {
	return func(yield func(ListName, catalog.List) bool) {
		name, list, ok := KnownList(e)
		if !ok || !yield(name, list) {
			return
		}
		if p := e.Payload.(event.ListChanged); len(p.Follows) > 0 {
			yield(ListName{e.ServerID, Pending}, pendingList(p.Follows))
		}
	}
}

// Pending is the kind of an internal list that records pending events. After a change to a server's
// list of resources, the tracker also publishes an event for each affected resource. Until it has
// appended them, this list contains the URIs of those resources; then the tracker empties it. If
// the tracker stops in between, the next tracker for the server publishes the pending events.
const Pending catalog.Kind = "owed"

// pendingList returns a [Pending] list with the given resource URIs.
func pendingList(uris []string) catalog.List {
	items := make([]catalog.Item, len(uris))
	for i, uri := range uris {
		items[i].Key = uri
	}
	return catalog.NewList(items)
}

// Cursors is the kind of an internal list that stores resumption cursors: one item for each event
// subscription (MCP Events) of a server, with the cursor from which it resumes.
const Cursors catalog.Kind = "cursors"

// Drifts is the kind of an internal list that stores which differences from the lock file were
// published for a server, in a form that their publisher defines. The items have no digests.
const Drifts catalog.Kind = "drifts"

// Instructions is the kind of an internal list that stores the digest of a server's instructions, as
// its only item. The list is empty if the server has none.
const Instructions catalog.Kind = "instructions"

// InstructionsList returns an [Instructions] list with the given digest.
func InstructionsList(d catalog.Digest) catalog.List {
	if d.IsZero() {
		return catalog.List{}
	}
	return catalog.List{{Key: string(Instructions), Digest: d}}
}

// Handshake is the kind of an internal list that stores what a server said of itself when it was last
// connected, as the definition of its only item.
const Handshake catalog.Kind = "handshake"

// Card is the kind of an internal list that stores the digest of a server's card, as its only item. Its
// key stands for the endpoint that the card belongs to. The list is empty if the server has none.
const Card catalog.Kind = "card"

// CursorList encodes cursors, keyed by subscription, as a list of kind [Cursors].
func CursorList(cursors map[string]string) catalog.List {
	var list catalog.List
	for _, key := range slices.Sorted(maps.Keys(cursors)) {
		if pair, err := json.Marshal([2]string{key, cursors[key]}); err == nil { // strings can always be encoded
			list = append(list, catalog.Item{Key: string(pair)})
		}
	}
	return list
}

// CursorsOf decodes the cursors from a list that CursorList returned. It ignores malformed items.
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
