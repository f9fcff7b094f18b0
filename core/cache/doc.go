// Package cache stores the results of requests to servers: the contents of resources,
// also of those that a URI template expands to, prompts, and results of tools. It exists
// to show results again without repeating the request; it never answers in place of a
// server unless the server's ttlMs allows it and the caller asks for that.
//
// # Ownership
//
// Readers have a [View]: its getters return copies, and its clears forget entries. Only
// the owner of a session writes, through the [Session] of the cache: the entries live as
// long as the session, and a Session that was closed refuses late results.
//
// # Order
//
// Every result is stored through a [Fetch] that was begun before its request was sent. A
// result never replaces the result of a request that was begun later. An update that is
// announced between the two ([Session.Updated]) makes the result [Outdated]: it may be
// older than the update, is not stored, and must be fetched again. So once the last
// Fetch has ended, no entry is older than the last update that was announced.
//
// # Bounds
//
// All sessions of a [Store] share one bound in bytes; the least recently used entries are
// evicted first. A single result may take a quarter of it.
//
// The rules for ttlMs and cacheScope are those of MCP 2026-07-28 (server/utilities/
// caching): an absent or negative ttlMs is 0, an absent scope is private. A Store is used
// by one user with one set of credentials, so it may store private results; code that
// passes results on to other users must check Private.
package cache
