// Package tracker keeps one session to every server of a desired set and
// publishes what changes, until it is told to stop.
//
// # What it promises
//
// States, not edges: once a resource has been quiet for the window (2 s) plus one
// read, while its server is connected, the last event about it tells its current
// content. Changes in between may be merged, and a change that is taken back
// within one window, or while the server is away, is invisible. Nothing is lost
// silently: what could not be followed is told as a state, a gap or a count. A
// resource that leaves the list and comes back with other content is told as changed,
// also if its server tells only of the list; of those that have left, up to 10,000 of
// a server are remembered. What the config or a client stops to follow is forgotten:
// followed again, it is new.
//
// Order: events about one resource are in the order of what was read; all events
// are in one total order with numbers without holes (see core/bus). A snapshot and
// the events after it join without a gap.
//
// Isolation: every server has one worker, a goroutine that owns all state about
// it. A server that hangs, floods or crashes holds up its own worker only.
//
// Death: a server that gives no sign of life is found dead within 30 s. It is given
// more while it has a request of a client to answer, up to what that may take: one
// that does one thing at a time looks the same as one that is frozen.
//
// # How it works
//
// Apply sets what is wanted; Run is the one loop that starts, changes and ends
// workers until that is so. A worker dials, then follows its session: it subscribes
// to what it knows, lists, subscribes to what the list added, then reads every
// resource whose content it cannot know, in this order, because a change between
// two of these steps is announced by then. Notifications only mark things dirty.
// The coalescer decides when a dirty resource is read and what is told of it.
//
//	Apply ─▶ Run (reconcile) ─▶ worker ─▶ follower (one session) ─▶ coalescer
//	                              │ dial, back off      │ walks, reads, pings are jobs
//	                              └──────── commit ◀────┘ state + event, one lock ─▶ bus
//
// Ownership: Run owns the workers and returns when all are gone; a worker owns its
// session, closes it, and waits for every job. The bus is closed last, so that no
// consumer misses the end.
//
// A [Client] is a server as a user sees it: requests whose answers are kept (core/cache)
// and told, and subscriptions beside those of the config. Its requests go straight to
// the session; what concerns the subscription is asked of the follower, which alone
// changes it. What clients keep lives as long as the session.
//
// Libraries: yosida95/uritemplate expands URI templates (RFC 6570, all levels; BSD);
// cenkalti/backoff counts the waits between attempts (maintained, MIT, no
// dependencies).
package tracker
