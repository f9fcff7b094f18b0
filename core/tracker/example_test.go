package tracker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Follow a server and print what changes. Dial is replaced here so that the example needs no real
// server; without it, the tracker connects to the servers of the config.
func Example() {
	server := sessiontest.New()
	server.SetQuietly("file:///guide.md", "first edition")
	var serving sync.WaitGroup
	dial := func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		r, w, wait := server.Pipe()
		serving.Go(wait)
		return session.OverIO(ctx, r, w, srv, opts)
	}

	t := tracker.New(tracker.Options{Dial: dial, Texts: true})
	t.Apply(&config.Config{Servers: []config.Server{config.Stdio("docs", "docs-server")}})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	_, events := t.Subscribe(context.Background()) // before Run, and with a context that does not end
	var running sync.WaitGroup
	running.Go(func() {
		if err := t.Run(ctx); !errors.Is(err, context.Canceled) { // it is the cause of ctx
			fmt.Println(err)
		}
	})

	for e := range events.Events() { // ends after the last event of Run
		switch p := e.Payload.(type) {
		case event.SubscriptionActive:
			fmt.Printf("following %d resource (%s)\n", p.Resources, p.Mode)
			running.Go(func() {
				baselineOf(t, "docs")
				server.Set("file:///guide.md", "second edition")
			})
		case event.ResourceUpdated:
			fmt.Printf("%s: %q became %q\n", e.ResourceURI, *p.PreviousText, *p.Text)
			stop()
		}
	}
	running.Wait()
	serving.Wait()
	// Output:
	// following 1 resource (push)
	// file:///guide.md: "first edition" became "second edition"
}

// baselineOf waits until the content of the server's only resource is known.
func baselineOf(t *tracker.Tracker, server string) {
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		if srv, _ := t.Snapshot().Server(server); len(srv.Resources) == 1 && !srv.Resources[0].Digest.IsZero() {
			return
		}
	}
}
