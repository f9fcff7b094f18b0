package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// Follow servers and handle what happens, like mcptrack watch.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cfg := &config.Config{Servers: []config.Server{{ID: "docs"}}} // Enabled would connect to it
	events := journal.NewMemory(journal.MemoryOptions{})
	e, err := engine.New(ctx, engine.Desired{Config: cfg}, events, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	printing := engine.Reader(func(ctx context.Context) error {
		for entry, err := range journal.FollowToEnd(ctx, events, e.First()) {
			if err != nil {
				return err
			}
			if e, err := entry.Event(); err == nil {
				fmt.Println(e.Seq, e.ServerID, e.Payload.(event.ServerState).State)
			}
			if entry.Seq == 2 {
				stop()
			}
		}
		return nil
	})
	fmt.Println(e.Run(ctx, printing))
	// Output:
	// 1 docs Pending
	// 2 docs Disabled
	// 3 docs Stopping
	// <nil>
}
