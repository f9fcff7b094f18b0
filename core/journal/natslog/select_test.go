package natslog

import (
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// A selection has the entries of its server or resource in order, from its time on.
func TestRealSelect(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	s := new(journaltest.Source)
	store := func(e *event.Event) {
		t.Helper()
		if _, err := j.Store(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	of := func(server, uri string, p event.Payload) *event.Event {
		e := s.Next(uri)
		e.ServerID = server
		if p != nil {
			e.Payload = p
		}
		return e
	}
	store(of("docs", "file:///a", nil))                                                  // 1
	store(of("docs", "file:///b", nil))                                                  // 2
	store(of("mail", "file:///a", nil))                                                  // 3
	store(of("docs", "", event.ServerState{State: event.Ready}))                         // 4
	store(of("docs", "file:///a", event.ResourceUpdated{}))                              // 5, without a digest
	store(of("docs", "file:///a", nil))                                                  // 6
	store(of("docs", "file:///a", event.ResourceRemoved{}))                              // 7
	store(of("docs", "file:///a", event.ResourceUpdated{Digest: journaltest.Digest(9)})) // 8
	var middle time.Time
	for e := range j.Select(t.Context(), journal.Selection{}) {
		if e.Seq == 6 {
			middle = e.Stored
		}
	}
	for _, tt := range []struct {
		sel  journal.Selection
		want []uint64
	}{
		{journal.Selection{}, []uint64{1, 2, 3, 4, 5, 6, 7, 8}},
		{journal.Selection{ServerID: "docs"}, []uint64{1, 2, 4, 5, 6, 7, 8}},
		{journal.Selection{ServerID: "docs", URI: "file:///a"}, []uint64{1, 6, 7, 8}},
		{journal.Selection{ServerID: "docs", URI: "file:///a", After: middle}, []uint64{6, 7, 8}},
		{journal.Selection{ServerID: "mail", After: middle}, nil},
		{journal.Selection{ServerID: "nobody"}, nil},
	} {
		var got []uint64
		for e, err := range j.Select(t.Context(), tt.sel) {
			if err != nil {
				t.Fatalf("%+v: %v", tt.sel, err)
			}
			if ev, err := e.Event(); err != nil || ev.ID != e.ID {
				t.Errorf("%+v: %s, %v", tt.sel, e.Data(), err)
			}
			got = append(got, e.Seq)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.sel, got, tt.want)
		}
	}
	for range j.Select(t.Context(), journal.Selection{}) {
		break // ends the selection
	}
}

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
