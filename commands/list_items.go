package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// listItems are the items as the servers sent them, each with its serverId in
// front. Members keep their order and spelling.
func listItems(kind catalog.Kind, reports []tracker.Report) ([]json.RawMessage, error) {
	items := []json.RawMessage{}
	for _, r := range reports {
		id, err := json.Marshal(r.Server.ID)
		if err != nil {
			return nil, err
		}
		for _, it := range sorted(kind, r) {
			item, err := withServer(id, it.Raw)
			if err != nil {
				return nil, fmt.Errorf("server %s: %w", r.Server.ID, err)
			}
			items = append(items, item)
		}
	}
	return items, nil
}

// withServer puts serverId before the members of an object, and leaves out a
// member of that name that the server sent itself.
func withServer(id []byte, raw json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	if _, has := members["serverId"]; has {
		delete(members, "serverId")
		var err error
		if raw, err = json.Marshal(members); err != nil {
			return nil, err
		}
	}
	out := append([]byte(`{"serverId":`), id...)
	rest := bytes.TrimSpace(raw)[1:]
	if len(members) > 0 {
		out = append(out, ',')
	}
	return append(out, rest...), nil
}

// sorted are the items of one kind by name or URI.
func sorted(kind catalog.Kind, r tracker.Report) catalog.List {
	return slices.SortedFunc(slices.Values(r.Lists[kind]), func(a, b catalog.Item) int { return strings.Compare(a.Key, b.Key) })
}

// writeNames writes the ids of the servers, or SERVER, a tab, and the URI or name
// of each item.
func writeNames(env *Env, kind catalog.Kind, reports []tracker.Report) error {
	var b strings.Builder
	for _, r := range reports {
		id := printable.Line(r.Server.ID, 0)
		if kind == "" {
			b.WriteString(id + "\n")
		}
		for _, it := range sorted(kind, r) {
			b.WriteString(id + "\t" + printable.Line(it.Key, 0) + "\n")
		}
	}
	_, err := io.WriteString(env.Out, b.String())
	return err
}
