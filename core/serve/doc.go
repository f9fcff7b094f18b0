// Package serve is an MCP server of both protocol eras at one place: a catalog, the
// functions behind it, and who is subscribed, over standard streams and Streamable
// HTTP. The gateway and the vault are such servers.
//
// The legacy era (2024-11-05 to 2025-11-25) has sessions, resources/subscribe and a
// GET stream; the modern one (2026-07-28) has neither, and subscriptions/listen. A
// client picks by what it sends; both kinds may be connected at a time, to one
// endpoint, and what differs between them ends here. See
// https://modelcontextprotocol.io/specification for both. Not supported: batches,
// which only 2025-03-26 had; the SSE transport of 2024-11-05; logging.
//
// # Promises
//
//   - Lists are wholly old or wholly new. SetCatalog swaps all of them in one step,
//     and later pages of a list come from the catalog of its first page, or the
//     cursor is refused. A list_changed is sent for lists that really differ.
//   - Order: on standard streams subscribing is answered, and takes effect, in the
//     order of requests; an update of a resource comes after the answer or the
//     acknowledgement of its subscription, and the notifications of a request before
//     its answer. Over HTTP this holds within one stream; an update on the GET
//     stream may overtake the answer to a POST.
//   - Loss: updates go only to those who asked, tagged with the subscription id in
//     the modern era. What a client has not read yet is a set of URIs (see
//     core/subscriptions): a slow client loses no last change and delays nobody. A
//     client that comes back to its session with Last-Event-ID is told again what
//     came after that event, one without it what it was told in the last minute;
//     the modern era has no replay.
//   - Cleaning up: a subscription ends with its stream, its session or its
//     connection, at once. A legacy HTTP session outlives its GET stream, so that a
//     client that reconnects is told what changed in between; it ends by DELETE,
//     when idle, or to make room.
//   - Cancelling: notifications/cancelled ends the context of a function in both
//     eras, and so does the leaving of a modern HTTP client. A legacy HTTP client
//     that leaves cancels nothing, as its era wants it.
//   - Bounds: sessions, streams, subscriptions, requests in work and the size of a
//     message are limited by Options. What a client asks from memory is encoded
//     when it is written. Writes have deadlines over HTTP; a client on standard
//     streams that does not read delays itself.
//   - Ownership: Close ends all streams in good order, cancels what is in work and
//     waits until nothing of the server runs. ServeIO and ServeHTTP return after
//     everything that they started has ended.
//   - A function that panics answers an internal error; the server lives.
//
// Who may ask (Host, Origin, tokens) is decided before ServeHTTP. A session is bound
// to the Authorization header that it was opened with, whose value is only kept as a
// digest and never handed on. Messages are read strictly: names in their exact case,
// none twice, headers equal to the body.
//
// # Why not mcp-go's server
//
// Measured on mcp-go v1.2.1: SetPrompts and SetResources empty a list before they
// fill it, so that 22 of 986 lists asked for meanwhile were short. No session of its
// transports records subscriptions, and nothing delivers resources/updated to a
// listen. What a client has not read is dropped beyond 100 notifications, without a
// word: 270 of a burst of 1,000 arrived. Pages are cut by name, so that of ten
// resources of one name three were listed. A tool of a hostile upstream with a bad
// x-mcp-header panics the process. Its structs lose members that they do not know.
// ServeStdio has one session for the whole process. An end of the server leaves
// listens without their result until a deadline. To work around each of these is
// more than what is here.
package serve
