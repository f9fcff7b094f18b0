// Package session is one live MCP connection to one server: dial, era, list,
// subscribe, read, call, liveness. It is the only package that knows mcp-go's
// client, and everything that differs between transports and protocol eras ends
// here.
//
// # What a session promises
//
// A session never decides what an update means. What the server pushes is folded
// into [Signals], a bounded dirty set that never blocks the transport: it says
// which keys to look at again, not what happened. A notification is only a hint;
// state is what List and Read return. When pushes may have been lost (a stream
// ended, a set overflowed) the set says Gap, and whoever tracks must subscribe
// again, list again and read again, in this order.
//
// Every request has a deadline, also where the transport would ignore it. A
// session that lost its server ends by itself: Done is closed and Err tells why.
// Close is idempotent, may be called from anywhere, and returns once the server's
// process and every goroutine of the session are gone.
//
// # Order
//
// Signals have no order among each other. A signal that was raised before an
// answer of the server arrived is in the set before List or Read returns it.
//
// Libraries: mark3labs/mcp-go for its transports (framing, event streams,
// session ids). Its client is not used: requests here are raw, so that no member
// of an answer is lost, with string ids, and the handshake may move from one era
// to the other on one and the same transport.
package session
