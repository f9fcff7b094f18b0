// Package mcpevents serves MCP Events (SEP-3415, io.modelcontextprotocol/events) from the
// log of events: clients poll for events (events/poll) or have them pushed (events/stream).
// output/webhook delivers webhooks and reads the log here.
//
// # Ids
//
// The eventId of an event and every cursor are log ids of the form <epoch>-<seq>, so an event
// has the same id on every delivery path. A cursor identifies the last log entry that was read,
// whether or not it matched.
//
// # Order and loss
//
// Events are delivered in log order and are stored before a client sees them. A slow client
// uses no extra memory and loses nothing, because it reads older entries from the log. If the
// log cannot provide the entries after a cursor (because they have expired or are damaged, or
// the log was replaced), the client receives truncated and a new cursor instead of an error. An event that matches several
// subscriptions of a client is sent for each of them.
//
// # Visibility
//
// There are three event types, see [Types]. They contain ids, names and digests, but no
// resource contents. Clients receive only the events that [Scope] permits at the time of
// sending. Texts from servers are truncated and converted to one line.
//
// # Limits
//
// One reader follows the log for all clients and caches the newest entries (at most 8,192
// and 16 MiB). At most eight clients read older entries simultaneously. The number of streams
// is limited per client and in total.
//
// # Ownership
//
// [Reader.Run] follows the log on the goroutine that calls it, and stops when its
// context is done. Streams belong to the requests that opened them.
package mcpevents
