// Package mcpserver implements an MCP server for both protocol eras. It serves a catalog,
// calls the functions behind it and notifies subscribers, over stdio and Streamable HTTP.
// The gateway and the vault are built on it.
//
// The legacy era (2024-11-05 to 2025-11-25) has sessions, resources/subscribe and a GET
// stream; the modern era (2026-07-28) replaces all three with subscriptions/listen. One
// endpoint serves clients of both eras simultaneously. The client's messages select the era;
// callers of this package rarely need to know it.
// See https://modelcontextprotocol.io/specification for both. Not supported: batches,
// which only 2025-03-26 had; the SSE transport of 2024-11-05.
//
// # Promises
//
//   - Consistent lists: a client sees either the old or the new catalog, never a mixture.
//     SetCatalog replaces all lists in one step. Later pages of a list come from the catalog
//     of the first page, or the cursor is rejected. A list_changed is sent only for lists
//     that differ, and only to the clients that see them.
//   - Order over stdio: subscription requests take effect, and are answered, in the order of
//     arrival. An update of a resource follows the response to its subscription, and the
//     notifications of a request precede its response. Over HTTP this holds within one
//     stream; an update on the GET stream may overtake the response to a POST.
//   - Loss: updates go only to subscribers; in the modern era they carry the subscription id.
//     Unread updates are held as a set of URIs (see core/internal/subscriptions), so a slow
//     client never misses the latest change and never delays another client.
//   - Replay: a client that resumes its session with Last-Event-ID gets everything sent after
//     that event; without the header it gets what was sent in the last minute on streams that
//     have ended. A session may have several GET streams. The newest gets the messages. It
//     also repeats what an older stream sent, unless the client answers a ping on the older
//     stream.
//   - Resumable calls: from 2025-11-25 on, a call that takes longer than 250 ms is answered
//     by a stream that the client can resume until a minute after the response. Later it
//     gets an error instead of the response. At most 256 events and 1 MiB, besides the
//     response, are held for a call. After the response there is nothing to resume: the
//     server answers 405, which all clients take as the end. The modern era has no replay.
//   - Cleanup: a subscription ends immediately with its stream, session or connection. A
//     legacy HTTP session outlives its GET stream, so that a client that reconnects learns
//     what changed meanwhile. The session ends by DELETE, when it is idle, or when its
//     principal exceeds its limit of sessions.
//   - Restarts: with Options.SessionDir a legacy HTTP session ends only by DELETE or after a
//     week without use. A server that does not know a session restores its version,
//     capabilities and subscriptions from the directory, and notifies the client of every
//     list that differs from the one it saw last and of all resources that it subscribes to.
//     Requests in flight are lost; a client that resumes one gets an error. The files survive
//     any end of the process, but not necessarily of the machine. If a session cannot be
//     stored or read, it ends with the server: the client gets 404, as specified.
//   - Requests to clients: a Func can send requests to a legacy client, see [Client]. They go
//     on the stream of the request in progress, else on the stream of the session.
//   - Events: [Options].Events handles the methods of MCP Events in both eras. A stream of
//     events has its own limits and ends when its client disconnects, even in the legacy era.
//   - Cancellation: notifications/cancelled cancels the context of a Func in both eras, and
//     so does a modern HTTP client that disconnects. A legacy HTTP client that disconnects
//     cancels nothing, as its specification requires.
//   - Principals: clients with the same credentials are one principal, see Options.Principal;
//     without credentials, and on stdio, all clients are one. A session belongs to the
//     principal that opened it. Shared limits are fair (see package fair): a principal can
//     neither use up what another needs nor displace it.
//   - Bounds: Options limit sessions, streams, subscriptions, requests in flight and
//     the size of a message. Responses from memory are encoded when they are written.
//     Writes over HTTP have deadlines; a stdio client that does not read delays only itself.
//   - Ownership: Close ends all streams with their results, cancels requests in flight
//     and waits for every goroutine of the server. ServeIO and ServeHTTP return after
//     everything they started has ended.
//   - A panic of a Func is answered with an internal error; the server continues.
//
// Authentication (Host, Origin, tokens) happens before ServeHTTP. Credentials are neither
// stored nor forwarded. Messages are parsed strictly: member names are case-sensitive
// and unique, and headers must match the body.
//
// # Why not mcp-go's server
//
// Measured on mcp-go v1.2.1: SetPrompts and SetResources empty a list before they fill it,
// so 22 of 986 concurrent reads were incomplete. Its sessions record no subscriptions, and
// nothing delivers resources/updated to a listen. It silently drops notifications beyond 100
// unread ones: 270 of a burst of 1,000 arrived. It pages by name, so it listed only three of
// ten resources with the same name. A tool of a hostile upstream with a bad x-mcp-header
// panics the process. Its structs drop unknown members. ServeStdio has one session for the
// whole process. A server that stops leaves listens without a result until a deadline.
// Working around all of these would take more code than this package.
package mcpserver
