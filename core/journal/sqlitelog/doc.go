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
// The file can be opened with sqlite3 while mcptrack is running. Do not write to it. While a read transaction is open, the file events.db-wal cannot
// shrink. Times are microseconds since 1970; digests are the 32 bytes of a SHA-256 hash. For example:
//
//	SELECT seq, datetime(stored/1e6, 'unixepoch'), event ->> '$.digest'
//	FROM events WHERE server = 'docs' AND uri = 'file:///a.md' ORDER BY seq;
//
//	log       one row: the epoch, the bounds of the log, and how the last run used the file
//	epochs    every epoch of the file
//	events    the events by number; the column event contains the wire form without the id
//	states    the last known content of every resource
//	lists     the last known keys and digests of every list
//	contents  texts by digest; n increases with every text, so the oldest text has the lowest n
//	calls     the calls of tools that clients made; see core/calls
//
// Files of older formats also have columns that are no longer written. When a writer first opens such a
// file, the records in it, which contain the secrets of webhooks, move to [Log.RecordsFile] and are
// overwritten in events.db.
//
// The index of the table events is on seq >> 14, server and uri. Inserting an event therefore changes
// only the part of the index for the newest 16,384 events, however large the log is, and finding the
// events of a resource takes one lookup in each part.
//
// # Durability
//
// The file is in WAL mode, and each group of events is stored in one transaction. With
// [journal.Always], a group is synced before readers can see it; with [journal.Interval], it is synced
// within 100 ms. Readers see an event only after its transaction has been committed.
//
// # Retention
//
// Every transaction also removes the oldest events that exceed the age or size limit. Free pages are reused, so
// the file keeps the largest size that it has had. To shrink it, run VACUUM while mcptrack is not running.
//
// # Damage
//
// A damaged file is renamed to events.db.damaged-N, with its -wal and -shm files, and a new log begins:
// without events, states and texts, with a new epoch, and with numbers that continue after the last one
// that was seen. Readers that have an id of the old log are told of a gap. Opening the file runs PRAGMA
// quick_check for at most 150 ms; SQLite finds other damage when it reads the page. A byte that changed within
// the text of an event is not found.
//
// The log keeps the file but starts a new epoch if the file was deleted, replaced, copied or restored, or lost
// events that readers may have seen. A row without an event takes the place of a last event that is lost, so
// that readers get a gap. Every second, the writer checks that the directory and its files are still the ones
// that it uses, and creates them again. Until then, [Log.Err] returns why no events are stored.
//
// # Other processes
//
// A process that opens the log with [Options.Existing] reads the file itself. It is not notified of
// new events, so Follow checks for them every 100 ms. The file "lock" next to events.db is the lock
// file; it contains the process id of the writer and the id of the last event.
package sqlitelog
