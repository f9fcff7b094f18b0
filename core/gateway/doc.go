// Package gateway serves the catalogs of many servers as one MCP server. It merges what
// a tracker knows of its servers under unique names, replaces the merged catalog in one
// step when something changes, and forwards requests of clients to the server that has
// the item.
//
// # Names
//
// With a single server everything keeps its name. With several, the tool or prompt NAME
// of the server ID is exported as ID_NAME. Where that would not be a name that all
// clients accept (ASCII letters, digits, "_", "-" and ".", at most 64 characters), or
// could collide with another one, it is ID_NAME with every other character replaced by
// "_", cut to 55 characters, followed by "_" and 8 hex digits of SHA-256 over the ID, a
// zero byte and the NAME. A tool or prompt that would get the name of one of the
// gateway's own tools has this form, too. A name depends only on the set of configured
// servers, those tools, its server and its original name: not on their order, nor on
// which servers are up or what else they list.
//
// URIs and URI templates stay as they are. One that several servers list, or that begins
// like our own form, is exported as mcptrack://server/ID/URI (ID with everything but
// letters, digits, "-", "." and "_" percent-encoded, URI unchanged), and so is a template
// without literal text beyond its scheme. A ui:// URI of MCP Apps keeps its scheme:
// ui://mcptrack/server/ID/REST. Every resource of every server can be read in this form,
// listed or not. Stored events carry the names that held when they were stored, see [Names].
//
// No server can take over the URIs of another one. A URI that a server lists is never
// resolved by a template of another server, even while the first server is down, and a URI
// that matches templates of several servers is not found.
//
// # Promises
//
//   - Consistent lists: a change of any server becomes visible in one step, at most one
//     second after it was noticed, and only if something differs.
//   - Updates: what a server announces about a resource reaches the clients that
//     subscribed to it here. A resource that the config does not track is subscribed to
//     upstream for as long as a client is subscribed (an ad-hoc subscription).
//   - Calls use the session that the tracker keeps; progress, cancellation and errors
//     are forwarded. Credentials of clients are never forwarded; a server receives
//     those of its own entry in the config.
//   - What a server asks or says during a request reaches the client of that request and
//     no other. A legacy client that declares sampling, elicitation or roots, or sets a
//     log level, gets sessions of its own with legacy servers, from its first request
//     until it leaves; at most 64 with a server and 256 in all. If none can be opened it
//     shares one, in which servers cannot ask.
//   - A server that speaks both eras serves each client in the client's own, whichever it is
//     tracked in: legacy clients that can be asked something in their sessions, modern ones in
//     a session that they share.
//   - Between a client and a server of the modern era, the client's capabilities and
//     results that ask for input are forwarded; a legacy client is asked instead. What a
//     legacy server asks during a request of a modern client is a result that asks for
//     input: the request waits in a session of its own until it is repeated with the
//     answers, at most 15 minutes.
//   - A legacy server that lists more for clients that can be asked something is listed
//     for each set of such capabilities, in a session that is closed afterwards, so
//     that these clients see all of it. The first list request of such a client waits for
//     that, at most 10 s. The difference is laid over what the server lists at any time, and
//     found out again after each change, ever less often if changes do not end.
//   - Tasks keep running while their client is away, at most 15 minutes in a session of
//     its own. Their ids are bound to the principal that began them by Options.Key, so they
//     stay valid over restarts and are unknown to every other principal, without a request to
//     the server. Clients without credentials are one principal: they must know the id, and
//     list only what began in their own connection or session. A tool that must be called as a
//     task can also be called in the ordinary way, by every client if its server is of the
//     legacy era and by legacy clients if it is of the modern one: the gateway waits for
//     the task and returns its result.
//   - Extensions of all servers are declared; their methods go to the server that
//     declares them, or that has the resource named. Instructions are merged, at most
//     8 KiB, under the ids of their servers.
//   - Items are cleaned of what could deceive (see clean), and their bytes stay the same
//     over reconnects.
//   - The items of a server that is down stay, marked with mcptrack/down in _meta, or
//     are removed, as [Options.OnDown] says. A server that returns within Options.Grace
//     is treated as never having been away, and calls wait for the server that long;
//     meanwhile they try to reach it several times a second.
//   - What [Options.Allow] and [Options.Deny] do not admit is not listed, read, subscribed to,
//     completed or part of what is read, however its URI is written. They do not apply to
//     what tools do and return, nor to the messages of prompts.
//   - Items that could break clients are left out and reported to Options.Refused;
//     they affect neither the gateway nor other items.
//   - With Options.Pins a tool that differs from what its server first listed is left out,
//     over restarts too. A server with more pins than there may be of one server loses its
//     new tools, never a pin, and no other server is affected.
//   - Ownership: Run owns every goroutine and ends with its context. Close closes the
//     serve.Server; the tracker is run by its owner.
//
// Libraries: yosida95/uritemplate/v3 (RFC 6570) to match URIs with templates; gofrs/flock lets
// processes add pins in turn; golang.org/x/time/rate bounds how often servers are probed.
package gateway
