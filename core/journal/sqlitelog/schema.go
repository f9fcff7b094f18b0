package sqlitelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/mcptrack/mcptrack/core/journal"
)

// migrations returns the scripts that upgrade the schema: script n upgrades version n to version
// n+1. Version 0 is an empty file. The version is stored in PRAGMA user_version and in log.version.
// If both contain the same unknown version, a newer mcptrack wrote the file; if they differ, the
// file is damaged.
func migrations() []string {
	return []string{`
CREATE TABLE log (
	one        INTEGER PRIMARY KEY CHECK (one = 1),
	version    INTEGER NOT NULL,
	epoch      TEXT NOT NULL,
	origin     TEXT NOT NULL,    -- the first epoch of the file
	first      INTEGER NOT NULL, -- number of the first event that the retention has left
	last       INTEGER NOT NULL, -- number of the last event
	bytes      INTEGER NOT NULL, -- of events
	text_bytes INTEGER NOT NULL, -- of contents
	durability TEXT NOT NULL,    -- of the run that has the log open, or had it last
	boot       TEXT NOT NULL,    -- the run of the operating system
	clean      INTEGER NOT NULL, -- 1: that run has closed the log
	inode      INTEGER NOT NULL, -- of this file
	synced     INTEGER NOT NULL, -- when the last transaction began
	sum        INTEGER NOT NULL
) STRICT;
CREATE TABLE epochs (
	n     INTEGER PRIMARY KEY,
	epoch TEXT NOT NULL,
	first INTEGER NOT NULL, -- number of its first new event
	began INTEGER NOT NULL,
	why   TEXT NOT NULL
) STRICT;
CREATE TABLE events (
	seq    INTEGER PRIMARY KEY,
	stored INTEGER NOT NULL,
	server TEXT NOT NULL,
	uri    TEXT NOT NULL,
	type   TEXT NOT NULL,
	event  TEXT NOT NULL,
	sum    INTEGER NOT NULL
) STRICT;
CREATE INDEX events_by_resource ON events (seq >> 14, server, uri);
CREATE TABLE turns (seq INTEGER PRIMARY KEY) STRICT;
CREATE TABLE states (
	server TEXT NOT NULL,
	uri    TEXT NOT NULL,
	digest BLOB NOT NULL,
	size   INTEGER NOT NULL,
	mime   TEXT NOT NULL,
	at     INTEGER NOT NULL, -- when it was read
	seq    INTEGER NOT NULL, -- number of the last event before it was learned
	sum    INTEGER NOT NULL,
	PRIMARY KEY (server, uri)
) STRICT, WITHOUT ROWID;
CREATE TABLE lists (
	server TEXT NOT NULL,
	kind   TEXT NOT NULL,
	seq    INTEGER NOT NULL,
	items  TEXT NOT NULL, -- {key: digest, ...}
	sum    INTEGER NOT NULL,
	PRIMARY KEY (server, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE contents (
	n      INTEGER PRIMARY KEY,
	digest BLOB NOT NULL UNIQUE,
	size   INTEGER NOT NULL,
	text   TEXT NOT NULL,
	sum    INTEGER NOT NULL
) STRICT;
CREATE TABLE records (
	name     TEXT NOT NULL,
	key      TEXT NOT NULL,
	value    BLOB, -- NULL, with the key '': the last record that was removed
	revision INTEGER NOT NULL,
	sum      INTEGER NOT NULL,
	PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
`, `
CREATE TABLE calls (
	n       INTEGER PRIMARY KEY, -- when it was answered, in microseconds
	total   INTEGER NOT NULL,    -- bytes of this call and all before it
	client  TEXT NOT NULL,
	session TEXT NOT NULL,
	server  TEXT NOT NULL,
	tool    TEXT NOT NULL,
	outcome TEXT NOT NULL,
	code    INTEGER NOT NULL,
	micros  INTEGER NOT NULL,
	bytes   INTEGER NOT NULL
) STRICT;
`}
}

