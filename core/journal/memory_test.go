package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

func first(t *testing.T, m *Memory) uint64 {
	t.Helper()
	b, err := m.Bounds(t.Context())
	if err != nil || b.Last+1-b.First != uint64(len(m.recent)) {
		t.Fatalf("bounds %+v, %v, of %d events", b, err, len(m.recent))
	}
	return b.First
}

func TestKeepBoundsEvents(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{Keep: 3})
	for n := range 10 {
		if want := uint64(max(n-2, 1)); first(t, m) != want {
			t.Errorf("after %d events the first is %d, want %d", n, first(t, m), want)
		}
		m.Publish(state("docs", event.Ready))
	}
}

// The texts that events carry are bounded in bytes; the last event stays, however large it is.
func TestKeepBytesBoundsTexts(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{KeepBytes: 100})
	for n, c := range []struct {
		text, previous int
		first          uint64
	}{{30, 30, 1}, {40, 0, 1}, {1, 0, 2}, {50, 9, 2}, {0, 0, 2}, {500, 0, 6}, {0, 0, 7}, {100, 0, 7}} {
		text, previous := strings.Repeat("x", c.text), strings.Repeat("x", c.previous)
		e := updated("docs", " a", 1)
		e.Payload = event.ResourceUpdated{Text: &text, PreviousText: &previous}
		m.Publish(e)
		if got := first(t, m); got != c.first {
			t.Errorf("after %d events the first is %d, want %d", n+1, got, c.first)
		}
	}
	if b, err := m.Bounds(t.Context()); err != nil || b.Bytes != 100 {
		t.Errorf("bounds %+v, %v", b, err)
	}
}

// Publish appends, so what it tells is remembered.
func TestPublishedIsRemembered(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{})
	items := catalog.List{{Key: "t", Raw: []byte("{}"), Digest: catalog.Digest{2}}}
	m.Publish(updated("docs", "a", 1))
	p := m.Publish(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Items: &items}})
	states, err := m.States(t.Context(), "")
	list := states.Lists[ListName{"docs", catalog.Tools}]
	if err != nil || states.Resources[ResourceID{"docs", "a"}].Digest != (catalog.Digest{1}) || len(list) != 1 || list[0].Raw != nil || list[0].Digest != (catalog.Digest{2}) {
		t.Errorf("states %+v, %v", states, err)
	}
	if p.Payload.(event.ListChanged).Items != nil {
		t.Error("the event in the log has the whole list")
	}
}

// Events after Close get their own ids, and change nothing that readers see.
func TestPublishAfterClose(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{})
	m.Publish(updated("docs", "a", 1))
	m.Publish(updated("docs", "b", 1))
	_ = m.Close()
	for want := uint64(3); want < 6; want++ {
		if e := m.Publish(updated("docs", "c", 1)); e.Seq != want || e.ID != event.FormatID(m.Epoch(), want) {
			t.Errorf("an event after Close is %s, want number %d", e.ID, want)
		}
	}
	if b, err := m.Bounds(t.Context()); err != nil || b.First != 1 || b.Last != 2 {
		t.Errorf("bounds %+v, %v", b, err)
	}
	next := uint64(1)
	for e, err := range m.Read(t.Context(), 1) {
		if err != nil || e.Seq != next {
			t.Errorf("read %s, %v, want %d", e.ID, err, next)
		}
		next++
	}
	if next != 3 {
		t.Errorf("read up to %d", next-1)
	}
}

