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
	"github.com/mcptrack/mcptrack/core/session"
)

// listItems returns the items as the servers sent them, each with a leading serverId.
// Members keep their order and spelling.
func listItems(kind catalog.Kind, reports []session.Report) ([]json.RawMessage, error) {
	items := []json.RawMessage{}
	for _, r := range reports {
		id, err := json.Marshal(r.Server.ID)
		if err != nil {
			return nil, err
		}
		for _, it := range sorted(kind, r) {
			invalid := ""
			if kind == catalog.Tools {
				invalid = r.Invalid[it.Key]
			}
			item, err := withServer(id, invalid, it.Raw)
			if err != nil {
				return nil, fmt.Errorf("server %s: %w", r.Server.ID, err)
			}
			items = append(items, item)
		}
	}
	return items, nil
}

// withServer adds serverId before the members of an object, and invalid unless it is "".
// Members of these names sent by the server are dropped.
func withServer(id []byte, invalid string, raw json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	_, has := members["serverId"]
	_, claims := members["invalid"]
	if has || claims && invalid != "" {
		delete(members, "serverId")
		if invalid != "" {
			delete(members, "invalid")
		}
		var err error
		if raw, err = json.Marshal(members); err != nil {
			return nil, err
		}
	}
	out := append([]byte(`{"serverId":`), id...)
	if invalid != "" {
		why, err := json.Marshal(invalid)
		if err != nil {
			return nil, err
		}
		out = append(append(out, `,"invalid":`...), why...)
	}
	rest := bytes.TrimSpace(raw)[1:]
	if len(members) > 0 {
		out = append(out, ',')
	}
	return append(out, rest...), nil
}

// sorted returns the items of one kind, ordered by name or URI.
func sorted(kind catalog.Kind, r session.Report) catalog.List {
	return slices.SortedFunc(slices.Values(r.Lists[kind]), func(a, b catalog.Item) int { return strings.Compare(a.Key, b.Key) })
}

// writeNames writes the id of each server, or for each item the server's id, a tab, and
// the URI or name.
func writeNames(env *Env, kind catalog.Kind, reports []session.Report) error {
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
