// Package eventsource follows the events (MCP Events, SEP-3415) that the server of one
// session offers, and says what they make worth a look. It decides nothing: its owner takes
// a [Batch] and reads, lists and publishes.
//
// # Order and loss
//
// An event is a hint. What it names is only marked, in a bounded set; the events of types
// that are about no resource are kept in order, up to a bound. Whatever cannot be kept, or
// that the server says is missing, is a gap: everything is to be compared. A cursor is handed
// out together with the events up to it, so that an owner that stores both never passes an
// event by; one that was not taken is delivered again after a restart.
//
// Events may come twice, and the last 10,000 of each subscription are recognised.
//
// A server that delivers by webhook learns that an event was taken once it is in the batch.
// What it made of a subscription of an earlier session or run is therefore not continued: the
// subscription is ended and made again, from the cursor that the owner has.
//
// # Bounds
//
// Types, subscriptions, streams, messages and bytes that wait, marked URIs, kept events and
// the waits that a server can ask for are bounded. A server that floods, is silent or hands
// out endless pages costs its own followers a read or a comparison now and then, nothing else.
//
// # Ownership
//
// [Source.Run] owns all goroutines and returns when they have ended, which is soon after its
// context has. Take, C and Covers may be called at any time.
package eventsource
