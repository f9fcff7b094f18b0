// Package gateway serves the catalogs of many servers as one MCP server. It merges what
// a tracker knows of its servers under unique names, replaces the merged catalog in one
// step when something changes, and forwards client requests to the server that has the item.
//
// # Names
//
// With a single server everything keeps its name. With several servers, the tool or prompt
// NAME of the server ID is exported as ID_NAME. All clients accept names of at most 64 ASCII
// letters, digits, "_", "-" and ".". If ID_NAME is not such a name, or could collide with
// another name, every other character becomes "_", the name is truncated to 55 characters, and
// "_" and 8 hex digits follow: of SHA-256 over the ID, a zero byte and the NAME. A tool or
// prompt that would get the name of one of the gateway's own tools is also exported in this
// form. A name depends only on the set of configured servers, the gateway's own tools, its
// server and its original name: not on the order of servers, nor on which servers are up or
// what else they list.
//
// URIs and URI templates stay unchanged. A URI that several servers list, or that begins like
// our qualified form, is exported in that form: mcptrack://server/ID/URI (ID with everything
// but letters, digits, "-", "." and "_" percent-encoded, URI unchanged). The same holds for a
// template without literal text beyond its scheme. A ui:// URI of MCP Apps keeps its scheme:
// ui://mcptrack/server/ID/REST. Every resource of every server can be read in qualified form,
// listed or not. Stored events carry the names that were valid when they were stored, see
// [Names].
//
// No server can take over the URIs of another. A template never resolves a URI that another
// server lists, even while that server is down, and a URI that matches templates of several
// servers is not found.
//
// # Promises
//
//   - Consistent lists: a change of any server becomes visible in one step, at most one
//     second after it was noticed, and only if something differs.
//   - Updates: what a server announces about a resource reaches the clients that
//     subscribed to it here. The gateway subscribes upstream to a resource that the config
//     does not track, for as long as a client is subscribed (an ad-hoc subscription).
//   - Calls use the session that the tracker keeps; progress, cancellation and errors
//     are forwarded. Credentials of clients are never forwarded; a server receives only the
//     credentials in its own config entry.
//   - A server's requests and messages during a client request reach that client and no
//     other. A legacy client that declares sampling, elicitation or roots, or sets a log
//     level, gets its own sessions with legacy servers, from its first request until it
//     leaves; at most 64 with one server and 256 in all. If none can be opened, it uses the
//     shared session, in which servers cannot ask.
//   - A server that speaks both eras serves each client in the client's era, whichever era it
//     is tracked in: legacy clients that can be asked something in their own sessions, modern
//     clients in a session that they share.
//   - Between a modern client and a modern server, the client's capabilities and results
//     that require input are forwarded; a legacy client is asked instead. If a legacy server
//     asks during a request of a modern client, the result requires input: the request waits
//     in its own session until it is repeated with the answers, at most 15 minutes.
//   - A legacy server that lists more for clients that can be asked something is listed for
//     each set of such capabilities, in a session that is closed afterwards, so that these
//     clients see everything. The first list request of such a client waits for that, at most
//     10 s. The difference is applied to the server's current list, and is determined again
//     after each change, less often if changes do not end.
//   - Tasks continue while their client is away, at most 15 minutes in a session of its own.
//     Options.Key binds their ids to the principal that began them. They stay valid over
//     restarts and are unknown to every other principal, without a request to the server.
//     Clients without credentials are one principal: they must know the id, and they list
//     only what began in their own connection or session. A tool that must be called as a task
//     can also be called in the ordinary way: by every client if its server is legacy, and by
//     legacy clients if its server is modern. The gateway waits for the task and returns its
//     result.
//   - Extensions of all servers are declared; their methods go to the server that declares
//     them, or that has the named resource. Instructions are merged under the ids of their
//     servers, at most 8 KiB.
//   - Items are cleaned of what could deceive (see clean), and their bytes stay the same
//     over reconnects.
//   - The items of a server that is down stay, marked with mcptrack/down in _meta, or
//     are removed, depending on [Options.OnDown]. A server that returns within Options.Grace
//     counts as never having been away: calls wait that long and retry several times a second.
//   - Items that [Options.Allow] and [Options.Deny] do not admit are not listed, read,
//     subscribed to or completed, and are not part of a read result, however their URIs are
//     written. The globs do not apply to the effects and results of tools, nor to the messages
//     of prompts.
//   - Items that could break clients are left out and reported to Options.Refused; they
//     affect neither the gateway nor other items.
//   - With Options.Pins a tool that differs from what its server first listed is left out,
//     also after a restart. A server that exceeds the limit of pins loses its new tools, never
//     a pin, and affects no other server.
//   - Ownership: Run owns every goroutine and ends with its context. Close closes the
//     mcpserver.Server; the tracker is run by its owner.
//
// Libraries: yosida95/uritemplate/v3 (RFC 6570) matches URIs with templates; gofrs/flock lets
// processes take turns to add pins; golang.org/x/time/rate bounds how often servers are probed.
package gateway
