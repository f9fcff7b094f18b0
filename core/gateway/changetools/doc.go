// Package changetools provides two tools for models whose clients do not support events. One
// reports the changes since a cursor, the other waits for the next change. They only read the
// event log.
//
// # Order and loss
//
// Cursors are cursors of package mcpevents. A call reports the changes between its cursor and
// the end of the log, merged into one entry for each resource and list, with a diff from the
// first to the last content if the texts are stored. If there are more than [MaxChanges] changes,
// or too many log entries to read in one call, the result has hasMore set, and a call with the
// cursor of the result returns the rest. If part of the log has expired, the result has truncated
// set. A wait ends shortly after the first change, or without changes when it times out; its
// cursor can be used in the same way.
//
// # Limits
//
// A call reports at most 50 changes, reads at most 10,000 log entries and returns diffs of at
// most 4 KiB each and 24 KiB in total. A wait lasts at most 45 s, because clients abandon
// a call after 60 s. Text from servers is truncated and reduced to one line without hidden
// characters.
//
// # Ownership
//
// A call runs on its caller's goroutine and ends when its context ends.
package changetools
