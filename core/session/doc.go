// Package session is one live MCP connection to one server: dial, era, list, subscribe, read, call,
// liveness. Package wire hides the differences between transports; this package hides the
// differences between protocol eras.
//
// # What a session promises
//
// A session never decides what an update means. It collects what the server pushes in [Signals], a
// bounded dirty set that never blocks the transport: it says which keys to look at again, not what
// happened. A notification is only a hint; List and Read return the state. If pushes may have been
// lost (a stream ended, a set overflowed), the set reports a Gap, and the tracker must subscribe,
// list and read again, in this order.
//
// Every request has a deadline, even if the transport would ignore it; [WithProgress] describes the
// one policy. If the server is lost, the session ends: Done is closed and Err returns why. Close is
// idempotent, may be called from any goroutine, and returns once the server's process and all
// goroutines of the session are gone.
//
// # Order
//
// Signals are not ordered. If a notification precedes a response on the same stream, its signal is
// in the set before List or Read returns the response.
//
// The library's typed requests are not used: raw requests keep all members of a response, have
// string ids, and let a handshake try both eras on one connection.
package session