// errDamaged matches all errors that mean that the file is not a valid log, or no longer one.
var errDamaged = errors.New("the file is damaged")

// migrate upgrades the schema to the version that this package uses.
func migrate(c *sqlite.Conn) error {
	version, err := number(c, "PRAGMA user_version")
	if err != nil {
		return err
	}
	steps := migrations()
	if version > int64(len(steps)) {
		if stored, err := number(c, "SELECT version FROM log"); err == nil && stored == version {
			return fmt.Errorf("it was written by a newer version of mcptrack (format %d; this version supports up to %d); update mcptrack", version, len(steps))
		}
		return fmt.Errorf("%w: unknown version %d", errDamaged, version)
	}
	if version < 0 {
		return fmt.Errorf("%w: unknown version %d", errDamaged, version)
	}
	if version == 0 {
		if tables, err := number(c, "SELECT count(*) FROM sqlite_schema"); err != nil {
			return ours(err)
		} else if tables > 0 {
			return fmt.Errorf("%w: it has tables but no version", errDamaged)
		}
	}
	if version == int64(len(steps)) {
		return nil
	}
	return transaction(c, func() error {
		for _, step := range steps[version:] {
			if err := sqlitex.ExecuteScript(c, step, nil); err != nil {
				return err
			}
		}
		if version == 0 {
			if err := beginLog(c); err != nil {
				return err
			}
		} else {
			row, err := readLog(c)
			if err == nil {
				err = writeLog(c, row) // with the new version
			}
			if err != nil {
				return ours(err)
			}
		}
		return run(c, fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
	})
}

// checkSchema returns an error unless all tables and indexes are defined exactly as the migrations
// define them. It is necessary because SQLite may accept a damaged definition.
func checkSchema(c *sqlite.Conn) error {
	ideal, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer ideal.Close() // an error is harmless: the database is only in memory
	for _, step := range migrations() {
		if err := sqlitex.ExecuteScript(ideal, step, nil); err != nil {
			return err
		}
	}
	want, err := definitions(ideal)
	if err != nil {
		return err
	}
	is, err := definitions(c)
	if err != nil {
		return err
	}
	for name, sql := range want { // additional definitions, such as an index of the user, are allowed
		if is[name] != sql {
			return fmt.Errorf("%w: the definition of %s was changed", errDamaged, name)
		}
	}
	return nil
}

// definitions returns the SQL definitions of all tables and indexes, by name.
func definitions(c *sqlite.Conn) (map[string]string, error) {
	found := map[string]string{}
	err := sqlitex.ExecuteTransient(c, "SELECT name, type || ' of ' || tbl_name || ': ' || sql FROM sqlite_schema", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		found[s.ColumnText(0)] = s.ColumnText(1)
		return nil
	}})
	return found, err
}

// logRow is the only row of the table log.
type logRow struct {
	version          int64
	epoch, origin    string
	first, last      int64
	bytes, textBytes int64
	durability       journal.Durability
	boot             string
	clean            bool
	inode            int64
	synced           int64
}

// beginLog inserts the first row into each of the tables log and epochs.
func beginLog(c *sqlite.Conn) error {
	epoch := journal.NewEpoch()
	r := logRow{epoch: epoch, origin: epoch, first: 1, clean: true}
	if err := run(c, "INSERT INTO log VALUES (1, 0, '', '', 0, 0, 0, 0, '', '', 0, 0, 0, 0)"); err != nil {
		return err
	}
	if err := writeLog(c, r); err != nil {
		return err
	}
	return addEpoch(c, r, "the file was created")
}

// addEpoch records the start of a new epoch in the table epochs. why is the reason.
func addEpoch(c *sqlite.Conn, r logRow, why string) error {
	return run(c, "INSERT INTO epochs (epoch, first, began, why) VALUES (?, ?, ?, ?)", r.epoch, r.last+1, time.Now().UnixMicro(), why)
}

