// Package sqlitelog is the event log in one SQLite file, events.db, which one process writes and
// any number of processes may read. It implements [journal.Log]; that package has the contract.
//
// Library: zombiezen.com/go/sqlite (ISC, v1.4.2 of 2025-05, a thin layer without database/sql) over
// modernc.org/sqlite (BSD, released monthly): pure Go, no cgo. go.mod asks for a newer
// modernc.org/sqlite than the layer does, because SQLite before 3.51.3 can damage a file in WAL mode.
//
// # The file
//
// It can be opened with sqlite3 while mcptrack runs. Do not write to it: changes by others are
// reported as damage. An open read transaction keeps the file events.db-wal from shrinking. Times
// are microseconds since 1970; digests are the 32 bytes of a SHA-256. For example:
//
//	SELECT seq, datetime(stored/1e6, 'unixepoch'), event ->> '$.digest'
//	FROM events WHERE server = 'docs' AND uri = 'file:///a.md' ORDER BY seq;
//
//	log       one row: the epoch, the bounds of the log, and how the last run used the file
//	epochs    every epoch of the file; the first one, log.origin, is part of all checksums
//	events    the events by number: event is the wire form without the id
//	turns     the numbers of events before which the clock was set back
//	states    the last known content of every resource
//	lists     the last known keys and digests of every list
//	contents  texts by digest; n is their order of age
//	records   the records of [journal.Records]
//
// sum is a CRC-32C over the first epoch of the file and the other columns of the row; see type
// checksum. A row with a wrong sum is never used: an event becomes a gap, the state of a resource is
// taken from its last event, and anything else counts as unknown. If it is the row of log, the file
// is damaged. The rows of epochs and turns have no sum: a repair needs the first epoch only if the
// row of log is damaged, and with a wrong one it finds no row whose sum matches.
//
// The index of events is by seq >> 14, server and uri. Inserting therefore touches only the part of
// the index for the newest 16,384 events, however large the log is, and one lookup in each part finds
// the events of a resource.
//
// # Durability
//
// The file is in WAL mode, and a group of events is one transaction. A group is synced before it is
// visible with [journal.Always], within 100 ms with [journal.Interval], and at checkpoints with
// [journal.OS]. A connection sees an event only after its transaction has ended.
//
// # Retention
//
// Every transaction also removes what retention no longer allows: the oldest events, by age and by
// bytes. There is no auto_vacuum: free pages hold the next events, and the file keeps its largest
// size. Moving pages to shrink a file that will grow again would only cost writes. VACUUM shrinks it
// while mcptrack does not run.
//
// # Secrets
//
// Records contain secrets. What is removed from them is overwritten (PRAGMA secure_delete). SQLite
// also leaves copies of rows within pages, so within about a second of the removal of a record, all
// records are written to new pages, and events.db-wal is emptied unless another process reads. Copies
// of a replaced value may stay until then. A damaged file that was moved aside keeps its content.
//
// # Damage
//
// Opening runs PRAGMA quick_check for at most 150 ms, which is enough for about 60 MB; the rest is
// checked when it is read. A damaged file is moved to events.db.damaged-N, and everything readable
// is copied into a new file with a new epoch, in which numbers continue. So is a file in which damage
// is found later, and one that is empty although it had events. The log also begins a new epoch, with
// the file that is there, if events.db
//
//   - was deleted or replaced while it was open,
//   - was copied or restored: its inode is not the stored one, or the lock names a later event,
//   - lost events that were seen, because events.db-wal was lost,
//   - or may have lost such events when the machine crashed.
//
// Numbers continue after the last event in the file or in the lock, whichever is later. An unreadable
// event is within a gap with the reason "damaged". If it is the last one, a row without a correct sum
// stands for it, so that the gap stays until retention removes the row.
//
// Every second the writer checks whether the directory, the lock, events.db and the files beside it
// are still its own. It logs one ERROR for a deleted one and creates it again: nothing is lost with
// events.db-wal, -shm or the lock, but without events.db or the directory the log is a new one. Until
// then [Log.Err] says why nothing is stored.
//
// # Other processes
//
// A process that opens the log with [Options.Existing] reads the file itself. It is not notified of
// new events: Follow checks every 100 ms. The file "lock" beside events.db is the lock; it contains
// the writing process and the id of the last event.
package sqlitelog
