package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/journal"
)

func follow(t *testing.T, open Open) {
	o := open(t, Options{})
	addN(t, o.Log, 0, 50)
	o.check(t, func(t *testing.T, when string) {
		for from, want := range map[uint64]int{0: 50, 1: 50, 25: 26, 50: 1} {
			entries, err := followTo(within(t), o.Log, from, 50)
			if err == nil {
				err = inOrder(entries, o.Log.Epoch(), max(from, 1), want)
			}
			if err != nil {
				t.Fatalf("%s: Follow(%d): %v", when, from, err)
			}
			if entries[want-1].More {
				t.Errorf("%s: Follow(%d): the last entry says that another follows without waiting", when, from)
			}
			for _, e := range entries {
				if err := wellFormed(e); err != nil {
					t.Error(err)
				}
			}
		}
	})
	// From an entry that is still to come: what comes before it is not yielded. There are several
	// rounds, because events may be appended before Follow has begun.
	for beyond := range 20 {
		last := bounds(t, o.Log).Last
		from := last + 1 + uint64(beyond)%3
		ctx, begins, followed := within(t), make(chan struct{}), make(chan error, 1)
		go func() {
			close(begins)
			entries, err := followTo(ctx, o.Log, from, from+2)
			if err == nil {
				err = inOrder(entries, o.Log.Epoch(), from, 3)
			}
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

func followJoins(t *testing.T, open Open) {
	o := open(t, Options{})
	const n = 2000
	addN(t, o.Log, 0, n/4)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i := n / 4; i < n; i++ {
			if err := o.Log.Append(update("docs", uri(i), i)); err != nil {
				t.Error(err)
			}
		}
	})
	entries, err := followTo(within(t), o.Log, 7, n)
	if err == nil {
		err = inOrder(entries, o.Log.Epoch(), 7, n-6)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		ev, err := e.Event()
		if want := uri(int(e.Seq - 1)); err != nil || ev.ResourceURI != want {
			t.Fatalf("entry %d is about %s, %v, want %s", e.Seq, ev.ResourceURI, err, want)
		}
	}
}

func followEndsWithCause(t *testing.T, open Open) {
	o := open(t, Options{})
	addN(t, o.Log, 0, 3)
	cause := errors.New("enough")
	for _, from := range []uint64{0, 4} { // with entries, and waiting
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

func followEndsWithLog(t *testing.T, open Open) {
	o := open(t, Options{})
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
	var last error
	for _, err := range o.Log.Follow(within(t), 11) {
		last = err
	}
	if !errors.Is(last, journal.ErrClosed) {
		t.Errorf("Follow of a closed log ended with %v, want ErrClosed", last)
	}
}

func manyFollowers(t *testing.T, open Open) {
	o := open(t, Options{})
	const followers, n = 30, 300
	addN(t, o.Log, 0, n/3)
	ctx := within(t)
	var wg sync.WaitGroup
	for i := range followers {
		wg.Go(func() {
			from := uint64(i * 10) // of the beginning, the middle, and what is not there yet
			entries, err := followTo(ctx, o.Log, from, n)
			if err == nil {
				err = inOrder(entries, o.Log.Epoch(), max(from, 1), n+1-int(max(from, 1)))
			}
			if err != nil {
				t.Errorf("Follow(%d): %v", from, err)
			}
		})
	}
	for i := n / 3; i < n; i++ {
		add(t, o.Log, update("docs", uri(i), i))
	}
	wg.Wait()
}

// Whatever was stored before the end of ctx is yielded, and no error.
func followToEnd(t *testing.T, open Open) {
	o := open(t, Options{})
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
	for i := n / 2; i < n; i++ {
		add(t, o.Log, update("docs", uri(i), i))
	}
	flush(t, o.Log)
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

// The end of the log ends FollowToEnd without an error, too.
func followToEndOfClosed(t *testing.T, open Open) {
	o := open(t, Options{})
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
