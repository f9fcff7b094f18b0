// Package eventsource is the client side of MCP Events (SEP-3415): it follows the events that the
// server of one session offers, and reports which resources and lists may have changed. It decides
// nothing: its owner takes a [Report] and reads, lists and publishes.
//
// # Order and loss
//
// An event is a hint. The resource that it names is only marked, in a bounded set. Events
// that are about no resource are kept in order, up to a bound. Events that cannot be kept, or
// that the server reports as missing, are a gap: everything has to be compared. A cursor is
// handed out together with the events up to it, so an owner that stores both never skips an
// event; an event that was not taken is delivered again after a restart.
//
// Events may be repeated; the last 10,000 of each subscription are recognised.
//
// A server that delivers by webhook learns that an event was taken once it is in the report.
// Therefore the subscription of an earlier session or run is not continued: it is
// ended and made again, from the cursor that the owner has.
//
// # Bounds
//
// Types, subscriptions, streams, waiting messages and bytes, marked URIs, kept events and
// the waits that a server can ask for are bounded. A server that floods, is silent or returns
// endless pages costs only its own followers a read or a comparison now and then.
//
// # Ownership
//
// [Subscriber.Run] owns all goroutines and returns when they have ended, which is soon after its
// context has. Take and C may be called at any time.
package eventsource
