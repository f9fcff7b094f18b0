// Package cache keeps what was read from servers: the contents of resources, also
// of those made from a URI template, prompts, and results of tools. It is for
// showing things again without asking again; it never answers in a server's stead
// unless the server's own ttlMs allows it and the caller asks for that.
//
// # Who writes
//
// Users get a [View]: getters, which hand out values that share nothing that could
// be written, and clears. Only who fetches writes, through the [Shelf] of one
// session: what is kept lives as long as the session, and a Shelf that was closed
// refuses whatever arrives late.
//
// # Order
//
// Every answer is stored through a [Fetch] that was begun before its request was
// sent. An answer never replaces that of a request that was begun later. An update
// that is announced between the two ([Shelf.Updated]) makes the answer [Outdated]:
// it may be older than the update, is not stored, and must be fetched again. So
// once the last fetch has ended, what is kept is not older than the last update
// that was announced.
//
// # Bounds
//
// All shelves of a [Store] share one bound in bytes; what was used least recently
// goes first. A single answer may take a quarter of it.
//
// The rules for ttlMs and cacheScope are those of MCP 2026-07-28 (server/utilities/
// caching): absent or negative is 0, an absent scope is private. A Store belongs to
// one user with one set of credentials, so that private answers may be kept; what
// is handed on to others must look at Private.
package cache
