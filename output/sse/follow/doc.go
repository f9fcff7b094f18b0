// Package follow reads a feed of server-sent events (WHATWG HTML, §9.2) for as long
// as it is wanted: it comes back after every end with the id it saw last.
//
// Order and loss: events are handed over in the order of the feed, one at a time;
// nothing is read ahead of a slow taker but what the connection buffers. What the
// feed cannot tell any more it tells itself, as serve-sse does with a gap. An event
// that the connection broke off in is discarded, as the specification wants it: it
// comes again after its predecessor's id. An id with control characters, which no
// request could carry back, is ignored.
//
// Pace: at most one attempt a second, whatever the feed does; after a failure, or
// an end without a word, twice the time of the attempt before, up to 30 s. A time
// that the feed names with retry: is the least, up to 30 s.
//
// Memory: one event, of at most [MaxEvent] bytes. A larger one ends the connection.
//
// Ownership: [Run] owns its connection, and ends it before it returns.
package follow
