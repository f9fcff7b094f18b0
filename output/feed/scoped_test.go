package feed

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/scoped"
)

// A log that shows only some of its events has holes, also at its end. A client passes them, wherever
// it begins, and the streams end without an error.
func TestLogWithHoles(t *testing.T) {
	from := journal.NewMemory(journal.MemoryOptions{Keep: 10_000})
	add := func(server string, n int) {
		for i := range n {
			e := updated(server, fmt.Sprint("file:///", i))
			if err := from.Append(&e); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("quiet~1", 2)
	add("busy~2", 500)
	add("quiet~1", 1)
	add("busy~2", 500)
	log := scoped.New(from, func() map[string]string { return map[string]string{"quiet~1": "quiet"} }, "")
	h := New(Options{Log: log, Ring: 16})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // sent to once
	go func() { done <- h.Run(ctx) }()
	<-h.first
	id := func(n uint64) string { return event.FormatID(from.Epoch(), n) }
	type view struct {
		last string
		want []string
	}
	base := serveHandler(t, h)
	var streams []*stream
	for _, v := range []view{{id(0), []string{id(1), id(2), id(503)}}, {id(1), []string{id(2), id(503)}}, {id(503), nil}, {id(700), nil}, {id(1003), nil}, {"", nil}} {
		s := connect(t, base, "/events", v.last)
		for _, want := range v.want {
			if got := s.events(1)[0]; got.id != want || member(t, got, "serverId") != "quiet" {
				t.Fatalf("after %q: %+v, want %s", v.last, got, want)
			}
		}
		if v.last == "" {
			s.next() // its place in the log is known only now
		}
		streams = append(streams, s)
	}
	add("busy~2", 20)
	add("quiet~1", 1)
	for _, s := range streams {
		if got := s.events(1)[0]; got.id != id(1024) {
			t.Errorf("the next event is %+v", got)
		}
	}
	add("busy~2", 1)
	began := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
