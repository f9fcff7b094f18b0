package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// state returns an event about a server.
func state(server string, s event.State) event.Event {
	return event.Event{ServerID: server, Payload: event.ServerState{State: s}}
}

// updated returns an event about a resource.
func updated(server, uri string, version byte) event.Event {
	return event.Event{ServerID: server, ResourceURI: uri, Payload: event.ResourceUpdated{Digest: catalog.Digest{version}}}
}

// summary returns events in a readable form: their subjects and numbers.
func summary(events []*event.Event) string {
	var out []string
	for _, e := range events {
		about := e.ServerID + e.ResourceURI
		if g, ok := e.Payload.(event.Gap); ok {
			from, _ := strings.CutPrefix(g.From, e.ID[:17])
			about = fmt.Sprintf("%s after %s to", g.Reason, from)
		}
		out = append(out, fmt.Sprint(about, " ", e.Seq))
	}
	return strings.Join(out, ", ")
}

func TestOneOrderForAll(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{})
	const publishers, each, consumers = 4, 500, 3
	var readers, writers sync.WaitGroup
	got := make([][]uint64, consumers)
	for i := range consumers {
		s := m.Subscribe(t.Context())
		readers.Go(func() {
			for e := range s.Events() {
				got[i] = append(got[i], e.Seq)
			}
			if err := s.Err(); err != nil {
				t.Error(err)
			}
		})
	}
	for range publishers {
		writers.Go(func() {
			for range each {
				m.Publish(state("s", event.Ready))
			}
		})
	}
	writers.Wait()
	_ = m.Close()
	readers.Wait()
	for i, seqs := range got {
		if len(seqs) != publishers*each {
			t.Fatalf("consumer %d got %d events, want %d", i, len(seqs), publishers*each)
		}
		for j, seq := range seqs {
			if seq != uint64(j+1) {
				t.Fatalf("consumer %d: event %d has number %d", i, j, seq)
			}
		}
	}
}

// A slow consumer gets a gap and the last event of every subject, and continues.
func TestSlowConsumerGetsTheState(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{Keep: 4, Lag: 4})
	m.Publish(updated("docs ", "before", 1)) // 1
	slow, quick := m.Subscribe(t.Context()), m.Subscribe(t.Context())
	var all []*event.Event
	for _, e := range []event.Event{
		updated("docs ", "a", 1), updated("docs ", "b", 2), updated("docs ", "a", 3), // 2 to 4
		state("docs", event.Connecting), state("wiki", event.Ready), state("docs", event.Ready), // 5 to 7
		{ServerID: "docs list", Payload: event.ListChanged{List: catalog.Tools}},   // 8
		{ServerID: "docs list", Payload: event.ListChanged{List: catalog.Prompts}}, // 9
		{ServerID: "docs list", Payload: event.ListChanged{List: catalog.Tools}},   // 10
	} {
		m.Publish(e)
		batch, _ := quick.Take()
		all = append(all, batch...)
	}
	if len(all) != 9 {
		t.Errorf("the quick one got %s", summary(all))
	}
	if got, want := summary(slow.Next()), "slow after 1 to 6, docs b 3, docs a 4, wiki 6, docs 7, docs list 8, docs list 9, docs list 10"; got != want {
		t.Errorf("the slow one got\n%s\nwant\n%s", got, want)
	}
	m.Publish(updated("docs ", "c", 1)) // 11
	if got := summary(slow.Next()); got != "docs c 11" {
		t.Errorf("then it got %s", got)
	}
	// Again, and this time it gets less than it has room for.
	for range 5 {
		m.Publish(updated("docs ", "c", 2)) // 12 to 16
	}
	if got := summary(slow.Next()); got != "slow after 11 to 12, docs c 13, docs c 14, docs c 15, docs c 16" {
		t.Errorf("then it got %s", got)
	}
	for range 4 {
		m.Publish(updated("docs ", "c", 2))
	}
	if got := summary(slow.Next()); got != "docs c 17, docs c 18, docs c 19, docs c 20" {
		t.Errorf("then it got %s", got)
	}
}

// A consumer that is behind when the stream ends also gets the state.
func TestSlowConsumerAtTheEnd(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{Keep: 2, Lag: 2})
	s := m.Subscribe(t.Context())
	for range 4 {
		m.Publish(updated("docs ", "a", 1))
	}
	_ = m.Close()
	if got := summary(s.Next()); got != "slow after 0 to 2, docs a 3, docs a 4" {
		t.Errorf("it got %s", got)
	}
	if s.Next() != nil || s.Err() != nil {
		t.Errorf("the stream did not end with the log: %v", s.Err())
	}
}

// A follower sees in its entries which one is the gap and which ones belong to it.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{Keep: 2, Lag: 2})
	m.Publish(updated("docs ", "a", 1))
	var got []string
	for e, err := range m.Follow(t.Context(), 1) {
		if err != nil {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			break
		}
		got = append(got, fmt.Sprintf("%d gap %v again %v more %v", e.Seq, e.Gap != nil, e.Again, e.More))
		if ev, err := e.Event(); err != nil || e.ID != event.FormatID(m.Epoch(), e.Seq) || e.Gap != nil && ev.Payload != event.Payload(*e.Gap) {
			t.Errorf("entry %s is %+v, %v", e.ID, ev, err)
		}
		if e.Seq == 1 {
			for _, uri := range []string{"b", "a", "a"} {
				m.Publish(updated("docs ", uri, 2))
			}
		}
		if e.Seq == 4 {
			m.Publish(updated("docs ", "a", 3))
			_ = m.Close()
		}
	}
	want := []string{
		"1 gap false again false more false",
		"2 gap true again false more true", "2 gap false again true more true", "3 gap false again false more true", "4 gap false again false more false",
		"5 gap false again false more false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRemovedServerIsForgotten(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{Keep: 1, Lag: 1})
	s := m.Subscribe(t.Context())
	m.Publish(updated("docs", " a", 1))
	m.Publish(state("docs", event.Ready))
	m.Publish(updated("wiki", " a", 1))
	m.Publish(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools}})
	m.Publish(event.Event{ServerID: "wiki", Payload: event.ServerState{State: event.Stopping, Reason: "shutdown"}})
	m.Publish(event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Stopping, Reason: "removed"}})
	if got := summary(s.Next()); got != "slow after 0 to 5, wiki a 3, wiki 5, docs 6" {
		t.Errorf("it got %s", got)
	}
}

func TestLeavingEndsTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{})
		cause := errors.New("gone fishing")
		ctx, cancel := context.WithCancelCause(t.Context())
		left, closed := m.Subscribe(ctx), m.Subscribe(t.Context())
		m.Publish(state("docs", event.Ready))
		if left.Err() != nil {
			t.Errorf("before the end: %v", left.Err())
		}
		cancel(cause)
		closed.Close()
		closed.Close()
		synctest.Wait()
		m.Publish(state("docs", event.Ready))
		for s, want := range map[*Subscription]error{left: cause, closed: context.Canceled} {
			if got := len(s.Next()); got != 1 {
				t.Errorf("got %d events, want the one before leaving", got)
			}
			if s.Next() != nil || !errors.Is(s.Err(), want) {
				t.Errorf("ended with %v, want %v", s.Err(), want)
			}
		}
		if len(m.subs) != 0 {
			t.Errorf("the log still keeps %d subscriptions", len(m.subs))
		}
		_ = m.Close()
		if !errors.Is(left.Err(), cause) {
			t.Errorf("the end of the log changed the reason to %v", left.Err())
		}
	})
}

func TestSubscribeAfterClose(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{})
	m.Publish(state("docs", event.Ready))
	_ = m.Close()
	_ = m.Close()
	if s := m.Subscribe(t.Context()); s.Next() != nil || s.Err() != nil {
		t.Errorf("a stream of a closed log continues, or ends with %v", s.Err())
	}
}

// A signal may refer to events that were already taken; every event that was not taken is
// signalled.
func TestTakeDoesNotWait(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{})
	s := m.Subscribe(t.Context())
	if batch, ended := s.Take(); len(batch) != 0 || ended {
		t.Fatalf("%d events, ended %v", len(batch), ended)
	}
	m.Publish(state("docs", event.Ready))
	if batch, ended := s.Take(); len(batch) != 1 || ended {
		t.Fatalf("%d events, ended %v", len(batch), ended)
	}
	<-s.Ready()
	if batch, ended := s.Take(); len(batch) != 0 || ended {
		t.Fatalf("%d events, ended %v", len(batch), ended)
	}
	m.Publish(state("docs", event.Ready))
	<-s.Ready()
	_ = m.Close()
	if batch, ended := s.Take(); len(batch) != 1 || !ended {
		t.Fatalf("%d events, ended %v", len(batch), ended)
	}
}

// Events stops when its consumer stops. The rest of the batch is lost, but not the stream.
func TestEventsCanBeLeft(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{})
	s := m.Subscribe(t.Context())
	m.Publish(state("docs", event.Ready))
	for range s.Events() {
		break
	}
	m.Publish(state("wiki", event.Ready))
	_ = m.Close()
	var got []*event.Event
	for e := range s.Events() {
		got = append(got, e)
	}
	if summary(got) != "wiki 2" {
		t.Errorf("then it got %s", summary(got))
	}
}

// A follower that falls behind by many bytes in few events gets a gap. One event is always queued,
// however large.
func TestLagIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{LagBytes: 1 << 20, KeepBytes: 1 << 20})
	s := m.Subscribe(t.Context())
	text := strings.Repeat("x", 300<<10)
	large := func(uri string, text string) event.Event {
		return event.Event{ServerID: "docs", ResourceURI: uri, Payload: event.ResourceUpdated{Digest: catalog.Digest{1}, Text: &text}}
	}
	for range 3 {
		m.Publish(large("a", text))
	}
	if batch, _ := s.Take(); summary(batch) != "docsa 1, docsa 2, docsa 3" {
		t.Errorf("within the limit: %s", summary(batch))
	}
	for _, uri := range []string{"a", "b", "a", "a"} {
		m.Publish(large(uri, text))
	}
	if batch, _ := s.Take(); summary(batch) != "slow after 3 to 4, docsb 5, docsa 6, docsa 7" {
		t.Errorf("beyond it: %s", summary(batch))
	}
	var long event.ListChanged
	for i := range 50_000 {
		long.Added = append(long.Added, fmt.Sprintf("file:///%030d", i))
	}
	m.Publish(event.Event{ServerID: "docs", Payload: long})
	if batch, _ := s.Take(); summary(batch) != "docs 8" {
		t.Errorf("one that is larger: %s", summary(batch))
	}
	m.Publish(state("docs", event.Ready))
	m.Publish(event.Event{ServerID: "docs", Payload: long})
	if batch, _ := s.Take(); len(batch) != 3 || batch[0].Type() != event.TypeGap {
		t.Errorf("a long list beyond it: %s", summary(batch))
	}
	if b, err := m.Bounds(t.Context()); err != nil || b.First != 10 {
		t.Errorf("bounds %+v, %v", b, err)
	}
}
