package journaltest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

func idsRiseByOne(t *testing.T, o *Opened) {
	const n = 700 // enough events for groups as well as single events
	var events []*event.Event
	for i := range n {
		events = append(events, update("docs", URI(i), i))
	}
	add(t, o.Log, events[:n-2]...)
	for i := range 2 {
		if e := Append(t, o.Log, events[n-2+i]); e.Seq != uint64(n-1+i) {
			t.Errorf("stored with id %q", e.ID)
		}
	}
	epoch := o.Log.Epoch()
	o.check(t, func(t *testing.T, when string) {
		if b := bounds(t, o.Log); o.Log.Epoch() != epoch || b.Epoch != epoch || b.First != 1 || b.Last != n {
			t.Errorf("%s: epoch %q and bounds %+v, want epoch %q and 1 to %d", when, o.Log.Epoch(), b, epoch, n)
		}
		same(t, "read "+when, ReadAll(t, o.Log, 0), epoch, 1, events)
		followed, err := followTo(within(t), o.Log, 0, n)
		must(t, err)
		same(t, "followed "+when, followed, epoch, 1, events)
		same(t, "selected "+when, selected(t, o.Log, journal.Selection{ServerID: "docs"}), epoch, 1, events)
	})
	more := update("docs", "file:///more", 1)
	if e := Append(t, o.Log, more); e.ID != event.FormatID(epoch, n+1) {
		t.Errorf("the next event has id %q", e.ID)
	}
	if other := o.another(t, Options{}); other.Log.Epoch() == epoch {
		t.Error("two logs have the same epoch")
	}
}

func newLogIsEmpty(t *testing.T, o *Opened) {
	o.check(t, func(t *testing.T, when string) {
		b := bounds(t, o.Log)
		if _, _, err := event.ParseID(event.FormatID(b.Epoch, 1)); err != nil || len(b.Epoch) != 16 || b.First != 1 || b.Last != 0 {
			t.Errorf("%s: bounds %+v, %v", when, b, err)
		}
		for _, from := range []uint64{0, 1, 2} {
			if got := ReadAll(t, o.Log, from); len(got) != 0 {
				t.Errorf("%s: Read(%d) yields %s", when, from, numbers(got))
			}
		}
		if got := selected(t, o.Log, journal.Selection{}); len(got) != 0 {
			t.Errorf("%s: Select yields %s", when, numbers(got))
		}
		if states, err := o.Log.States(within(t), ""); err != nil || len(states.Resources)+len(states.Lists) != 0 {
			t.Errorf("%s: states %+v, %v", when, states, err)
		}
		if err := o.Log.Err(); err != nil {
			t.Errorf("%s: Err: %v", when, err)
		}
	})
}

// An event that has an id from another log gets a new id from this log.
func foreignID(t *testing.T, o *Opened) {
	e := update("docs", URI(1), 1)
	e.ID, e.Seq = event.FormatID(journal.NewEpoch(), 77), 77
	if entry := Append(t, o.Log, e); entry.ID != event.FormatID(o.Log.Epoch(), 1) || e.Seq != 77 {
		t.Errorf("stored as %q; the event is now %q", entry.ID, e.ID)
	}
	o.check(t, func(t *testing.T, when string) {
		same(t, when, ReadAll(t, o.Log, 0), o.Log.Epoch(), 1, []*event.Event{e})
	})
}

func orderOfGoroutines(t *testing.T, o *Opened) {
	const writers, each = 4, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() { addEach(t, o.Log, fmt.Sprint(w), 0, each) })
	}
	wg.Wait()
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		entries := ReadAll(t, o.Log, 0)
		if err := inOrder(entries, o.Log.Epoch(), 1, writers*each); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		next := map[string]int{}
		for _, e := range entries {
			ev, _ := e.Event() // ReadAll has checked that it can be decoded
			if ev.ResourceURI != URI(next[ev.ServerID]) {
				t.Fatalf("%s: entry %d is about %s of goroutine %s, want %s", when, e.Seq, ev.ResourceURI, ev.ServerID, URI(next[ev.ServerID]))
			}
			next[ev.ServerID]++
		}
	})
}

