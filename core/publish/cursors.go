package publish

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
)

// cursorsKind is the kind of list under which the journal stores where to resume the
// subscriptions to events of a server (MCP Events), one item for each. So they are stored where
// lists are, in a folder or on a cluster, under the same lease.
const cursorsKind catalog.Kind = "cursors"

func cursorsToList(cursors map[string]string) catalog.List {
	var list catalog.List
	for _, key := range slices.Sorted(maps.Keys(cursors)) {
		if pair, err := json.Marshal([2]string{key, cursors[key]}); err == nil { // strings always encode
			list = append(list, catalog.Item{Key: string(pair)})
		}
	}
	return list
}

func cursorsFromList(list catalog.List) map[string]string {
	cursors := map[string]string{}
	for _, it := range list {
		var pair [2]string
		if json.Unmarshal([]byte(it.Key), &pair) == nil && pair[0] != "" {
			cursors[pair[0]] = pair[1]
		}
	}
	return cursors
}

// cursors returns where to resume the subscriptions to events of a server, as last stored.
func (m *memory) cursors(server string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.known[server]; p != nil {
		return maps.Clone(p.cursors)
	}
	return nil
}

// rememberCursors stores the cursors of a server, if they changed. m.mu must be held.
func (m *memory) rememberCursors(server string, cursors map[string]string, to remembers) error {
	if maps.Equal(m.atEvents[server], cursors) {
		return nil
	}
	if err := to.RememberList(journal.ListName{ServerID: server, Kind: cursorsKind}, cursorsToList(cursors)); err != nil {
		return err
	}
	m.atEvents[server] = cursors
	return nil
}
