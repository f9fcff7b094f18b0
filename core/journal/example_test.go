package journal_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	j, err := journal.Open(ctx, journal.Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	defer j.Close()
	for _, uri := range []string{"file:///a.md", "file:///b.md"} {
		err := j.Append(&event.Event{ServerID: "docs", ResourceURI: uri, Timestamp: time.Now(), Payload: event.ResourceUpdated{}})
		if err != nil {
			panic(err)
		}
	}
	for e, err := range j.Follow(ctx, 1) {
		if err != nil {
			panic(err)
		}
		ev, err := e.Event()
		if err != nil {
			panic(err)
		}
		fmt.Println(ev.Seq, ev.ResourceURI)
		if e.Seq == 2 {
			break
		}
	}
	// Output:
	// 1 file:///a.md
	// 2 file:///b.md
}
