// Package gateway is one MCP server over the catalogs of many: what a tracker
// knows of its servers, listed again under names of its own, refreshed as one step,
// and what clients ask for, passed on to the server that has it.
//
// # Names
//
// With one server everything keeps its name. With several, the tool or prompt NAME
// of the server ID is exported as ID_NAME. Where that would not be a name that all
// clients take (ASCII letters, digits, "_", "-" and ".", at most 64 of them), or not
// be unique whatever else the servers offer, it is ID_NAME with every other
// character replaced by "_", cut to 55 characters, and "_" with 8 hex digits of
// SHA-256 over the ID, a zero byte and the NAME. A name depends on nothing but the
// set of configured servers, its server and its old name: not on their order, nor on
// who is up or what else is listed.
//
// URIs and URI templates stay as they are. One that several servers list, or that
// begins as our own form does, is exported as mcptrack://server/ID/URI (ID with
// everything but letters, digits, "-", "." and "_" percent-encoded, URI unchanged):
// nobody gets a URI by listing that of another. The form can be read for every
// resource of every server, listed or not.
//
// # Promises
//
//   - Whole lists: a change of any server becomes visible in one step, a second at
//     most after it was noticed, and only if something really differs.
//   - Updates: what a server announces about a resource reaches those who subscribed
//     to it here. A resource that is not tracked is followed for as long as somebody
//     is subscribed.
//   - Calls go to the session that the tracker keeps, with progress, cancellation
//     and errors passed on. What a client authenticates with stays here; a server
//     sees the credentials of its own entry in the config.
//   - A server that is down keeps its items, marked with mcptrack/down in _meta, or
//     loses them, as [Options.OnDown] says; one that comes back within Options.Grace
//     was never away. Calls wait for it that long.
//   - Items that clients could choke on are left out and told to Options.Refused;
//     they harm neither the gateway nor the other items.
//   - Ownership: Run owns every goroutine and ends with its context. The serve.Server
//     is closed by Close, the tracker is run by its owner.
//
// Libraries: bmatcuk/doublestar/v4 for the globs, as in configs;
// yosida95/uritemplate/v3 (RFC 6570) to find the template that a URI belongs to.
package gateway