// Every entry that a reader receives is within the bounds of the log, and every other reader can
// also read it.
func seenIsStored(t *testing.T, o *Opened) {
	const n = 300
	ctx := within(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { addEach(t, o.Log, "docs", 0, n) })
	for e, err := range o.Log.Follow(ctx, 1) {
		must(t, err)
		if e.Seq%20 == 0 || e.Seq == n {
			if last := bounds(t, o.Log).Last; last < e.Seq {
				t.Fatalf("%d is seen, but the last is %d", e.Seq, last)
			}
			other := ReadAll(t, o.Log, e.Seq)
			if len(other) == 0 || other[0].ID != e.ID || string(other[0].Data()) != string(e.Data()) {
				t.Fatalf("%s is seen, but another reader sees %s from there on", e.ID, numbers(other))
			}
		}
		if e.Seq == n {
			break
		}
	}
}

func read(t *testing.T, o *Opened) {
	addN(t, o.Log, 0, 50)
	o.check(t, func(t *testing.T, when string) {
		for from, want := range map[uint64]int{0: 50, 1: 50, 2: 49, 25: 26, 50: 1, 51: 0, 52: 0, 1 << 63: 0} {
			entries := ReadAll(t, o.Log, from)
			if err := inOrder(entries, o.Log.Epoch(), max(from, 1), want); err != nil {
				t.Errorf("%s: Read(%d): %v", when, from, err)
			}
			if want > 0 && entries[want-1].More {
				t.Errorf("%s: Read(%d): the last entry says that more follow", when, from)
			}
		}
	})
	// Events that are appended while Read is in progress are not part of its result.
	var got []journal.Entry
	for e, err := range o.Log.Read(within(t), 41) {
		must(t, err)
		if got = append(got, e); len(got) == 1 {
			addN(t, o.Log, 50, 55)
		}
	}
	if err := inOrder(got, o.Log.Epoch(), 41, 10); err != nil {
		t.Error(err)
	}
	// A reader may stop early, and iterating again starts at the beginning.
	reading := o.Log.Read(within(t), 3)
	for range 2 {
		for e := range reading {
			if e.Seq != 3 {
				t.Errorf("the first of Read(3) is %d", e.Seq)
			}
			break
		}
	}
}

func readEndsWithContext(t *testing.T, o *Opened) {
	addN(t, o.Log, 0, 10)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, seq := range map[string]iter.Seq2[journal.Entry, error]{
		"Read": o.Log.Read(ctx, 1), "Select": o.Log.Select(ctx, journal.Selection{}),
	} {
		if _, err := drain(t, seq); !errors.Is(err, cause) {
			t.Errorf("%s with a context that has ended: %v, want the cause", name, err)
		}
	}
}

func follow(t *testing.T, o *Opened) {
	addN(t, o.Log, 0, 50)
	o.check(t, func(t *testing.T, when string) {
		for _, from := range []uint64{0, 1, 25, 50} {
			entries, err := followInOrder(within(t), o.Log, from, 50)
			if err != nil {
				t.Fatalf("%s: Follow(%d): %v", when, from, err)
			}
			if entries[len(entries)-1].More {
				t.Errorf("%s: Follow(%d): the last entry says that another follows without waiting", when, from)
			}
			for _, e := range entries {
				if err := wellFormed(e); err != nil {
					t.Error(err)
				}
			}
		}
	})
	// Follow from a number that does not exist yet must not yield earlier entries. The test repeats
	// this, because events may be appended before Follow has started.
	for beyond := range 20 {
		last := bounds(t, o.Log).Last
		from := last + 1 + uint64(beyond)%3
		ctx, begins, followed := within(t), make(chan struct{}), make(chan error, 1)
		go func() {
			close(begins)
			_, err := followInOrder(ctx, o.Log, from, from+2)
			followed <- err
		}()
		<-begins
		for n := last; n < from+2; n++ {
			addN(t, o.Log, int(n), int(n)+1)
		}
		if err := <-followed; err != nil {
			t.Fatalf("Follow(%d) after %d: %v", from, last, err)
		}
	}
}

