// Package changetools provides two tools for models whose clients do not support events. One
// reports what changed since a cursor, the other waits for the next change. They read the log
// of events and change nothing.
//
// # Order and loss
//
// Cursors are cursors of package mcpevents. A call reports the changes between its cursor and
// the end of the log, merged: one entry for each resource and list, with a diff from the first
// to the last content if the texts are stored. If there are more changes than [MaxChanges], or
// too many entries to read in one call, the result has hasMore, and a call with its cursor
// returns the rest. If a part of the log has expired, the result has truncated. A wait ends
// soon after the first change, or without changes when it times out; its cursor can be used in
// the same way.
//
// # Bounds
//
// A call reports at most 50 changes, reads at most 10,000 entries of the log and returns diffs
// of at most 4 KiB each and 24 KiB in total. A wait lasts at most 45 s, because clients abandon
// a call after 60 s. Text of servers is truncated, in one line, and without hidden characters.
//
// # Ownership
//
// A call runs on the goroutine of its caller and ends with its context.
package changetools
