// Package subscriptions is the server side of subscribing: it records of what each client
// asked to be notified, and of which changes it has not been notified yet.
//
// A [Subscriber] is one channel to a client: a session of the initialize era, with
// URIs that come and go by resources/subscribe and resources/unsubscribe, or one
// subscriptions/listen of 2026-07-28 with a filter that never changes. The package is
// independent of both: the protocol's code opens a subscriber, waits on its C, sends
// what Take returns, and closes it.
//
// # Promises
//
//   - Loss: a subscriber has no queue of changes, but a set of keys (lists and URIs) that
//     are dirty: changed, and not taken for sending yet. A client that reads slowly is
//     notified less often, but always once more after the last change of a resource.
//     Nothing waits for a slow client.
//   - Repetition: any number of changes of a key between two Takes is one entry.
//   - Order: Take returns keys in the order in which they first became dirty, lists
//     before URIs, so that a new resource is listed before its update arrives.
//   - Freshness: an update names a key and carries no content. The caller makes new
//     content readable first and calls Updated after, so a read after the
//     notification is at least as new as the change.
//   - Bounds: memory follows the number of subscriptions, which Options bounds, and
//     never the number of changes. No principal can use up what another needs.
//   - Ownership: the package starts no goroutine. After Close a subscriber holds
//     nothing in its Manager.
package subscriptions