func followJoins(t *testing.T, o *Opened) {
	const n = 2000
	addN(t, o.Log, 0, n/4)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { addEach(t, o.Log, "docs", n/4, n) })
	entries, err := followInOrder(within(t), o.Log, 7, n)
	must(t, err)
	for _, e := range entries {
		ev, err := e.Event()
		if want := URI(int(e.Seq - 1)); err != nil || ev.ResourceURI != want {
			t.Fatalf("entry %d is about %s, %v, want %s", e.Seq, ev.ResourceURI, err, want)
		}
	}
}

func followEndsWithCause(t *testing.T, o *Opened) {
	addN(t, o.Log, 0, 3)
	cause := errors.New("enough")
	for _, from := range []uint64{0, 4} { // from an existing entry, and from one that does not exist yet
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		if from == 4 {
			cancel(cause)
		}
		var last error
		for e, err := range o.Log.Follow(ctx, from) {
			if last != nil {
				t.Error("an entry follows the error")
			}
			if last = err; e.Seq == 3 {
				cancel(cause)
			}
		}
		if !errors.Is(last, cause) {
			t.Errorf("Follow(%d) ended with %v, want the cause of its context", from, last)
		}
	}
}

func followEndsWithLog(t *testing.T, o *Opened) {
	addN(t, o.Log, 0, 10)
	const followers = 5
	ended, reached := make(chan error, followers), make(chan struct{}, followers)
	for range followers {
		go func() {
			var last error
			for e, err := range o.Log.Follow(context.WithoutCancel(t.Context()), 1) {
				if last = err; e.Seq == 10 {
					reached <- struct{}{}
				}
			}
			ended <- last
		}()
	}
	for range followers {
		<-reached
	}
	if err := o.Log.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for range followers {
		if err := <-ended; !errors.Is(err, journal.ErrClosed) {
			t.Errorf("Follow ended with %v, want ErrClosed", err)
		}
	}
	if _, err := drain(t, o.Log.Follow(within(t), 11)); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Follow of a closed log ended with %v, want ErrClosed", err)
	}
}

func manyFollowers(t *testing.T, o *Opened) {
	const followers, n = 30, 300
	addN(t, o.Log, 0, n/3)
	ctx := within(t)
	var wg sync.WaitGroup
	for i := range followers {
		wg.Go(func() {
			from := uint64(i * 10) // from the start, from the middle, and from numbers that do not exist yet
			if _, err := followInOrder(ctx, o.Log, from, n); err != nil {
				t.Errorf("Follow(%d): %v", from, err)
			}
		})
	}
	addEach(t, o.Log, "docs", n/3, n)
	wg.Wait()
}

// FollowToEnd yields everything that was stored before ctx ended, and no error.
func followToEnd(t *testing.T, o *Opened) {
	const n = 300
	addN(t, o.Log, 0, n/2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var entries []journal.Entry
		for e, err := range journal.FollowToEnd(ctx, o.Log, 3) {
			if err != nil {
				done <- fmt.Errorf("after %s: %w", numbers(entries), err)
				return
			}
			if entries = append(entries, e); len(entries) == 1 {
				close(begun)
			}
		}
		done <- inOrder(entries, o.Log.Epoch(), 3, n-2)
	}()
	<-begun
	addN(t, o.Log, n/2, n)
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-within(t).Done():
		t.Error("FollowToEnd does not end")
	}
}

// FollowToEnd ends without an error when the log is closed.
func followToEndOfClosed(t *testing.T, o *Opened) {
	addN(t, o.Log, 0, 10)
	reached, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for e, err := range journal.FollowToEnd(context.WithoutCancel(t.Context()), o.Log, 0) {
			if err != nil {
				done <- err
				return
			}
			if e.Seq == 10 {
				close(reached)
			}
		}
		done <- nil
	}()
	<-reached
	if err := o.Log.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
