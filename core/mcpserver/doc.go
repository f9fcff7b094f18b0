// Package mcpserver implements an MCP server for both protocol eras. It serves a catalog,
// calls the functions behind it and notifies subscribers, over stdio and Streamable HTTP.
// The gateway and the vault are built on it.
//
// The legacy era (2024-11-05 to 2025-11-25) has sessions, resources/subscribe and a GET
// stream; the modern era (2026-07-28) replaces all three with subscriptions/listen. One
// endpoint serves clients of both eras simultaneously. The client's messages determine the
// era; callers of this package rarely need to know it.
// See https://modelcontextprotocol.io/specification for both. The SSE transport of 2024-11-05 is not
// supported.
//
// # Contract
//
// Lists: SetCatalog replaces all lists in one step. Later pages of a list come from the catalog of the first
// page, or the cursor is rejected. A list_changed is sent only for lists that changed.
//
// Order: over stdio, subscription requests are answered in order of arrival, an update follows the response to
// its subscription, and the notifications for a request precede its response. Over HTTP this applies only
// within one stream.
//
// Loss: unread updates are stored as a set of URIs (see core/internal/subscriptions), so a slow client never
// misses the latest change and never delays another client. A client that resumes its session with
// Last-Event-ID receives everything sent after that event, otherwise the messages of the last minute. A session has one
// GET stream: another one replaces it. A call
// that takes longer than 250 ms is answered by a stream that the client can resume until one minute after the
// response (from 2025-11-25 on; at most 256 events and 1 MiB). The modern era has no replay.
//
// Sessions: a subscription ends with its stream, session or connection. A legacy HTTP session ends with DELETE,
// when it has been idle for too long, or when its principal exceeds its limit of sessions. With
// Options.SessionDir, it also outlives the process: the next one restores it, and notifies the client of all
// that may have changed. Requests in flight are lost then.
//
// Cancellation: notifications/cancelled cancels the context of a Func, and so does a modern HTTP client that
// disconnects, but not a legacy one, as its specification requires. If a Func panics, the client receives an
// internal error.
//
// Limits: Options limits sessions, streams, subscriptions, requests in flight and the size of a message.
// Clients with the same credentials, or without any, are one principal (Options.Principal); principals share
// limits fairly (see package fair). Writes over HTTP have deadlines; a stdio client that does not read delays
// only itself.
//
// Ownership: Close ends all streams with their results, cancels requests in flight and waits for all
// goroutines of the server. ServeIO and ServeHTTP return after everything they started has ended.
//
// Authentication (Host, Origin, tokens) happens before ServeHTTP. Credentials are neither stored nor forwarded.
// Messages are parsed strictly: member names are case-sensitive and unique, and headers must match the body.
//
// mcp-go's server is not used: its lists are empty for a moment while they are replaced, it drops notifications
// when 100 are unread, pages by name, and panics on some tools of other servers.
package mcpserver
