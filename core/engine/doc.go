// Package engine follows MCP servers and puts what happens into a log: a config, an engine, a
// log, and readers. It is what the commands of mcptrack run, and what a program of your own may:
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
// The log has the order of the tracker's events. The tracker puts each event into the log in the
// step that changes its state, and readers see the event when the log has stored it. See package
// journal for what a log promises.
//
// # What is remembered
//
// The digests of followed resources, the keys and digests of lists, and where to resume the
// subscriptions to events of servers (MCP Events) follow from the log, or are stored in the order
// in which they were found. Contents and lists that changed while no process was running are
// published by the next one, with cause resync. So are events about resources of a list whose
// change was stored without them. A change that was announced but not stored when a process was
// killed may be published again.
//
// # Sharing
//
// With [Options.Shared] all processes on one NATS cluster divide the servers of their configs:
// each server is followed by the process that holds its lease. When a process dies, the others
// take its servers over within about [natslog.DefaultLease]; one that joins gets its share within
// a minute, a few servers at a time. Events that a disconnected or suspended process still has to
// store about a server that another process took over are dropped: the other process has compared
// the server with the log. After a takeover a resource may have one more event within two seconds
// than it would have from one process. With [Options.FollowAll] every process follows all servers,
// as a gateway must, and the lease decides which one stores the events.
//
// # The end
//
// When the context of [Engine.Run] ends, the sources end, the tracker publishes outstanding
// changes, everything is stored, and only then do the readers end and the leases are released.
// The caller closes the log after Run.
//
// This package knows nothing of HTTP: what shows the log are readers that the caller brings.
//
// Library: golang.org/x/sync/errgroup runs the parts until the first failure.
package engine
