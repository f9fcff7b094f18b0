// Package feedclient reads a feed of server-sent events until it is stopped: after every end
// of the connection it reconnects with the last id.
//
// Order and loss: events are delivered in the order of the feed, one at a time; nothing
// is read ahead of a slow consumer except what the connection buffers. The feed itself
// reports events that have expired, as serve-sse does with a gap. An event that the end
// of a connection truncates is discarded, as the specification requires: it comes again
// after the id before it.
//
// Pace: at most one attempt to connect per second, whatever the feed does. The wait between
// attempts doubles with each attempt that yields no event, up to 30 s. The feed can ask for
// a longer wait with retry: or Retry-After, up to 30 s.
//
// Silence: a connection ends when the feed takes longer than Options.Idle for a line, and so
// does one whose response does not begin. A feed without news sends heartbeats.
//
// Memory: one event of at most [MaxEvent] bytes. A larger one ends the connection.
//
// Ownership: [Run] owns its connection, and closes it before it returns.
package feedclient