// readLog returns the row of the table log. If the row is missing or damaged, the error matches
// errDamaged.
func readLog(c *sqlite.Conn) (r logRow, err error) {
	found, valid := false, false
	err = query(c, "SELECT version, epoch, origin, first, last, bytes, text_bytes, durability, boot, clean, inode, synced, sum FROM log", func(s *sqlite.Stmt) error {
		found = true
		r = logRow{version: s.ColumnInt64(0), epoch: s.ColumnText(1), origin: s.ColumnText(2), first: s.ColumnInt64(3), last: s.ColumnInt64(4), bytes: s.ColumnInt64(5), textBytes: s.ColumnInt64(6),
			durability: journal.Durability(s.ColumnText(7)), boot: s.ColumnText(8), clean: s.ColumnInt64(9) == 1, inode: s.ColumnInt64(10), synced: s.ColumnInt64(11)}
		valid = r.sum() == s.ColumnInt64(12) && journal.IsEpoch(r.epoch) && journal.IsEpoch(r.origin) && r.first >= 1 && r.last >= r.first-1 && r.last <= maxMark
		return nil
	})
	switch {
	case err != nil:
		return r, err
	case !found:
		return r, fmt.Errorf("%w: the row of the table log is missing", errDamaged)
	case !valid:
		return r, fmt.Errorf("%w: the row of the table log was changed", errDamaged)
	}
	return r, nil
}

// sum returns the checksum of the row.
func (r *logRow) sum() int64 {
	clean := int64(0)
	if r.clean {
		clean = 1
	}
	c := newChecksum(r.origin)
	c.begin(r.version, r.first, r.last, r.bytes, r.textBytes, clean, r.inode, r.synced)
	c.text(r.epoch)
	c.text(string(r.durability))
	return c.end([]byte(r.boot))
}

// writeLog replaces the row of the table log.
func writeLog(c *sqlite.Conn, r logRow) error {
	s, err := c.Prepare("UPDATE log SET version = ?, epoch = ?, origin = ?, first = ?, last = ?, bytes = ?, text_bytes = ?, durability = ?, boot = ?, clean = ?, inode = ?, synced = ?, sum = ?")
	if err != nil {
		return err
	}
	r.version = int64(len(migrations()))
	return do(s, r.version, r.epoch, r.origin, r.first, r.last, r.bytes, r.textBytes, string(r.durability), r.boot, r.clean, r.inode, r.synced, r.sum())
}

// checksum computes the checksums of rows. A checksum is a CRC-32C over the first epoch of the
// file, followed by the columns in the order of the table. A number is encoded as eight bytes,
// little-endian; a text or blob is preceded by its length. The checksum of a row is therefore valid
// only in the same file and for the same key.
type checksum struct {
	table *crc32.Table
	start []byte // first epoch of the file, with which every checksum starts
	buf   []byte
}

func newChecksum(origin string) *checksum {
	c := &checksum{table: crc32.MakeTable(crc32.Castagnoli)}
	c.start = appendText(nil, origin)
	return c
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// begin starts a new checksum and adds the numbers.
func (c *checksum) begin(numbers ...int64) {
	c.buf = append(c.buf[:0], c.start...)
	for _, n := range numbers {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, uint64(n))
	}
}

// text adds a text or blob to the checksum.
func (c *checksum) text(s string)  { c.buf = appendText(c.buf, s) }
func (c *checksum) bytes(b []byte) { c.buf = appendText(c.buf, b) }

// end adds last, a final text or blob that is not copied, and returns the checksum.
func (c *checksum) end(last []byte) int64 {
	c.buf = binary.LittleEndian.AppendUint64(c.buf, uint64(len(last)))
	return int64(crc32.Update(crc32.Update(0, c.table, c.buf), c.table, last))
}
