// Package sqlitelog is the event log in one SQLite file, events.db, which one process writes and
// any number may read. It implements [journal.Log]; its contract is there.
//
// Library: zombiezen.com/go/sqlite (ISC, v1.4.2 of 2025-05, a thin layer without database/sql)
// over modernc.org/sqlite (BSD, released monthly; go.mod asks for a newer one than the layer
// does, because SQLite before 3.51.3 can damage a file in WAL mode): pure Go, no cgo.
//
// # The file
//
// It can be opened with sqlite3 while mcptrack runs. Do not write to it: what is changed by others
// is reported as damage. Whoever keeps a read transaction open keeps the file events.db-wal from
// shrinking. Times are microseconds since 1970, digests are the 32 bytes of a SHA-256. For example:
//
//	SELECT seq, datetime(stored/1e6, 'unixepoch'), event ->> '$.digest'
//	FROM events WHERE server = 'docs' AND uri = 'file:///a.md' ORDER BY seq;
//
//	log       one row: the epoch, the ends of the log, and how the last run used the file
//	epochs    every epoch that the file has had; the first one, log.origin, is part of all checksums
//	events    the events by number: event is the wire form without the id
//	turns     the numbers of events before which the clock was set back
//	states    the last known content of every resource
//	lists     the last known keys and digests of every list
//	contents  texts by digest, n being their age
//	records   the records of [journal.Records]
//
// sum is a CRC-32C over the first epoch of the file and the other columns of the row; see
// checksum.go. A row whose sum does not match is never used: an event becomes a gap, the state
// of a resource is taken from its last event, and everything else is treated as unknown. If it is
// the row of log, the file is damaged. The rows of epochs and turns have none: a repair needs the first
// epoch only if the row of log is damaged, and what it finds with a wrong one has no sum that matches.
//
// The index of events is by seq >> 14, server and uri. So inserting touches only the part of the
// index that has the newest 16,384 events, however large the log is, and the events of a resource
// are found with one look into each part.
//
// # Durability
//
// The file is in WAL mode, and a group of events is one transaction. A group is synced before it
// is visible with [journal.Always], within 100 ms with [journal.Interval], and at checkpoints with
// [journal.OS]. Every connection sees an event only after its transaction has ended.
//
// # Retention
//
// Every transaction also removes what the retention no longer allows: the oldest events, by age
// and by bytes. There is no auto_vacuum: the pages become free and hold the next events, so
// the file stays as large as it once was. Moving pages to shrink a file that will grow again would
// only cost writes. VACUUM shrinks it while mcptrack does not run.
//
// # Secrets
//
// Records have secrets. What is removed of them is overwritten (PRAGMA secure_delete), and within about a
// second of the removal of a record all records are written to new pages, because SQLite leaves copies
// of rows within pages, and events.db-wal is made empty unless another process reads. Of a value that
// was replaced, copies may stay until then. A damaged file that was moved away keeps what it had.
//
// # Damage
//
// Opening runs PRAGMA quick_check, for 150 ms at most, which is enough for about 60 MB; what the
// check does not reach is checked when it is read. A damaged file is moved to
// events.db.damaged-N, and everything in it that can be read is copied into a new one with a new
// epoch, in which numbers continue. The same happens when damage is found later, when the file was
// deleted or replaced, when it was copied or restored (its inode is not the one that it
// remembers, or the lock has a later event), when events.db-wal was lost with events that were seen,
// and when a crash of the machine may have lost such events; in the last three cases the file stays,
// and only the epoch is new. A file without a byte, where there were events, is damage, too. Numbers
// continue after the last event, or the one in the lock, whichever is later. An event that cannot be
// read is within a gap with the reason "damaged"; if it is the last one, a row without a sum stands for
// it, so that the gap stays until the retention removes that row.
//
// While it runs, the writer looks every second whether the directory, the lock, events.db and the
// files beside it are still its own. What was deleted is said with one ERROR, and made again: for
// events.db-wal, -shm and the lock nothing is lost; for events.db or the directory the log is a new
// one. Until then [Log.Err] says why nothing is stored.
//
// # Other processes
//
// A process that opens an [Options.Existing] log reads the file itself. It does not hear of new
// events; Follow looks every 100 ms. The lock is the file "lock" beside events.db; it has
// the process that writes and the id of the last event.
package sqlitelog
