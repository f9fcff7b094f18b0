// Package engine follows the MCP servers of a config, records what happens in a log, and runs the
// readers of that log. The commands of mcptrack use it, and so can your own program:
//
//	package main
//
//	import (
//		"context"
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
//		cfg, problems := config.Load(os.Args[1], config.Options{})
//		if cfg == nil {
//			log.Fatal(problems)
//		}
//		events, err := sqlitelog.Open(ctx, sqlitelog.Options{Dir: os.Args[2]})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer events.Close()
//		desired := engine.Desired{Config: cfg, Follow: &reload.Options{Path: os.Args[1]}}
//		e, err := engine.New(ctx, desired, events, engine.Options{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		hub := feed.New(feed.Options{Log: events})
//		server := &http.Server{Addr: os.Args[3], Handler: hub.Events()}
//		context.AfterFunc(ctx, func() { server.Shutdown(context.Background()) })
//		serve := func(context.Context) error { return server.ListenAndServe() }
//		if err := e.Run(ctx, engine.Reader(hub.Run), engine.Reader(serve)); err != nil && ctx.Err() == nil {
//			log.Println(err)
//		}
//	}
//
// # Order and loss
//
// The log has the order of the tracker's events. The tracker appends each event to the log in the
// step that changes its state, and readers see the event once the log has stored it. See package
// journal for what a log promises.
//
// # What is remembered
//
// The log remembers the digests of followed resources, the keys and digests of lists, and where to
// resume the subscriptions to events of servers (MCP Events): they follow from its events, or are
// stored in the order in which they were found. Contents and lists that changed while no process
// was running are published by the next process, with cause resync. So are the events about
// resources if only the change of their list was stored. A change that was announced, but not
// stored when a process was killed, may be published again.
//
// # Sharing
//
// With [Options.Shared] all processes on one NATS cluster divide the servers of their configs:
// the process that holds the lease of a server follows it. When a process dies, the others
// take over its servers within about [natslog.DefaultLease]. A process that joins gets its share
// within a minute, a few servers at a time. If a process was disconnected or suspended while
// another one took over a server, the events that it has not stored are dropped: the other process
// has compared the server with the log. After a takeover, a resource may have one more event within
// two seconds than with a single process. With [Options.FollowAll] every process follows all
// servers, as a gateway must, and the lease decides which one stores the events.
//
// # The end
//
// When the context of [Engine.Run] ends, the sources end, the tracker publishes outstanding
// changes, and everything is stored; only then do the readers end and are the leases released.
// The caller closes the log after Run.
//
// This package does not depend on HTTP: the caller passes the readers that show the log.
//
// Library: golang.org/x/sync/errgroup runs the parts until the first failure.
package engine
