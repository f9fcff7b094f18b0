// Package agent reports changes to agents that read a process: Claude Code's Monitor tool
// and plugin monitors, hooks, shell loops. Each line wakes a model and costs it tokens, so
// there are few, short ones in plain words:
//
//	docs: file:///guide.md changed (12 lines), 2 more
//
// # Lines
//
// At most one line a second, of at most [MaxLine] bytes, with what changed since the line
// before. What does not fit is counted. Names and URIs that servers chose end up in a model's
// context and on a terminal: they are shortened, and any that has other characters than a URI
// is quoted, with all unusual characters escaped. Errors and contents of servers are never
// shown. Updates that did not change the content are not reported; a server that cannot be
// reached is reported after [DownAfter].
//
// # Order and loss
//
// A [Cursor] holds what the last runs have reported: digests of resources and lists, or the id
// of the last event of a feed. A run first compares the current state with the cursor, so that
// its first line reports changes made since the last run. The cursor is updated after a line
// was written: if the process is killed, nothing is lost, and at worst a change is reported
// twice. A resource that changes and changes back between two runs has not changed.
//
// Processes that run at the same time for the same folder have a cursor each, the later
// ones beginning with a copy, so that each reports everything. The first to start after
// they ended merges their cursors: what any of them did not report is reported.
//
// # Ownership
//
// [Watch] and [Feed] own their goroutines and wait for them. The caller closes the Cursor.
//
// Library: gofrs/flock (BSD) locks files on all systems; the system unlocks them however a
// process ends.
package agent
