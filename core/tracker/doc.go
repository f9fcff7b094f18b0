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
// Order: all events have one total order, with consecutive numbers; events about one resource are in the
// order of its reads. No event is missing between a snapshot and the events that follow it.
//
// Loss: whatever could not be tracked is published as a state, a gap or a count. A server may fail to
// announce a change: every resource whose updates are pushed is also read once per safety interval
// (5 min), and a server that failed to announce two changes is polled. What disappears and returns is
// compared with what was published, unless the config or a client deselected it in between.
//
// Liveness: a server that does not show that it is alive is considered dead within 30 s; while it works on a
// client's request, when that request times out. It delays only its own worker.
//
// On demand: with [Options.OnDemand], a server is connected while somebody needs it ([Tracker.Demand])
// and for its idle time after that. Otherwise it is asleep: Pending, with the reason [event.Asleep], its
// last known lists, and no process. When it wakes, everything is compared. The session of a server that
// somebody needs never ends because of its idle time.
//
// Ownership: Run owns the workers, one for each server, and returns when all of them have finished. A worker
// owns its session, closes it, and waits for every job. Run closes the log last, so that every subscriber
// receives the last events.
//
// # From a notification to the log
//
//	Apply ─▶ Run ─▶ worker ─▶ sessionFollower (one session) ─▶ coalescer
//	                  │ dial, retry      │ syncs, reads and pings are jobs
//	                  └──── commit ◀─────┘ state + event, one lock ─▶ log
//
// Run (tracker.go) starts, updates and stops workers. A worker (worker.go) dials; a sessionFollower
// (follow.go) then tracks the session in the worker's goroutine. It subscribes, lists and reads (sync.go), in an
// order in which a change between two steps is announced. It takes the notifications that the session
// collected and marks what they name; the coalescer (internal/coalesce) decides when that is read, in a job
// (read.go). worker.updated (publish.go) commits the new state and its event to the store under one lock
// (store.go), which appends them to the log, and is the only place that knows what was published.
//
// A [Client] makes requests on behalf of a user in the same session. Its subscriptions go through the
// sessionFollower, because only that may change the session's subscription.
package tracker
