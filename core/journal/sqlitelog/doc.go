// Package sqlitelog stores the event log in one SQLite file, events.db, which one process writes and
// any number of processes may read. It implements [journal.Log]; package journal describes the
// contract.
//
// Library: zombiezen.com/go/sqlite (ISC license, v1.4.2 of 2025-05, a thin layer that does not use
// database/sql) on top of modernc.org/sqlite (BSD license, released monthly). Both are pure Go,
// without cgo. go.mod requires a newer modernc.org/sqlite than the layer does, because SQLite before
// 3.51.3 can damage a file in WAL mode.
//
// # The file
//
// The file can be opened with sqlite3 while mcptrack is running. Do not write to it: changes by other
// programs are reported as damage. While a read transaction is open, the file events.db-wal cannot
// shrink. Times are microseconds since 1970; digests are the 32 bytes of a SHA-256 hash. For example:
//
//	SELECT seq, datetime(stored/1e6, 'unixepoch'), event ->> '$.digest'
//	FROM events WHERE server = 'docs' AND uri = 'file:///a.md' ORDER BY seq;
//
//	log       one row: the epoch, the bounds of the log, and how the last run used the file
//	epochs    every epoch of the file; the first one, log.origin, is part of all checksums
//	events    the events by number; the column event contains the wire form without the id
//	turns     the numbers of the events before which the clock was set back
//	states    the last known content of every resource
//	lists     the last known keys and digests of every list
//	contents  texts by digest; n increases with every text, so the oldest text has the lowest n
//	records   the records of [journal.Records]
//	calls     the calls of tools that clients made; see core/calls
//
// The column sum is a CRC-32C checksum over the first epoch of the file and the other columns of the
// row; see type checksum. A row with an incorrect checksum is never used: an event is reported as a
// gap, the state of a resource is restored from its last event, and any other data is treated as
// unknown. If the row of the table log is damaged, the whole file is treated as damaged. The rows of
// epochs, turns and calls have no checksum. A repair reads the first epoch from the table epochs only if the
// row of log is damaged, and if that epoch is wrong, the checksums of all rows are incorrect.
//
// The index of the table events is on seq >> 14, server and uri. Inserting an event therefore changes
// only the part of the index for the newest 16,384 events, however large the log is, and finding the
// events of a resource takes one lookup in each part.
//
// # Durability
//
// The file is in WAL mode, and each group of events is stored in one transaction. With
// [journal.Always], a group is synced before readers can see it; with [journal.Interval], it is synced
// within 100 ms; and with [journal.OS], at checkpoints. Readers see an event only after its
// transaction has been committed.
//
// # Retention
//
// Every transaction also removes the oldest events that exceed the age or size limit. auto_vacuum is
// off: free pages are reused for new events, so the file keeps the largest size that it has had.
// Moving pages to shrink a file that will grow again would only cost additional writes. To shrink the
// file, run VACUUM while mcptrack is not running.
//
// # Secrets
//
// Records contain secrets. Data that is removed from them is overwritten (PRAGMA secure_delete).
// SQLite also leaves copies of rows within pages. Within about a second after a record was removed,
// all records are therefore written to new pages, and events.db-wal is truncated unless another
// process is reading. Until then, copies of a replaced value may remain in the file. A damaged file
// that was moved aside keeps its content.
//
// # Damage
//
// Opening the file runs PRAGMA quick_check for at most 150 ms, which is enough for about 60 MB; the
// rest is checked when it is read. A damaged file is renamed to events.db.damaged-N, and all readable
// data but calls is copied to a new file with a new epoch, which continues the numbering. The same happens if
// damage is found later, or if the file is empty although it had events. The log keeps the existing
// file but starts a new epoch if events.db
//
//   - was deleted or replaced while it was open,
//   - was copied or restored, because its inode is not the stored one, or the lock file contains the
//     id of a later event,
//   - lost events that readers had seen, because events.db-wal was lost,
//   - or may have lost such events when the machine crashed.
//
// Numbering continues after the last event in the file or in the lock file, whichever is later. An
// unreadable event is part of a gap with the reason "damaged". If the unreadable event is the last
// one, a row with an incorrect checksum takes its place, so that the gap remains until retention
// removes the row.
//
// Every second, the writer checks whether the directory, the lock file, events.db and its -wal and
// -shm files are still the ones that it uses. If one was deleted, the writer logs an ERROR and creates
// it again. No event is lost with events.db-wal, events.db-shm or the lock file, but without events.db
// or the directory the log starts anew. Until the file is restored, [Log.Err] returns the reason why
// no events are stored.
//
// # Other processes
//
// A process that opens the log with [Options.Existing] reads the file itself. It is not notified of
// new events, so Follow checks for them every 100 ms. The file "lock" next to events.db is the lock
// file; it contains the process id of the writer and the id of the last event.
package sqlitelog
