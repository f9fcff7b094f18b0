// Package gateway serves the catalogs of many servers as one MCP server. It merges the lists
// that a tracker has received from its servers under unique names, replaces the merged catalog
// in one step when something changes, and forwards each client request to the server that owns
// the item.
//
// # Names
//
// With a single server, all names stay unchanged. With several, the tool or prompt NAME of the server ID is
// exported as ID_NAME. If that has characters that clients do not accept, is longer than 64, or could collide
// with another name, other characters become "_", the name is cut to 55 characters, and "_" and 8 hex digits
// of the SHA-256 of ID, a zero byte and NAME follow. A name depends only on the config, the gateway's own tools,
// the server and the original name, not on other servers or items. See [Names].
//
// A URI that several servers list, or that begins like a qualified URI, is exported in qualified form,
// mcptrack://server/ID/URI; ui:// and skill:// URIs keep their scheme. Every resource of every server can be
// read by its qualified URI. No server can take over the URIs of another: a template never matches a URI that
// another server lists, even while that server is down, and a URI that matches templates of several servers
// is not found.
//
// # Contract
//
// Lists: a change to any server's lists becomes visible in one step, at most one second after it was
// detected, and only if the result differs. All clients see what the tracker's session lists. What could deceive
// users is removed from items, and items that could break clients are omitted ([Options.Refused]). The
// items of a server that is down stay, marked with mcptrack/down in _meta, or are removed ([Options.OnDown]).
// Items of a server that is asleep are listed as if it were connected; a request wakes it.
//
// Filters: what [Options.Allow], [Options.Deny] and [Gateway.Filter] do not admit cannot be listed, read,
// subscribed to or completed. They do not apply to what tools do and return, nor to the messages of prompts.
// With [Options.Guard], an item that differs from what was approved keeps its approved definition in the lists,
// an item that was not approved is omitted, and requests for both are refused.
//
// Updates: when a server announces an update of a resource, the clients that are subscribed to it are notified.
// For a resource that the config does not track, the gateway subscribes for as long as a client does.
//
// Calls: progress, cancellation and errors are forwarded; credentials of clients never. Calls to a server that
// has just lost its connection wait for Options.Grace. A result larger than config.Server.MaxResult is cut, and
// the whole is a resource for the same principal for 15 minutes.
//
// Sessions: clients share the tracker's session. A legacy client that declares sampling, elicitation or roots, or
// sets a log level, has its own with legacy servers, at most 64 per server and 256 in total; with
// [Options.Callers], only if it must. A server of both eras serves each client in the client's era. What a
// server asks is for the client whose requests are in progress in the session, if there is exactly one, else
// for the only client of the session; otherwise the server receives an error that says why. A modern client
// receives a result that requires input instead, and has 15 minutes to repeat the request.
//
// Tasks pass between a client and a server of the same era, and continue while their client is disconnected,
// for at most 15 minutes if they run in a session of that client. [Options.Key] binds their ids to the principal
// that started them, also after a restart. All clients without credentials are one principal.
//
// Skills: a skill is omitted if one of its files is not admitted, because hosts read all of them.
//
// Sharing: several gateways may use one tracker, each with its own servers and ids ([Options.Alias]). None
// affects another's subscriptions, tasks, clients and sessions, also when it stops.
//
// Ownership: Run owns every goroutine and stops when its context ends. Close closes the
// mcpserver.Server; the owner of the tracker runs it.
package gateway