// A follower of the beginning gets a gap for what is no longer kept, the last event of each subject
// in that gap, and then everything that is kept.
func TestFollowFromBeforeTheFirst(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{Keep: 3})
	for _, uri := range []string{"a", "b", "a", "c", "b", "c", "d"} {
		m.Publish(updated("docs", uri, 1))
	}
	_ = m.Close()
	follow := func(from uint64) string {
		var got []string
		for e, err := range m.Follow(t.Context(), from) {
			switch {
			case err != nil:
				if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			case e.Gap != nil:
				got = append(got, fmt.Sprint(e.Gap.Reason, " ", e.Seq))
			case e.Again:
				got = append(got, fmt.Sprint("again ", e.Seq))
			default:
				got = append(got, fmt.Sprint(e.Seq))
			}
		}
		return strings.Join(got, ", ")
	}
	for from, want := range map[uint64]string{
		0: "retention 4, again 3, 5, 6, 7",
		4: "retention 4, 5, 6, 7",
		5: "5, 6, 7",
		8: "",
	} {
		if got := follow(from); got != want {
			t.Errorf("from %d: %s, want %s", from, got, want)
		}
	}
}

// A follower of future events gets nothing from before them, and no gap.
func TestFollowFromBeyondTheLast(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{Keep: 2, Lag: 2})
	m.Publish(updated("docs", "a", 1))
	following := m.Follow(t.Context(), 7)
	for range 7 {
		m.Publish(updated("docs", "a", 1))
	}
	_ = m.Close()
	var got []uint64
	for e, err := range following {
		if err == nil {
			got = append(got, e.Seq)
		}
		if e.Gap != nil {
			t.Errorf("a gap %+v", *e.Gap)
		}
	}
	if fmt.Sprint(got) != "[7 8]" {
		t.Errorf("got %v, want 7 and 8", got)
	}
}

// Servers that create and remove resources for ever do not fill the memory. A slow follower still
// gets the removals.
func TestRemovedResourcesAreForgotten(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{Keep: 1, Lag: 1})
	m.Publish(updated("docs", "stays", 1))
	churn := func(run int) {
		for n := range 6000 {
			uri := fmt.Sprintf("%d-%d", run, n)
			m.Publish(updated("docs", uri, 1))
			m.Publish(event.Event{ServerID: "docs", ResourceURI: uri, Payload: event.ResourceRemoved{}})
			if n%20 != 0 {
				continue
			}
			server := fmt.Sprintf("s%d-%d", run, n)
			m.Publish(state(server, event.Ready))
			m.Publish(event.Event{ServerID: server, Payload: event.ServerState{State: event.Stopping, Reason: "removed"}})
		}
	}
	churn(1)
	if n := len(m.latest); n > 5000 {
		t.Errorf("the last events of %d subjects are kept", n)
	}
	s := m.Subscribe(t.Context())
	m.Publish(event.Event{ServerID: "docs", ResourceURI: "stays", Payload: event.ResourceRemoved{}})
	churn(2)
	batch := s.Next()
	if first := batch[1]; first.ResourceURI != "stays" || first.Type() != event.TypeResourceRemoved {
		t.Errorf("a slow follower first gets the event of %s", first.ResourceURI)
	}
	churn(3)
	if n := len(m.latest); n > 5000+len(batch) {
		t.Errorf("the last events of %d subjects are kept", n)
	}
	s.Close()
	churn(4)
	churn(5)
	if n := len(m.latest); n > 5000 {
		t.Errorf("the last events of %d subjects are kept after the reader has left", n)
	}
}

// replaced is a log whose Follow ends with an error of its own.
type replaced struct {
	*Memory
	follow iter.Seq2[Entry, error]
}

func (r replaced) Follow(context.Context, uint64) iter.Seq2[Entry, error] { return r.follow }

// Entries of another log are not yielded as if they followed.
func TestFollowToEndOfAReplacedLog(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{ErrEpoch, fmt.Errorf("read: %w", ErrEpoch)} {
		ctx, cancel := context.WithCancel(t.Context())
		m := NewMemory(MemoryOptions{})
		m.Publish(state("docs", event.Ready))
		log := replaced{m, func(yield func(Entry, error) bool) {
			cancel() // simultaneously
			yield(Entry{}, cause)
		}}
		n := 0
		for e, err := range FollowToEnd(ctx, log, 0) {
			if n++; !errors.Is(err, ErrEpoch) {
				t.Errorf("yielded %s, %v", e.ID, err)
			}
		}
		if n != 1 {
			t.Errorf("yielded %d times", n)
		}
	}
}
