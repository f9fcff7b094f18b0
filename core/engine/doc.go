// Package engine follows the MCP servers in a config, records their events in a log, and runs the
// readers of that log. It is used by the commands of mcptrack, and can be used in other programs:
//
//	package main
//
//	import (
//		"context"
//		"errors"
//		"log"
//		"net/http"
//		"os"
//		"os/signal"
//
//		"github.com/mcptrack/mcptrack/core/config"
//		"github.com/mcptrack/mcptrack/core/engine"
//		"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
//		"github.com/mcptrack/mcptrack/core/reload"
//		"github.com/mcptrack/mcptrack/output/feed"
//	)
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
//		defer stop()
//		if len(os.Args) != 4 {
//			log.Fatal("usage: follow CONFIG FOLDER ADDRESS")
//		}
//		cfg, problems := config.Load(os.Args[1], config.Options{})
//		if cfg == nil {
//			log.Fatal(problems)
//		}
//		events, err := sqlitelog.Open(ctx, sqlitelog.Options{Dir: os.Args[2]})
//		if err != nil {
//			log.Fatal(err)
//		}
//		desired := engine.Desired{Config: cfg, Follow: &reload.Options{Path: os.Args[1]}}
//		e, err := engine.New(ctx, desired, events, engine.Options{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		hub := feed.New(feed.Options{Log: events})
//		server := &http.Server{Addr: os.Args[3], Handler: hub.Events()}
//		context.AfterFunc(ctx, func() { server.Shutdown(context.Background()) })
//		serve := func(context.Context) error { return server.ListenAndServe() }
//		err = e.Run(ctx, engine.Reader(hub.Run), engine.Reader(serve))
//		if err := errors.Join(err, events.Close()); err != nil && ctx.Err() == nil {
//			log.Fatal(err)
//		}
//	}
//
// # Three rules
//
// Readers before Run: pass them to [Engine.Run], which starts them before the first event. A reader
// made by [Events] receives every event of this run; any other reader of the log may begin at
// [Engine.First].
//
// Contexts: the context of Run ends the sources and the tracker. The contexts of readers end later,
// once they can read the last event; see Shutdown. A reader that returns nil only ends itself.
//
// The error of Run: it is the first error of a part, such as an address in use. Errors that a part
// returns after its own context has ended are ignored. A part that ends for another reason when the
// context of Run ends, as the HTTP server above does, must not return that as an error, or the
// caller checks the context, as above. A server that fails never ends Run: its failure is an event.
//
// # Order and loss
//
// The log contains the tracker's events in their original order. The tracker appends each event to
// the log in the same step in which it changes its state, and readers receive the event once the
// log has stored it. For the guarantees that a log provides, see package journal.
//
// # Stored state
//
// The log stores the digests of followed resources, the keys and digests of lists, and the positions in the
// events of servers. Contents and lists that changed while no process was running are published by the next
// process, with cause resync. A change that was announced, but not stored before a process was killed, may be
// published again. What differs from the lock file is published as lock.drift, once for each change, also
// across restarts; see [Options.Lock] and [Engine.Verdicts].
//
// # Sharing
//
// With the role [Shares], all processes on one NATS cluster divide their servers among themselves: the process
// that holds the lease for a server follows it. If a process dies, the others take over its servers within
// about [natslog.DefaultLease]; one that joins receives its share within a minute. Events that a process has
// not stored when another takes over their server are dropped, because the other compares the server with the
// log. After a takeover, a resource may have one more event within two seconds than with a single process.
// With the role [Serves], a process follows all servers, as a gateway must, and stores the events of those
// whose lease it holds; see [tracker.Tracker.TakeOver].
//
// # Shutdown
//
// When the context of [Engine.Run] ends, the sources are stopped, the tracker publishes outstanding
// changes, and everything is stored; only then are the readers stopped and the leases released. The
// caller must close the log after Run.
//
// This package does not depend on HTTP: the caller passes the readers that make the log available.
//
// Library: golang.org/x/sync/errgroup runs the parts until the first one fails.
package engine
