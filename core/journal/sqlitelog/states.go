package sqlitelog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
)

func (b *batch) state(r journal.ResourceID, st journal.State) { b.states[r] = st }

func (b *batch) list(name journal.ListName, list catalog.List) {
	items := make(map[string]catalog.Digest, len(list))
	for _, it := range list {
		items[it.Key] = it.Digest
	}
	data, err := json.Marshal(items)
	if err != nil {
		return // strings can always be encoded
	}
	if b.lists == nil {
		b.lists = map[journal.ListName]string{}
	}
	b.lists[name] = string(data)
}

func (l *Log) States(ctx context.Context, server string) (journal.States, error) {
	if err := l.Flush(ctx); err != nil { // the result must reflect the last appended event
		return journal.States{}, err
	}
	out := journal.States{Resources: map[journal.ResourceID]journal.State{}, Lists: map[journal.ListName]catalog.List{}}
	return out, l.read(ctx, func(_ *file, c *sqlite.Conn) error {
		clear(out.Resources)
		clear(out.Lists)
		return readStates(c, server, out)
	})
}

// readStates reads the states and lists for one server into out, or for all servers if server is
// empty.
func readStates(c *sqlite.Conn, server string, out journal.States) error {
	of, args := "WHERE server = ?", []any{server}
	if server == "" {
		of, args = "", nil
	}
	err := query(c, "SELECT server, uri, digest, size, mime, at FROM states "+of, func(s *sqlite.Stmt) error {
		st := journal.State{Size: s.ColumnInt64(3), MimeType: s.ColumnText(4), When: time.UnixMicro(s.ColumnInt64(5)).UTC()}
		s.ColumnBytes(2, st.Digest[:])
		out.Resources[journal.ResourceID{ServerID: s.ColumnText(0), URI: s.ColumnText(1)}] = st
		return nil
	}, args...)
	if err != nil {
		return err
	}
	return query(c, "SELECT server, kind, items FROM lists "+of, func(s *sqlite.Stmt) error {
		var digests map[string]catalog.Digest
		if json.Unmarshal([]byte(s.ColumnText(2)), &digests) != nil {
			return fmt.Errorf("%w: a stored list is not JSON", errDamaged)
		}
		list := make([]catalog.Item, 0, len(digests))
		for key, d := range digests {
			list = append(list, catalog.Item{Key: key, Digest: d})
		}
		out.Lists[journal.ListName{ServerID: s.ColumnText(0), Kind: catalog.Kind(s.ColumnText(1))}] = catalog.NewList(list)
		return nil
	}, args...)
}
