package publish_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/publish"
)

// Follow servers, store what happens, and read the log while it grows. A real
// program keeps the directory and reads its servers from a file.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dir, _ := os.MkdirTemp("", "events-")
	defer os.RemoveAll(dir)
	events, err := journal.Open(ctx, journal.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	p, err := publish.New(ctx, publish.Options{Journal: events})
	if err != nil {
		log.Fatal(err)
	}
	p.Apply(&config.Config{Servers: []config.Server{{ID: "docs"}}}) // Enabled would start it
	reader := func(ctx context.Context) error {
		for entry, err := range events.Follow(ctx, 0) {
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
	}
	fmt.Println(p.Run(ctx, publish.Tasks{Readers: []publish.Task{reader}}))
	// Output:
	// 1 docs Pending
	// 2 docs Disabled
	// 3 docs Stopping
	// <nil>
}
