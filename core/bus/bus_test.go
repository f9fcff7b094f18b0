package bus

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneOrderForAll(t *testing.T) {
	b := New()
	const publishers, each, consumers = 4, 500, 3
	var readers, writers sync.WaitGroup
	got := make([][]uint64, consumers)
	for i := range consumers {
		s := b.Subscribe(t.Context(), 0)
		readers.Go(func() {
			for e := range s.Events() {
				got[i] = append(got[i], e.Seq)
			}
		})
	}
	for range publishers {
		writers.Go(func() {
			for range each {
				b.Publish(event.Event{Payload: event.Gap{}})
			}
		})
	}
	writers.Wait()
	b.Close()
	readers.Wait()
	for i, seqs := range got {
		if len(seqs) != publishers*each {
			t.Fatalf("consumer %d got %d events, want %d", i, len(seqs), publishers*each)
		}
		for j, seq := range seqs {
			if seq != uint64(j+1) {
				t.Fatalf("consumer %d: event %d has seq %d", i, j, seq)
			}
		}
	}
}

func TestSlowConsumerIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		slow, quick := b.Subscribe(t.Context(), 2), b.Subscribe(t.Context(), 8)
		for range 4 {
			b.Publish(event.Event{})
		}
		if got := len(slow.Next()); got != 2 {
			t.Errorf("the slow one got %d events, want the 2 that it had room for", got)
		}
		if slow.Next() != nil || !errors.Is(slow.Err(), ErrLagged) {
			t.Errorf("the slow one ended with %v, want ErrLagged", slow.Err())
		}
		if got := len(quick.Next()); got != 4 {
			t.Errorf("the quick one got %d events, want 4", got)
		}
		b.Close()
		if quick.Next() != nil || quick.Err() != nil {
			t.Errorf("after Close: %v, want a plain end", quick.Err())
		}
	})
}

func TestLeavingEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		cause := errors.New("gone fishing")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := b.Subscribe(ctx, 0)
		b.Publish(event.Event{})
		cancel(cause)
		synctest.Wait()
		b.Publish(event.Event{})
		if got := len(s.Next()); got != 1 {
			t.Errorf("got %d events, want the one before leaving", got)
		}
		if s.Next() != nil || !errors.Is(s.Err(), cause) {
			t.Errorf("ended with %v, want %v", s.Err(), cause)
		}
		if len(b.subs) != 0 {
			t.Errorf("the bus still keeps %d subscriptions", len(b.subs))
		}
	})
}

func TestSubscribeAfterClose(t *testing.T) {
	b := New()
	b.Close()
	b.Close()
	if s := b.Subscribe(t.Context(), 0); s.Next() != nil {
		t.Error("a stream of a closed bus goes on")
	}
}

// A signal may be of what was taken already; what was not taken always has one.
func TestTakeDoesNotWait(t *testing.T) {
	b := New()
	s := b.Subscribe(t.Context(), 0)
	b.Publish(event.Event{})
	if batch, ended := s.Take(); len(batch) != 1 || ended {
		t.Fatalf("%d events, ended %v", len(batch), ended)
	}
	<-s.Ready()
	if batch, ended := s.Take(); len(batch) != 0 || ended {
		t.Fatalf("%d events, ended %v", len(batch), ended)
	}
	b.Publish(event.Event{})
	<-s.Ready()
	b.Close()
	if batch, ended := s.Take(); len(batch) != 1 || !ended {
		t.Fatalf("%d events, ended %v", len(batch), ended)
	}
}
