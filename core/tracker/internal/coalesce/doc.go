// Package coalesce decides, for every tracked resource of one server, when to read
// it and what to publish about it. It is a pure state machine: its owner feeds it
// notifications, the results of reads and the time, and carries out what it asks
// for. Nothing in it blocks, starts a goroutine or looks at a clock. It is not safe
// for concurrent use.
//
// # Windows
//
// A resource is idle or has an open window. A signal (a notification of an update)
// to an idle resource opens a window: the dirty bit is cleared, a read is queued, and
// the leading event is published in any case, with the digest once the read answers
// or without it after [Options.Patience]. Further signals inside the window only set
// the dirty bit. At the end of the window, if the dirty bit is set, it is cleared, the resource is
// read again, and a trailing event is published only if the content differs from what was
// published last; then the next window begins. Otherwise the resource becomes idle. The dirty bit
// is cleared before a read and never after it: a change that the read may have missed has then set
// the bit again.
//
// # Reads
//
// The owner takes reads with [Coalescer.NextRead], makes the request, and returns its
// result with [Coalescer.Answer]. Leading and trailing reads go first, but every
// eighth read is one of the others (first looks, comparisons and polls).
//
// # Guarantees
//
// Order: the events of one resource are in the order of its reads. Loss: once a resource is
// quiet and its reads succeed, the last event describes its current content. Memory: bounded by
// the number of resources, not by the number of signals. A resource that left the server's list
// is remembered by a tombstone (its digest), up to maxTombstones of them.
package coalesce
