// Package tracker keeps one session to every server of a desired set and publishes what
// changes on them, until its context ends.
//
// # Contract
//
// States, not edges: once a resource has not changed for the window (2 s) plus the time of one
// read, while its server is connected, the last event about it describes its current content.
// Changes in between may be merged, and a change that is undone within one window, or while the
// server is away, is invisible.
//
// Loss: nothing is lost silently. Whatever could not be tracked is published as a state, a gap
// or a count. A resource that leaves the list and comes back with other content is published as
// changed, also if its server announces only the change of the list; up to 10,000 resources per
// server are remembered for this. A resource that the config or a client no longer selects is
// forgotten: selected again, it is new.
//
// Unannounced changes: a server may fail to announce a change. Every resource whose
// updates are pushed is read in the background once per safety interval (5 min), and all
// are compared, slowly, when the server announces that its list of resources changed. A
// server that missed two changes is polled from then on.
//
// Eras: a server that speaks both is tracked in the modern era, unless it announces more in the
// legacy one, or missed changes: see eras. What was found out is remembered until the server
// says another name or version.
//
// Order: the events of one resource are in the order of its reads; all events are in one
// total order with sequence numbers without holes (see core/journal). A snapshot and the
// events after it join without a gap.
//
// Isolation: every server has one worker, a goroutine that owns all state about it. A
// server that hangs, floods or crashes delays its own worker only.
//
// Events: a server may offer events of its own (MCP Events). They are hints like notifications,
// but can be resumed: the resources that they name are read and compared, with cause event; if
// the server says that events are missing, everything is compared, as after a gap. A server
// whose events report the changes of its resources is polled ten times more rarely. See
// eventFollower.
//
// Liveness: a server that gives no sign of life counts as dead within 30 s. While it works on a
// request of a client, it has until that request's timeout: a server that handles one request
// at a time is indistinguishable from one that hangs.
//
// Ownership: Run owns the workers and returns when all have ended; a worker owns its
// session, closes it, and waits for every job. Run closes the log last, so that every
// subscriber receives the last events.
//
// # Structure
//
// Apply sets the desired servers; Run is the one loop that starts, changes and ends
// workers accordingly. A worker dials, then a follower tracks the session: a sync
// subscribes to the resources that are known, lists, and subscribes to those that the
// list added; then every resource whose content may be outdated is read. The order
// matters: a change between two of these steps is announced. Notifications only mark
// resources and lists as dirty; the coalescer decides when a dirty resource is read and
// what is published about it.
//
//	Apply ─▶ Run (reconcile) ─▶ worker ─▶ follower (one session) ─▶ coalescer
//	                              │ dial, retry         │ syncs, reads and pings are jobs
//	                              └──────── commit ◀────┘ state + event, one lock ─▶ log
//
// A [Client] makes requests for a user, in the same session: their results are cached
// (core/cache) and published, and it can subscribe to resources in addition to those of
// the config. Its requests go straight to the session; its subscriptions go through the
// follower, which alone changes the subscription of the session. The cache and the
// subscriptions end with the session.
package tracker
