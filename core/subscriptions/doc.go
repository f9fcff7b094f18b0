// Package subscriptions is the server side of subscribing: who asked to be told
// of what, and what each of them has not been told yet.
//
// A [Subscriber] is one channel to a client: a session of the initialize era, with
// URIs that come and go by resources/subscribe and resources/unsubscribe, or one
// subscriptions/listen of 2026-07-28 with a filter that never changes. The package
// knows neither: whoever speaks the protocol opens a subscriber, waits on its C,
// sends what Take returns, and closes it.
//
// # Promises
//
//   - Loss: a subscriber has a set of dirty keys and no queue. A client that reads
//     slowly is told less often, but after the last change of a resource it is
//     always told once more. Nobody waits for a slow client.
//   - Repetition: changes between two Takes are one entry, however many they were.
//   - Order: keys are taken in the order in which they first became dirty, lists
//     before URIs, so that a new resource is listed before its update arrives.
//   - Freshness: an update names a key and carries no content. The caller makes new
//     content readable first and calls Updated after, so a read after the
//     notification is at least as new as the change.
//   - Bounds: memory follows the number of subscriptions, which Options bounds, and
//     never the number of changes.
//   - Ownership: the package starts no goroutine. After Close a subscriber holds
//     nothing in its Manager.
package subscriptions
