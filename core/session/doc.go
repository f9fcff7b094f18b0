// Package session is one live MCP connection to one server: dial, era, list, subscribe, read,
// call, liveness. Package wire hides the differences between transports; this package hides
// those between protocol eras.
//
// # What a session promises
//
// A session never decides what an update means. What the server pushes is folded
// into [Signals], a bounded dirty set that never blocks the transport: it says
// which keys to look at again, not what happened. A notification is only a hint;
// state is what List and Read return. When pushes may have been lost (a stream
// ended, a set overflowed) the set says Gap, and the tracker must subscribe again,
// list again and read again, in this order.
//
// Every request has a deadline, even if the transport would ignore it; see [WithProgress] for
// the one policy. A session whose server is lost ends: Done is closed and Err returns why.
// Close is idempotent, may be called from anywhere, and returns once the server's process and
// every goroutine of the session are gone.
//
// # Order
//
// Signals are not ordered. If a notification and an answer come on one stream, and the
// notification comes first, its signal is in the set before List or Read returns the answer.
//
// The library's typed requests are not used: raw ones keep all members of an answer, have
// string ids, and allow a handshake to try both eras on one connection.
package session
