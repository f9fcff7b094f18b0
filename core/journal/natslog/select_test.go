package natslog

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// A consumer ends with its node; the selection continues with another one, without repeating an
// entry.
func TestRealSelectOutlivesConsumers(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	s := new(journaltest.Source)
	const events = 2*prefetch + 10 // more than one request reads
	journaltest.AppendN(t, j, s, events)
	last := uint64(0)
	for e, err := range j.Select(t.Context(), journal.Selection{ServerID: "docs"}) {
		if err != nil || e.Seq != last+1 {
			t.Fatalf("%d after %d: %v", e.Seq, last, err)
		}
		if last = e.Seq; last != 10 {
			continue
		}
		stream, err := j.store.js.Stream(t.Context(), j.store.opts.Stream)
		if err != nil {
			t.Fatal(err)
		}
		for name := range stream.ConsumerNames(t.Context()).Name() {
			if err := stream.DeleteConsumer(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last != events {
		t.Errorf("%d of %d events", last, events)
	}
}
