// Package changetools provides two tools for models whose clients know no events: one says what
// changed since a cursor, the other waits for the next change. They read the log of events
// and change nothing.
//
// # Order and loss
//
// Cursors are those of package events. A call reports what is between its cursor and the
// end of the log, merged: one entry for each resource and list, with a diff from the first
// to the last content as far as texts are stored. If there are more changes than
// [MaxChanges], or too many entries to read in one call, the result says hasMore, and a call
// with its cursor returns the rest. If a part of the log has expired, it says truncated. A
// wait ends soon after the first change, and without any when its time is over; its cursor
// can be used in the same way.
//
// # Bounds
//
// 50 changes, 10,000 entries of the log, diffs of 4 KiB each and 24 KiB in all for a call;
// a wait of 45 s, as clients give up a call after 60 s. Text of servers is cut, in one line,
// and without hidden characters.
//
// # Ownership
//
// A call runs in the goroutine of its caller and ends with its context.
package changetools
