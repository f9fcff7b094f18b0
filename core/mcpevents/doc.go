// Package mcpevents serves MCP Events (SEP-3415, io.modelcontextprotocol/events) from the
// log of events: clients poll for events (events/poll) or have them pushed (events/stream).
// output/webhook delivers webhooks and reads the log here.
//
// # Ids
//
// The eventId of an event and every cursor are ids of the log, <epoch>-<seq>, so an event has
// the same name on every delivery path. A cursor says up to where the log was read, whether or
// not the entries matched.
//
// # Order and loss
//
// Events come in the order of the log and are stored before a client sees them. A slow client
// costs nothing and loses nothing; it reads older entries from the log. If the log cannot
// provide what a cursor asks for (expired, damaged, replaced by another log), the client gets
// truncated and a fresh cursor instead of an error. An event that matches several
// subscriptions of a client is sent for each of them.
//
// # Visibility
//
// There are three types, see [Types]: ids, names and digests, no contents. Clients get only
// what [Scope] shows at the time of sending. Text of servers is truncated and in one line.
//
// # Bounds
//
// One reader follows the log for all clients and holds the newest entries (at most 8,192
// and 16 MiB). At most eight clients read older entries simultaneously. The number of streams
// is bounded per client and in total.
//
// # Ownership
//
// [Reader.Run] follows the log on the goroutine that calls it, and ends with its context.
// Streams belong to the requests that opened them.
package mcpevents
