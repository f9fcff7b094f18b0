// Package changes is two tools for models whose clients know no events: what changed since
// a cursor, and a wait for the next change. They read the log of events and change
// nothing.
//
// # Order and loss
//
// Cursors are those of package events. A call reports what is between its cursor and the
// end of the log, merged: one entry for each resource and list, with a diff from the first
// to the last content as far as texts are stored. If that is more than [MaxChanges], or
// very much, the result says hasMore and its cursor is where to go on. If a part is no
// longer in the log, it says truncated. A wait ends with the first change, and with none
// when its time is over; its cursor is as good as any.
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
package changes
