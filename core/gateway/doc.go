// Package gateway serves the catalogs of many servers as one MCP server. It merges the lists
// that a tracker has received from its servers under unique names, replaces the merged catalog
// in one step when something changes, and forwards each client request to the server that owns
// the item.
//
// # Names
//
// With a single server, all names stay unchanged. With several servers, the tool or prompt
// NAME of the server ID is exported as ID_NAME. All clients accept names of at most 64 ASCII
// letters, digits, "_", "-" and ".". If ID_NAME does not satisfy this, or could collide with
// another name, every other character is replaced with "_", the name is truncated to 55
// characters, and "_" and 8 hex digits are appended, taken from the SHA-256 of the ID, a zero
// byte and the NAME. A tool or prompt whose name would equal that of one of the gateway's own
// tools is also exported in this form. If the config gives a tool another name, that one is exported
// instead, and a tool of the server whose own name it is has the form with the digits. A name depends only on
// the config, the gateway's own tools, the server and the original name. It does not depend on the order of
// servers, on which servers are connected, or on their other items.
//
// URIs and URI templates stay unchanged, with these exceptions. A URI that several servers list,
// or that starts like a qualified URI, is exported in qualified form:
// mcptrack://server/ID/URI (ID with everything except letters, digits, "-", "." and "_"
// percent-encoded, URI unchanged). The same applies to a template without literal text after its
// scheme. A ui:// URI of MCP Apps keeps its scheme: ui://mcptrack/server/ID/REST, and so does a skill://
// URI. If one URI of a skill is exported in qualified form, all its URIs are. Every resource
// of every server can be read by its qualified URI, whether it is listed or not. Stored events
// contain the names that were valid when they were stored; see [Names].
//
// No server can take over the URIs of another server. A template never matches a URI that
// another server lists, even while that server is down, and a URI that matches templates of
// several servers is not found.
//
// # Promises
//
//   - Consistent lists: a change to any server's lists becomes visible in one step, at most one
//     second after it was detected, and only if the result differs.
//   - Updates: when a server announces an update of a resource, the clients that are subscribed to
//     that resource in the gateway are notified. For a resource that the config does not track, the
//     gateway subscribes upstream for as long as a client is subscribed (an ad-hoc subscription).
//   - Calls use the tracker's session with the server; progress, cancellation and errors
//     are forwarded. Client credentials are never forwarded; a server receives only the
//     credentials in its own config entry.
//   - What a server asks, and its log messages, are for the client whose requests are in progress in the
//     session, if there is exactly one, else for the only client of the session. Otherwise the server receives an
//     error that says why, and the messages are dropped.
//   - A legacy client that declares sampling, elicitation or roots, or sets a log level, has
//     its own sessions with legacy servers, from its first request until it disconnects: at most 64
//     per server and 256 in total. If no session can be opened, the client uses the tracker's session,
//     in which servers cannot send requests to clients.
//   - With [Options.Callers], all clients instead use the tracker's session, whatever they declare. A client whose
//     roots are not those that the server was told has its own session, and so have new clients of a server
//     that asked while requests of several were in progress. The server is told the most verbose log level that a
//     legacy client has set, and each receives messages from its own level on. A modern client uses a session for
//     one request at a time where the others have their own, if it declares roots and the server asks for
//     them, and if it wants log messages of a legacy server.
//   - A server that says that it supports both protocol eras serves each client in the client's era: clients of
//     the era in which it is not tracked use one more session together, unless they have their own. A program is
//     not started again for this for legacy clients.
//   - Between a modern client and a modern server, the client's capabilities, and results
//     that require input, are forwarded; a legacy client is sent the input requests instead. If a legacy server
//     asks for input during a request from a modern client, the client receives a result that requires input.
//     The request stays pending until the client repeats it with the answers, for at most 15 minutes.
//   - All clients see what the tracker's session lists. A tool that needs what a client lacks fails with this
//     reason.
//   - Tasks pass between a client and a server of the same era. Otherwise the client receives the server's error
//     for a tool that must be called as a task. Tasks continue while their client is disconnected, for at most 15
//     minutes after the last request if they run in a session of that client. [Options.Key] binds their ids to the
//     principal that started them, also after a restart. All clients without credentials are the same principal:
//     they must know the id, and they can list only the tasks started in their own connection or session.
//   - The skills (SEP-2640) of all servers are listed, as the tracker has listed them. A skill is omitted if one
//     of its files is not admitted by [Options.Allow] and [Options.Deny], because hosts expect to read all of them.
//     Their servers answer skills/get, for skills that they do not list too, and resources/directory/read if all
//     of them declare it. A server owns the files in its skills' entries, also those that it does not list.
//   - The extensions of all servers are declared; requests for an extension are forwarded to the
//     server that declares it, or that owns the specified resource. Instructions are merged under the
//     ids of their servers, up to 8 KiB.
//   - Everything that could deceive users is removed from items (see clean), and items that could break clients are
//     omitted and reported to [Options.Refused]. The bytes of an item stay the same when its server reconnects.
//   - A transparent gateway whose server has never been reached answers initialize and requests for lists with
//     the reason. Every request to a server that is down is answered with the reason and what to do.
//   - The items of a server that is down stay listed, marked with mcptrack/down in _meta, or
//     are removed, depending on [Options.OnDown]. A server that reconnects within Options.Grace
//     is not considered down: calls wait that long and are retried several times per second.
//   - Several gateways may use one tracker, each with some of its servers, and with its own ids for
//     them ([Options.Alias]). The ids in the tracker appear in nothing that clients receive, nor in
//     logs. No gateway affects another's subscriptions, tasks, clients and sessions, also when it stops.
//   - If the tracker connects its servers on demand, the items of a server that is asleep are
//     listed as if it were connected. A request wakes it, and waits until it is connected and its
//     lists are compared, or until that fails. The server stays awake until the client has
//     disconnected (for requests without a connection: until the request ends), and while a client
//     is subscribed to one of its resources, listens to one of its tasks, or has
//     started a task that has neither ended nor expired. tasks/list wakes no server.
//   - Items that [Options.Allow], [Options.Deny] and [Gateway.Filter] do not admit cannot be listed, read,
//     subscribed to or completed, and are omitted from read results, regardless of how their URIs
//     are written. The globs do not apply to the effects and results of tools, nor to the messages of prompts.
//   - A tool has the name and description in config.Server.Tools; what is compared with the lock are those
//     of the server. A result of a tool that is larger than config.Server.MaxResult is cut, and the whole is a
//     resource for the same principal for 15 minutes.
//   - With [Options.Guard], an item that differs from what was approved keeps its approved definition in
//     the lists, an item that was not approved is omitted, and requests for both are refused, as are those for a
//     URI that a server may take for another spelling. A request is compared with the newest list that the tracker
//     has received. A change that a server does not announce is found when the tracker requests its lists again:
//     see tracker.Options.Resync and Tracking.PollInterval.
//   - Ownership: Run owns every goroutine and stops when its context ends. Close closes the
//     mcpserver.Server; the owner of the tracker runs it.
package gateway
