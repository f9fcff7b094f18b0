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
	dir, err := os.MkdirTemp("", "events-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	events, err := journal.Open(context.Background(), journal.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()

	p, err := publish.New(context.Background(), publish.Options{Journal: events})
	if err != nil {
		log.Fatal(err)
	}
	p.Apply(&config.Config{Servers: []config.Server{{ID: "docs", Program: config.Program{Command: "docs-server"}}}}) // Enabled would start it
	ctx, stop := context.WithCancel(context.Background())
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
				return nil
			}
		}
		return nil
	}
	if err := p.Run(ctx, publish.Tasks{Readers: []publish.Task{reader}}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 docs Pending
	// 2 docs Disabled
}
