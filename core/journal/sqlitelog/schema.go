package sqlitelog

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/records"
)

// format is the version of the schema. It is stored in PRAGMA user_version and in log.version. If both
// contain the same higher version, a newer mcptrack wrote the file; if they differ, the file is damaged.
const format = 3

// schema creates the tables of an empty file.
const schema = `
CREATE TABLE log (
	one        INTEGER PRIMARY KEY CHECK (one = 1),
	version    INTEGER NOT NULL,
	epoch      TEXT NOT NULL,
	first      INTEGER NOT NULL, -- number of the first event that the retention has left
	last       INTEGER NOT NULL, -- number of the last event
	bytes      INTEGER NOT NULL, -- of events
	text_bytes INTEGER NOT NULL, -- of contents
	durability TEXT NOT NULL,    -- of the run that has the log open, or had it last
	boot       TEXT NOT NULL,    -- the run of the operating system
	clean      INTEGER NOT NULL, -- 1: that run has closed the log
	inode      INTEGER NOT NULL, -- of this file
	synced     INTEGER NOT NULL  -- when the last transaction began
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
	event  TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_resource ON events (seq >> 14, server, uri);
CREATE TABLE states (
	server TEXT NOT NULL,
	uri    TEXT NOT NULL,
	digest BLOB NOT NULL,
	size   INTEGER NOT NULL,
	mime   TEXT NOT NULL,
	at     INTEGER NOT NULL, -- when it was read
	PRIMARY KEY (server, uri)
) STRICT, WITHOUT ROWID;
CREATE TABLE lists (
	server TEXT NOT NULL,
	kind   TEXT NOT NULL,
	items  TEXT NOT NULL, -- {key: digest, ...}
	PRIMARY KEY (server, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE contents (
	n      INTEGER PRIMARY KEY,
	digest BLOB NOT NULL UNIQUE,
	size   INTEGER NOT NULL,
	text   TEXT NOT NULL
) STRICT;
` + callsSchema

const callsSchema = `
CREATE TABLE IF NOT EXISTS calls (
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
`

// upgrade changes a file of format 1 or 2 to the current format. Columns that are no longer written stay,
// because removing them would rewrite all rows.
const upgrade = callsSchema + `
ALTER TABLE events ALTER COLUMN sum DROP NOT NULL;
ALTER TABLE states ALTER COLUMN sum DROP NOT NULL;
ALTER TABLE states ALTER COLUMN seq DROP NOT NULL;
ALTER TABLE lists ALTER COLUMN sum DROP NOT NULL;
ALTER TABLE lists ALTER COLUMN seq DROP NOT NULL;
ALTER TABLE contents ALTER COLUMN sum DROP NOT NULL;
DROP TABLE turns;
DROP TABLE records;
`

// errDamaged matches all errors that mean that the file is not a valid log, or no longer one.
var errDamaged = errors.New("the file is damaged")

// migrate creates the tables in an empty file, and upgrades an older format. It moves the records of a
// log of an older format to the file at recordsFile.
func migrate(c *sqlite.Conn, recordsFile string) error {
	version, err := number(c, "PRAGMA user_version")
	switch {
	case err != nil:
		return err
	case version == format:
		return nil
	case version == 0:
		if tables, err := number(c, "SELECT count(*) FROM sqlite_schema"); err != nil {
			return ours(err)
		} else if tables > 0 {
			return fmt.Errorf("%w: it has tables but no version", errDamaged)
		}
		return transaction(c, func() error {
			if err := sqlitex.ExecuteScript(c, schema, nil); err != nil {
				return err
			}
			if err := beginLog(c); err != nil {
				return err
			}
			return run(c, fmt.Sprintf("PRAGMA user_version = %d", format))
		})
	case version < 0 || version > format:
		if stored, err := number(c, "SELECT version FROM log"); err == nil && stored == version && version > 0 {
			return fmt.Errorf("it was written by a newer version of mcptrack (format %d; this version supports up to %d); update mcptrack", version, format)
		}
		return fmt.Errorf("%w: unknown version %d", errDamaged, version)
	}
	values, err := storedRecords(c)
	if err != nil {
		return ours(err)
	}
	if len(values) > 0 {
		if err := records.Write(recordsFile, values); err != nil {
			return err // the next start tries again
		}
	}
	if err := run(c, "PRAGMA secure_delete = on"); err != nil { // overwrites the records in events.db
		return err
	}
	err = transaction(c, func() error {
		if err := sqlitex.ExecuteScript(c, upgrade, nil); err != nil {
			return err
		}
		return sqlitex.ExecuteScript(c, fmt.Sprintf("UPDATE log SET version = %[1]d; PRAGMA user_version = %[1]d;", format), nil)
	})
	if err == nil {
		_, err = number(c, "PRAGMA wal_checkpoint(TRUNCATE)") // removes them from events.db-wal
	}
	return ours(errors.Join(err, run(c, "PRAGMA secure_delete = off")))
}

// storedRecords returns the records in a log of an older format.
func storedRecords(c *sqlite.Conn) (values map[string][]byte, err error) {
	values = map[string][]byte{}
	err = query(c, "SELECT key, value FROM records WHERE key <> ''", func(s *sqlite.Stmt) error {
		value := make([]byte, s.ColumnLen(1))
		s.ColumnBytes(1, value)
		values[s.ColumnText(0)] = value
		return nil
	})
	return values, err
}

// logRow is the only row of the table log.
type logRow struct {
	epoch            string
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
	r := logRow{epoch: journal.NewEpoch(), first: 1, clean: true}
	if err := run(c, "INSERT INTO log VALUES (1, ?, '', 0, 0, 0, 0, '', '', 0, 0, 0)", format); err != nil {
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

// readLog returns the row of the table log. If the row is missing or impossible, the error matches
// errDamaged.
func readLog(c *sqlite.Conn) (r logRow, err error) {
	err = query(c, "SELECT epoch, first, last, bytes, text_bytes, durability, boot, clean, inode, synced FROM log", func(s *sqlite.Stmt) error {
		r = logRow{epoch: s.ColumnText(0), first: s.ColumnInt64(1), last: s.ColumnInt64(2), bytes: s.ColumnInt64(3), textBytes: s.ColumnInt64(4),
			durability: journal.Durability(s.ColumnText(5)), boot: s.ColumnText(6), clean: s.ColumnInt64(7) == 1, inode: s.ColumnInt64(8), synced: s.ColumnInt64(9)}
		return nil
	})
	if err == nil && (!journal.IsEpoch(r.epoch) || r.first < 1 || r.last < r.first-1 || r.last > maxMark) {
		err = fmt.Errorf("%w: the row of the table log is missing or was changed", errDamaged)
	}
	return r, err
}

func writeLog(c *sqlite.Conn, r logRow) error {
	s, err := c.Prepare("UPDATE log SET epoch = ?, first = ?, last = ?, bytes = ?, text_bytes = ?, durability = ?, boot = ?, clean = ?, inode = ?, synced = ?")
	if err != nil {
		return err
	}
	return do(s, r.epoch, r.first, r.last, r.bytes, r.textBytes, string(r.durability), r.boot, r.clean, r.inode, r.synced)
}
