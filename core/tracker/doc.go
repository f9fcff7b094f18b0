// Package tracker keeps one session to every server of a desired set and publishes what
// changes on them, until its context ends.
//
// # Contract
//
// States, not edges: once a resource has not changed for the window (2 s) plus the time of one
// read, while its server is connected, the last event about it describes its current content.
// Changes in between may be merged. A change that is undone within one window, or while the
// server is away, is invisible.
//
// Loss: nothing is lost silently. Whatever could not be tracked is published as a state, a gap
// or a count. A resource that leaves the list and returns with other content is published as
// changed, even if its server announces only the change of the list; the tracker remembers up
// to 10,000 such resources per server. A resource that neither the config nor a client selects
// any more is forgotten: if it is selected again, it is new.
//
// Unannounced changes: a server may fail to announce a change. Every resource whose
// updates are pushed is read in the background once per safety interval (5 min). All
// are compared, slowly, when the server announces that its list of resources changed. A
// server that missed two changes is polled from then on.
//
// Eras: a server that speaks both eras is tracked in the modern one, unless it announces more in
// the legacy one, or missed changes: see eras. The findings are remembered until the server
// reports another name or version.
//
// Order: the events of one resource are in the order of its reads. All events are in one
// total order, with sequence numbers without holes (see core/journal). A snapshot and the
// events after it join without a gap.
//
// Isolation: every server has one worker, a goroutine that owns all state about it. A
// server that hangs, floods or crashes delays only its own worker.
//
// Events: a server may offer events of its own (MCP Events). They are hints, like notifications,
// but can be resumed. The resources that they name are read and compared, with cause event. If
// the server reports missing events, everything is compared, as after a gap. A server
// whose events report the changes of its resources is polled ten times more rarely. See
// serverEvents.
//
// Liveness: a server that gives no sign of life counts as dead within 30 s. While it works on a
// client's request, it has until that request times out: a server that handles one request
// at a time is indistinguishable from one that hangs.
//
// Ownership: Run owns the workers and returns when all have ended. A worker owns its
// session, closes it, and waits for every job. Run closes the log last, so that every
// subscriber receives the last events.
//
// # From a notification to the log
//
// Apply sets the desired servers. Run (tracker.go) is the one loop that starts, changes and
// ends workers. A worker (worker.go) dials; then a sessionFollower (follow.go) tracks the
// session, in the worker's goroutine:
//
//  1. Sync (sync.go): subscribe to the known resources, list, subscribe to those that the list
//     added, then read every resource whose content may be outdated. The order matters: a
//     change between two of these steps is announced.
//  2. The session's reader collects notifications. sessionFollower.run takes them and marks
//     resources and lists as dirty.
//  3. The coalescer (internal/coalesce) decides when a dirty resource is read.
//     sessionFollower.startReads reads it in a job (read.go), and run passes the result to
//     sessionFollower.answered.
//  4. The coalescer calls worker.updated (publish.go), which commits the new state and its
//     event to the store under one lock (store.go). The store publishes the event to the log.
//
// So one notification crosses goroutines three times before it is in the log: session → worker,
// worker → read job, read job → worker.
//
//	Apply ─▶ Run ─▶ worker ─▶ sessionFollower (one session) ─▶ coalescer
//	                  │ dial, retry      │ syncs, reads and pings are jobs
//	                  └──── commit ◀─────┘ state + event, one lock ─▶ log
//
// A config edit takes this way: Apply keeps the config and wakes Run; Run offers each changed entry
// to its worker; the worker adopts it (worker.adopt). If only the selection changed, the
// sessionFollower retargets the session; otherwise a new session begins.
//
// A [Client] makes requests for a user in the same session. Their results are cached
// (core/cache) and published, and the client can subscribe to more resources than the config
// selects. Its requests go directly to the session; its subscriptions go through the
// sessionFollower, which alone changes the session's subscription. The cache and the
// subscriptions end with the session.
package tracker
