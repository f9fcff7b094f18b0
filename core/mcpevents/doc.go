// Package mcpevents serves MCP Events (SEP-3415, io.modelcontextprotocol/events) from the
// log of events: clients ask for what happened (events/poll) or have it sent to them
// (events/stream). Webhooks are delivered by output/webhook, which reads here.
//
// # Ids
//
// The eventId of an event and every cursor are ids of the log, <epoch>-<seq>, so
// that all ways to get an event name it alike. A cursor says up to where the log was
// looked at, matching or not.
//
// # Order and loss
//
// Events come in the order of the log, from the log and never from memory alone: what a
// client saw was stored. A slow client costs nothing and loses nothing; it reads older
// entries from the log. Where the log cannot provide what a cursor asks for (expired,
// damaged, replaced by another log), the client is told so by truncated, with a fresh
// cursor, and no error. One event may match several subscriptions of a client, each of
// which gets it.
//
// # What is shown
//
// Three types, see [Types]: ids, names and digests, no contents. Only what [Scope] shows
// to clients of this endpoint, as checked when it is sent. Text of servers is cut and in
// one line.
//
// # Bounds
//
// One reader follows the log for all clients and keeps the newest entries (at most 8,192
// and 16 MiB). At most eight clients read older ones at a time. The number of streams is
// bounded for each client and in all.
//
// # Ownership
//
// [Reader.Run] follows the log on the goroutine that calls it, and ends with its context.
// Streams belong to the requests that opened them.
package mcpevents
