// Package session is one live MCP connection to one server: dial, era, list,
// subscribe, read, call, liveness. What differs between transports is package wire
// below it; what differs between protocol eras ends here.
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
// Every request has a deadline, also where the transport would ignore it; there is
// one policy for it, see [WithProgress]. A session that lost its server ends by
// itself: Done is closed and Err returns why. Close is idempotent, may be called from
// anywhere, and returns once the server's process and every goroutine of the session
// are gone.
//
// # Order
//
// Signals have no order among each other. A signal that was raised before an
// answer of the server arrived is in the set before List or Read returns it, where
// both came on one stream.
//
// Requests are raw, so that no member of an answer is lost, with string ids, and the
// handshake may move from one era to the other on one and the same transport.
package session
