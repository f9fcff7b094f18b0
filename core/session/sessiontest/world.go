package sessiontest

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Change is one change to a resource.
type Change struct {
	Time time.Time
	URI  string
	Text string // empty after a removal
	Gone bool
}

// Resource is the content and metadata of one resource.
type Resource struct {
	Text, MimeType string
	Blob           []byte // used instead of Text if set
}

// world contains the resources and lists that the server offers, and the changes to them.
type world struct {
	mu        sync.Mutex
	resources map[string]Resource
	items     map[catalog.Kind]map[string]json.RawMessage
	capable   map[catalog.Kind]map[string]json.RawMessage // listed only for clients that answer requests
	truth     []Change
}

// SetQuietly works like Set, but sends no notification. It reports whether uri is new.
func (w *world) SetQuietly(uri, text string) (added bool) {
	return w.SetResource(uri, Resource{Text: text, MimeType: "text/plain"})
}

// SetResource works like SetQuietly, but accepts any resource.
func (w *world) SetResource(uri string, r Resource) (added bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.resources[uri]
	w.resources[uri] = r
	w.truth = append(w.truth, Change{Time: time.Now(), URI: uri, Text: r.Text})
	return !known
}

// RemoveQuietly works like Remove, but sends no notification.
func (w *world) RemoveQuietly(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.resources, uri)
	w.truth = append(w.truth, Change{Time: time.Now(), URI: uri, Gone: true})
}

func (w *world) resource(uri string) (Resource, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.resources[uri]
	return r, ok
}

// SetList replaces the items of a list without sending a notification. Items are maps or raw JSON and
// must contain their key member. Resources that are set so are listed instead of those with a content,
// which can still be read.
func (w *world) SetList(k catalog.Kind, items ...any) {
	list := keyed(k, items)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items[k] = list
}

// SetListForCapable replaces the additional items that are listed for clients that declare
// sampling, elicitation or roots.
func (w *world) SetListForCapable(k catalog.Kind, items ...any) {
	list := keyed(k, items)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.capable[k] = list
}

func keyed(k catalog.Kind, items []any) map[string]json.RawMessage {
	list := make(map[string]json.RawMessage, len(items))
	for i, it := range items {
		raw, err := json.Marshal(it)
		if err != nil {
			panic(err)
		}
		var m map[string]any
		_ = json.Unmarshal(raw, &m)
		key, _ := m[k.KeyField()].(string)
		if key == "" {
			key = "\x00" + string(rune('a'+i)) // deliberately malformed
		}
		list[key] = raw
	}
	return list
}

// Keys returns the sorted keys of a list.
func (w *world) Keys(k catalog.Kind) (keys []string) {
	for _, raw := range w.list(k, false) {
		if it, err := catalog.NewItem(k, raw); err == nil {
			keys = append(keys, it.Key)
		}
	}
	return keys
}

// Truth returns all changes to resources, in order.
func (w *world) Truth() []Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.truth)
}

func (w *world) list(k catalog.Kind, capable bool) []json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	items := []json.RawMessage{}
	if k == catalog.Resources && w.items[k] == nil {
		for _, uri := range slices.Sorted(maps.Keys(w.resources)) {
			raw, _ := json.Marshal(map[string]any{"uri": uri, "name": uri, "mimeType": w.resources[uri].MimeType})
			items = append(items, raw)
		}
		return items
	}
	all := maps.Clone(w.items[k])
	if capable {
		maps.Copy(all, w.capable[k])
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		items = append(items, all[key])
	}
	return items
}
