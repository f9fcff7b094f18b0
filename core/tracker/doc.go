// Package tracker maintains one session with each server in the applied config and publishes
// changes on these servers, until its context ends.
//
// This program follows one server and prints every change:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"os"
//		"os/signal"
//
//		"github.com/mcptrack/mcptrack/core/config"
//		"github.com/mcptrack/mcptrack/core/tracker"
//	)
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
//		defer stop()
//		// or config.HTTP("docs", "https://docs.example/mcp")
//		server := config.Stdio("demo", "mcptrack", "demo-server")
//		t := tracker.New(tracker.Options{})
//		t.Apply(&config.Config{Servers: []config.Server{server}})
//		_, events := t.Subscribe(context.Background())
//		go t.Run(ctx)
//		for e := range events.Events() { // ends after the last event of Run
//			fmt.Println(e)
//		}
//	}
//
// # Three rules
//
// Subscribe before Run: a stream starts when it is made, so that one made later misses the first
// events. Subscribe also returns the state of all servers at that moment; nothing is missed between
// the two.
//
// Contexts: the context of [Tracker.Run] ends the tracking. Changes that were announced are still
// read and published, and all processes and goroutines end; then every stream ends by itself. The
// context of [Tracker.Subscribe] ends only its stream, and that stream lacks the last events.
// Therefore pass context.Background() to Subscribe, and end Run. The context of a [Client]'s request
// ends only that request; a request also ends with its session.
//
// The error of Run: it is always the cause of its context, such as context.Canceled, and may be
// ignored. A server that fails never ends Run: its failure is an [event.ServerState] with the state
// [event.Backoff] and an error, and the tracker tries again. A config with problems has no tracker:
// config.Load returns them.
//
// # Contract
//
// States, not transitions: once a resource has been unchanged for the debounce window (2 s) plus
// the duration of one read, while its server is connected, the last event about it describes its
// current content. Intermediate changes may be merged. A change that is reverted within one window,
// or while the server is disconnected, is not detected.
//
// Loss: nothing is lost silently. Whatever could not be tracked is published as a state, a gap or a
// count. A resource that disappears from the list and returns with different content is published
// as changed, even if its server only announces the change to the list; the tracker remembers up to
// 10,000 such resources per server. A listed resource that is no longer selected by the config or by a
// client is forgotten: if it is selected again, it is treated as new. A server that is removed from the
// config and returns is compared with what was published.
//
// Unannounced changes: a server may fail to announce a change. Every resource whose updates are
// pushed is read in the background once per safety interval (5 min). When the server announces a
// change to its list of resources, all resources are compared at a low rate. After a server has
// failed to announce two changes, it is polled.
//
// Eras: a server that supports both protocol eras is tracked in the modern era, unless it announces
// more in the legacy era or failed to announce changes; see eras. The findings are remembered until
// the server reports a different name or version.
//
// Order: events about one resource are published in the order of its reads. All events have one
// total order, with consecutive sequence numbers (see core/journal). There is no gap between a
// snapshot and the events that follow it.
//
// Isolation: every server has one worker, a goroutine that owns all of the server's state. A server
// that hangs, crashes or floods the tracker with messages only delays its own worker.
//
// Events: a server may offer its own events (MCP Events). They serve as hints, like notifications,
// but their delivery can be resumed. The resources that they name are read and compared, with cause
// event. If the server reports that events are missing, everything is compared, as after a gap. A
// server whose events report the changes to its resources is polled ten times less often. See
// serverEvents.
//
// Liveness: a server that does not show that it is alive is considered dead within 30 s. While the
// server works on a client's request, it has until that request times out, because a server that
// handles one request at a time cannot be distinguished from a server that hangs.
//
// On demand: with [Options.OnDemand], a server is connected while somebody needs it
// ([Tracker.Demand]) and for its idle time after that. Otherwise it is asleep: Pending, with the
// reason [status.Asleep], its last known lists, and no process. Demand wakes it; then the tracker
// compares everything, and publishes what has changed, with cause resync. The session of a server
// that somebody needs never ends because of its idle time: a request that was preceded by Demand
// either uses a session that stays, or finds the server dormant ([Tracker.Dormant]).
//
// Ownership: Run owns the workers and returns when all of them have finished. A worker owns its
// session, closes it, and waits for every job. Run closes the log last, so that every subscriber
// receives the last events.
//
// # From a notification to the log
//
// Apply sets the servers to track. Run (tracker.go) is the only loop that starts, updates and stops
// workers. A worker (worker.go) dials; then a sessionFollower (follow.go) tracks the session, in
// the worker's goroutine:
//
//  1. Sync (sync.go): subscribe to the known resources, load the lists, subscribe to the resources
//     added by the lists, then read every resource whose content may be outdated. The order
//     ensures that a change between two of these steps is announced.
//  2. The session's reader collects notifications. sessionFollower.run takes them and marks
//     resources and lists as dirty.
//  3. The coalescer (internal/coalesce) decides when a dirty resource is read.
//     sessionFollower.startReads reads it in a job (read.go), and run passes the result to
//     sessionFollower.answered.
//  4. The coalescer calls worker.updated (publish.go), which commits the new state and its
//     event to the store under one lock (store.go). The store appends the event to the log, together with
//     the state that it describes. It is the only place that knows what was published.
//
// A notification therefore crosses goroutines three times before it is in the log: session →
// worker, worker → read job, read job → worker.
//
//	Apply ─▶ Run ─▶ worker ─▶ sessionFollower (one session) ─▶ coalescer
//	                  │ dial, retry      │ syncs, reads and pings are jobs
//	                  └──── commit ◀─────┘ state + event, one lock ─▶ log
//
// A config edit is processed as follows: Apply stores the config and wakes Run; Run offers each
// changed entry to its worker; the worker adopts it (worker.adopt). If only the selection changed,
// the sessionFollower retargets the session; otherwise the worker opens a new session.
//
// A [Client] makes requests on behalf of a user in the same session. Their results are cached
// (core/cache) and published, and the client can subscribe to resources in addition to those
// selected by the config. Several users of one tracker are told apart by the owner of their Clients
// ([Tracker.ClientOf]): none ends the subscriptions of another. A Client's requests go directly to
// the session; its subscriptions go through the sessionFollower, because only the sessionFollower
// may change the session's subscription. The cache and the subscriptions are discarded when the
// session ends.
package tracker
