// Package session implements an MCP connection to one server: dialling, era detection, listing,
// subscribing, reading, calling tools and detecting lost connections. Package wire hides the
// differences between transports; this package hides the differences between protocol eras.
//
// # What a session promises
//
// A session never interprets an update. It collects the server's notifications in [Signals], a
// bounded dirty set that never blocks the transport: the set records which keys must be checked
// again, not what happened. A notification is only a hint; List and Read return the actual state.
// If notifications may have been lost (a stream ended, a set overflowed), the set reports a Gap,
// and the tracker must subscribe, list and read again, in this order.
//
// Every request has a deadline, regardless of the transport; [WithProgress] describes how deadlines
// are determined. If the connection is lost, the session ends: Done is closed and Err returns the
// reason. Close is idempotent, may be called from any goroutine, and returns once the server's
// process and all goroutines of the session are gone.
//
// # Order
//
// Signals are not ordered. If a notification precedes a response on the same stream, its signal is
// in the set before List or Read returns the response.
//
// Requests and responses have no types: raw ones preserve all members of a response, and allow a handshake
// to try both eras on one connection.
package session
