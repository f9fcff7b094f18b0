package sqlitelog

import (
	"context"
	"encoding/json"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
)

// insertState inserts a row of states.
func insertState(s *sqlite.Stmt, sums *checksum, r journal.ResourceID, st journal.State, seq int64) error {
	at := st.When.UnixMicro()
	return do(s, r.ServerID, r.URI, st.Digest[:], st.Size, st.MimeType, at, seq, sums.state(r.ServerID, r.URI, st.Digest[:], st.Size, st.MimeType, at, seq))
}

func (c *checksum) state(server, uri string, digest []byte, size int64, mime string, at, seq int64) int64 {
	c.begin(size, at, seq)
	c.text(server)
	c.text(uri)
	c.text(mime)
	return c.end(digest)
}

func (b *batch) list(name journal.ListName, list catalog.List) {
	items := make(map[string]catalog.Digest, len(list))
	for _, it := range list {
		items[it.Key] = it.Digest
	}
	data, err := json.Marshal(items)
	if err != nil {
		return // strings always encode
	}
	if b.lists == nil {
		b.lists = map[journal.ListName]listRow{}
	}
	b.lists[name] = listRow{string(data), len(b.rows)}
}

func (c *checksum) list(server, kind string, seq int64, items string) int64 {
	c.begin(seq)
	c.text(server)
	c.text(kind)
	return c.end([]byte(items))
}

// heal removes damaged rows of states and lists, in a transaction, and restores the states of
// resources from their last events. Without a state, a change while mcptrack did not run would be
// missed: the first read of a resource publishes nothing. No event tells a whole list. lost is set
// if rows are already missing.
func (l *Log) heal(c *sqlite.Conn, origin string, lost bool) error {
	out := journal.States{Resources: map[journal.ResourceID]journal.State{}, Lists: map[journal.ListName]catalog.List{}}
	states, lists, err := readStates(c, newChecksum(origin), "", out)
	if err != nil || !lost && len(states)+len(lists) == 0 {
		return err
	}
	for _, r := range states {
		if err := run(c, "DELETE FROM states WHERE server = ? AND uri = ?", r.ServerID, r.URI); err != nil {
			return err
		}
	}
	for _, n := range lists {
		if err := run(c, "DELETE FROM lists WHERE server = ? AND kind = ?", n.ServerID, string(n.Kind)); err != nil {
			return err
		}
	}
	learned, err := learn(c, origin, out.Resources)
	if n := len(states) + len(lists); err == nil && n > 0 {
		l.health.Damages.Add(uint64(n))
		l.opts.Logger.Error("stored states are damaged; states of resources are restored from their last events, but changes of lists while mcptrack did not run are missed",
			"resources", len(states), "learned", learned, "lists", len(lists))
	}
	return err
}

// learn stores the states that events tell of resources that are not known, and returns how many.
func learn(c *sqlite.Conn, origin string, known map[journal.ResourceID]journal.State) (learned int, err error) {
	insert, err := c.Prepare("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return 0, err
	}
	sc := &scanner{epoch: origin, sums: newChecksum(origin)}
	err = query(c, "SELECT "+eventColumns+" FROM events WHERE type LIKE 'resource.%' ORDER BY seq DESC", func(s *sqlite.Stmt) error {
		e, ok := sc.scan(s)
		if !ok {
			return nil
		}
		ev, err := e.Event()
		if err != nil {
			return nil
		}
		r, st, ok := journal.Known(&ev)
		if _, newer := known[r]; newer || !ok {
			return nil
		}
		if known[r] = st; st.Digest.IsZero() { // it was removed
			return nil
		}
		learned++
		return insertState(insert, sc.sums, r, st, sc.row.seq)
	})
	return learned, err
}

func (l *Log) States(ctx context.Context, server string) (journal.States, error) {
	if err := l.Flush(ctx); err != nil { // the states are as of the last appended event
		return journal.States{}, err
	}
	out := journal.States{Resources: map[journal.ResourceID]journal.State{}, Lists: map[journal.ListName]catalog.List{}}
	return out, l.read(ctx, func(f *file, c *sqlite.Conn) error {
		clear(out.Resources)
		clear(out.Lists)
		_, _, err := readStates(c, newChecksum(f.origin), server, out)
		return err
	})
}

// readStates reads the states and lists of a server, or all. It leaves out damaged rows, and
// returns their keys.
func readStates(c *sqlite.Conn, sums *checksum, server string, out journal.States) (states []journal.ResourceID, lists []journal.ListName, err error) {
	of := "WHERE server = ?"
	args := []any{server}
	if server == "" {
		of, args = "", nil
	}
	err = query(c, "SELECT server, uri, digest, size, mime, at, seq, sum FROM states "+of, func(s *sqlite.Stmt) error {
		var d catalog.Digest
		r := journal.ResourceID{ServerID: s.ColumnText(0), URI: s.ColumnText(1)}
		st := journal.State{Size: s.ColumnInt64(3), MimeType: s.ColumnText(4), When: time.UnixMicro(s.ColumnInt64(5)).UTC()}
		if n := s.ColumnBytes(2, d[:]); n != len(d) || s.ColumnLen(2) != len(d) ||
			sums.state(r.ServerID, r.URI, d[:], st.Size, st.MimeType, s.ColumnInt64(5), s.ColumnInt64(6)) != s.ColumnInt64(7) {
			states = append(states, r)
			return nil
		}
		st.Digest = d
		out.Resources[r] = st
		return nil
	}, args...)
	if err != nil {
		return states, nil, err
	}
	err = query(c, "SELECT server, kind, seq, items, sum FROM lists "+of, func(s *sqlite.Stmt) error {
		name, items := journal.ListName{ServerID: s.ColumnText(0), Kind: catalog.Kind(s.ColumnText(1))}, s.ColumnText(3)
		var digests map[string]catalog.Digest
		if sums.list(name.ServerID, string(name.Kind), s.ColumnInt64(2), items) != s.ColumnInt64(4) || json.Unmarshal([]byte(items), &digests) != nil {
			lists = append(lists, name)
			return nil
		}
		list := make([]catalog.Item, 0, len(digests))
		for key, d := range digests {
			list = append(list, catalog.Item{Key: key, Digest: d})
		}
		out.Lists[name] = catalog.NewList(list)
		return nil
	}, args...)
	return states, lists, err
}
