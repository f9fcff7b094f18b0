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
// # Promises
//
//   - Consistent lists: a client sees either the old or the new catalog, never a mixture.
//     SetCatalog replaces all lists in one step. Later pages of a list come from the catalog
//     of the first page, or the cursor is rejected. A list_changed is sent only for lists
//     that changed, and only to clients to which these lists are visible.
//   - Order over stdio: subscription requests take effect, and are answered, in order of
//     arrival. An update to a resource follows the response to its subscription, and the
//     notifications for a request precede its response. Over HTTP this applies only within
//     one stream: an update on the GET stream may overtake the response to a POST.
//   - Loss: updates are sent only to subscribers; in the modern era they carry the
//     subscription id. Unread updates are stored as a set of URIs (see
//     core/internal/subscriptions), so a slow client never misses the latest change and
//     never delays another client.
//   - Replay: a client that resumes its session with Last-Event-ID receives everything sent
//     after that event. Without the header, it receives the messages of the last minute on
//     streams that have ended. A session may have several GET streams. The newest one sends
//     the messages, and repeats what an older stream announced in the last minute.
//   - Resumable calls: from 2025-11-25 on, a call that takes longer than 250 ms is answered
//     by a stream that the client can resume until one minute after the response. After
//     that, it receives an error instead of the response. For each call, at most 256 events
//     and 1 MiB are retained in addition to the response. A client that tries to resume
//     after the response receives status 405, which all clients treat as the end of the
//     stream. The modern era has no replay.
//   - Cleanup: a subscription ends immediately with its stream, session or connection. A
//     legacy HTTP session outlives its GET stream, so that a client that reconnects learns
//     what changed in the meantime. The session ends when the client sends DELETE, when it
//     has been idle for too long, or when its principal exceeds its limit of sessions.
//   - Restarts: with Options.SessionDir, a legacy HTTP session ends only after a DELETE or a
//     week without use. A server that receives a request for an unknown session restores its
//     version, capabilities and subscriptions from the directory. It notifies the client of
//     every list that differs from the one the client saw last, and of all resources to
//     which it subscribes. Requests in flight are lost; a client that resumes one receives
//     an error. The files survive any termination of the process, but not necessarily a
//     crash of the machine. If a session cannot be stored or read, it ends with the server:
//     the client receives 404, as specified.
//   - Requests to clients: a Func can send requests to a legacy client, see [Client]. They
//     are sent on the stream of the request in progress, or otherwise on the session's
//     stream.
//   - Skills: with Options.Skills, the catalog contains the skills that skills/list returns
//     (SEP-2640). A change of them is announced as a change of the resources.
//   - Events: [Options].Events handles the methods of MCP Events in both eras. An event
//     stream has its own limits and ends when its client disconnects, even in the legacy
//     era.
//   - Cancellation: in both eras, notifications/cancelled cancels the context of a Func. So
//     does a modern HTTP client that disconnects. When a legacy HTTP client disconnects,
//     nothing is cancelled, as its specification requires.
//   - Principals: clients with the same credentials share one principal, see
//     Options.Principal. Clients without credentials, and stdio clients, all share one
//     principal. A session belongs to the principal that opened it. Limits on shared
//     resources are fair (see package fair): a principal can neither use up what another
//     needs nor displace it.
//   - Limits: Options limits sessions, streams, subscriptions, requests in flight and
//     the size of a message. Responses that need no Func are encoded when they are written.
//     Writes over HTTP have deadlines; a stdio client that does not read delays only itself.
//   - Ownership: Close ends all streams with their results, cancels requests in flight
//     and waits for all goroutines of the server. ServeIO and ServeHTTP return after
//     everything they started has ended.
//   - If a Func panics, the client receives an internal error and the server continues.
//
// Authentication (Host, Origin, tokens) happens before ServeHTTP. Credentials are neither
// stored nor forwarded. Messages are parsed strictly: member names are case-sensitive
// and unique, and headers must match the body.
//
// # Why not mcp-go's server
//
// Measured on mcp-go v1.2.1: SetPrompts and SetResources empty a list before they fill it,
// so 22 of 986 concurrent reads were incomplete. Its sessions record no subscriptions, and
// nothing delivers resources/updated to a listen. It silently drops notifications when 100 are
// unread: of a burst of 1,000, 270 arrived. It pages by name, so it listed only three of
// ten resources with the same name. A tool of a hostile upstream with a bad x-mcp-header
// panics the process. Its structs drop unknown members. ServeStdio has one session for the
// whole process. A server that stops leaves listens without a result until a deadline.
// Working around all of these would take more code than this package.
package mcpserver
