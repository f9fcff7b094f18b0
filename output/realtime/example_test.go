package realtime_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// Prints the client events for one event.
func ExampleDryRun() {
	d := realtime.DryRun{W: os.Stdout}
	_, err := d.Write(&event.Event{
		ID: "3f9a1c20b7e4d581-42", ServerID: "docs", ResourceURI: "file:///guide.md",
		Timestamp: time.Date(2026, 11, 6, 10, 0, 0, 0, time.UTC), Payload: event.ResourceUpdated{},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"type":"conversation.item.create","event_id":"evt_mt_DORQNXDYYRXOBWHKZISM2ZQE","item":{"id":"mt_DORQNXDYYRXOBWHKZISM2ZQE","type":"message","role":"user","content":[{"type":"input_text","text":"Resource file:///guide.md updated for MCP server docs at 2026-11-06T10:00:00.000Z"}]}}
}

// Injects the updates of a tracker into a running call until the call ends.
func ExampleSession() {
	ctx := context.Background()
	t := tracker.New(tracker.Options{}) // and Apply, and Run
	s, err := realtime.NewSession(realtime.SessionOptions{
		Endpoint: realtime.Endpoint{
			Query:  map[string][]string{"call_id": {"rtc_abc123"}},
			Header: http.Header{"Authorization": {"Bearer " + os.Getenv("OPENAI_API_KEY")}},
		},
		Call: true,
		Delivery: realtime.DeliveryOptions{
			Injected: func(receipts []realtime.Receipt) {
				for _, r := range receipts {
					fmt.Println(r.ResourceURI, "after", r.Latency)
				}
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	_, events := t.Subscribe(ctx)
	go func() {
		for e := range events.Events() {
			s.Offer(e)
		}
		s.Finish()
	}()
	if err := s.Run(ctx); err != nil {
		log.Print(err)
	}
}
