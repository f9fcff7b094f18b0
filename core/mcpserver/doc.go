// Package mcpserver implements an MCP server for both protocol eras: it serves a catalog,
// calls the functions behind it and notifies subscribers, over standard streams and
// Streamable HTTP. The gateway and the vault are built on it.
//
// The legacy era (2024-11-05 to 2025-11-25) has sessions, resources/subscribe and a
// GET stream; the modern era (2026-07-28) has subscriptions/listen instead of all
// three. Clients of both eras can use one endpoint at the same time: what a client
// sends selects the era, and callers of this package rarely need to know which it is.
// See https://modelcontextprotocol.io/specification for both. Not supported: batches,
// which only 2025-03-26 had; the SSE transport of 2024-11-05.
//
// # Promises
//
//   - Consistent lists: a client sees either the old or the new catalog, never a
//     mixture. SetCatalog swaps all lists in one step; later pages of a list come from
//     the catalog of its first page, or the cursor is rejected. A list_changed is sent
//     only for lists that differ, and only to the clients that see these.
//   - Order: on standard streams, subscription requests take effect and are answered
//     in the order in which they arrive. An update of a resource is sent after the
//     answer or acknowledgement of its subscription, and the notifications of a
//     request before its answer. Over HTTP this holds within one stream; an update on
//     the GET stream may overtake the answer to a POST.
//   - Loss: updates are sent only to subscribers, tagged with the subscription id in
//     the modern era. Updates that a client has not read are held as a set of URIs
//     (see core/internal/subscriptions), so a slow client never misses the latest change and
//     never delays another client. A client that resumes its session with
//     Last-Event-ID gets again what was sent after that event; without it, what was
//     sent in the last minute on streams that have ended. Several GET streams of a session
//     may be open: the newest gets the messages, and repeats what an earlier one sent only if
//     the client does not show, by the answer to a ping, that it still reads that one. A call
//     from 2025-11-25 on that takes longer than 250 ms is answered by a stream that the
//     client can resume in the same way, until a minute after the answer, and later gets
//     an error instead of the answer; at most 256 events and 1 MiB besides the answer are
//     held for it. After the answer there is nothing to resume: that is a 405, which all
//     clients take for the end. The modern era has no replay.
//   - Cleanup: a subscription ends immediately with its stream, session or connection.
//     A legacy HTTP session outlives its GET stream, so that a client that reconnects
//     learns what changed meanwhile; it ends by DELETE, when idle, or when its principal
//     opens more sessions than it may have.
//   - Restarts: with Options.SessionDir a legacy HTTP session ends only by DELETE, or when it
//     was not used for a week. A server that is asked for a session that it does not know
//     continues it with its version, capabilities and subscriptions, and notifies the client
//     of the lists that are not what it saw last, and of all resources that it is subscribed
//     to. Requests that were in progress are lost; a client that resumes one gets an error.
//     What is kept outlives the process, however that ends, but not always the machine. If
//     something cannot be kept, or read, the session ends with the server: a 404, as the
//     specification says.
//   - Requests to clients: a Func can ask a legacy client, see [Client]. The question goes
//     on the stream of the request in progress, else on that of the session.
//   - Events: the methods of MCP Events go to [Options].Events, in both eras. A stream of
//     events has its own limits, and ends with its client in the legacy era, too.
//   - Cancellation: notifications/cancelled cancels the context of a function in both
//     eras, and so does a modern HTTP client that disconnects. A legacy HTTP client
//     that disconnects cancels nothing, as its specification requires.
//   - Principals: clients with the same credentials, as Options.Principal says, are one
//     principal; without credentials, and on standard streams, all clients are. A session
//     belongs to the principal that opened it. Limits on what clients share are fair (see
//     package fair): a principal can neither use up what another needs nor displace it.
//   - Bounds: Options limit sessions, streams, subscriptions, requests in flight and
//     the size of a message. Answers from memory are encoded when they are written.
//     Writes over HTTP have deadlines; a client on standard streams that does not read
//     delays only itself.
//   - Ownership: Close ends all streams with their results, cancels requests in flight
//     and waits for every goroutine of the server. ServeIO and ServeHTTP return after
//     everything they started has ended.
//   - A function that panics is answered with an internal error; the server goes on.
//
// Authentication (Host, Origin, tokens) happens before ServeHTTP. Credentials are neither
// stored nor forwarded. Messages are parsed strictly: member names are case-sensitive
// and unique, and headers must match the body.
//
// # Why not mcp-go's server
//
// Measured on mcp-go v1.2.1: SetPrompts and SetResources empty a list before they
// fill it, so 22 of 986 lists read meanwhile were incomplete. No session of its
// transports records subscriptions, and nothing delivers resources/updated to a
// listen. Beyond 100 unread notifications it drops the rest silently: 270 of a burst
// of 1,000 arrived. It pages by name, so only three of ten resources with the same
// name were listed. A tool of a hostile upstream with a bad x-mcp-header panics the
// process. Its structs drop members that they do not know. ServeStdio has one session
// for the whole process. Stopping the server leaves listens without their result until
// a deadline. Working around all of these would take more code than this package.
package mcpserver
