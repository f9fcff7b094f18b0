package journaltest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

func closing(t *testing.T, o *Opened) {
	addN(t, o.Log, 0, 5)
	for range 2 {
		if err := o.Log.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	late := update("docs", "file:///late", 1)
	for what, call := range map[string]func() error{
		"Append": func() error { return o.Log.Append(late) },
		"Remember": func() error {
			return o.Log.Remember(journal.ResourceID{ServerID: "docs", URI: "late"}, journal.State{Digest: Digest(1)})
		},
		"RememberList": func() error { return o.Log.RememberList(journal.ListName{ServerID: "docs", Kind: catalog.Tools}, nil) },
	} {
		if err := call(); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", what, err)
		}
	}
	// A closed log may or may not be readable, but no call may block or panic.
	ctx := within(t)
	o.Log.Contents().Put(textDigest("late"), "late")
	_, _, _ = o.Log.Contents().Get(ctx, textDigest("late"))
	_, _ = o.Log.Bounds(ctx)
	_, _ = o.Log.States(ctx, "")
	_, _ = o.Log.Resume(ctx, event.FormatID(o.Log.Epoch(), 3))
	_, _ = o.Log.Since(ctx, time.Now())
	_, _, _ = o.Log.Flush(ctx), o.Log.Err(), o.Log.Stats()
	for what, seq := range map[string]iter.Seq2[journal.Entry, error]{
		"Read": o.Log.Read(ctx, 1), "Select": o.Log.Select(ctx, journal.Selection{ServerID: "docs"}),
	} {
		n, err := drain(t, seq)
		if err != nil && !errors.Is(err, journal.ErrClosed) || n != 0 && n != 5 {
			t.Errorf("%s after Close yields %d of 5 entries, and ends with %v", what, n, err)
		}
	}
	if ctx.Err() != nil {
		t.Error(context.Cause(ctx))
	}
	if o.Reopen != nil {
		o.Log = o.Reopen()
		if err := inOrder(ReadAll(t, o.Log, 0), o.Log.Epoch(), 1, 5); err != nil {
			t.Error(err)
		}
		if len(digests(t, o.Log, "")) != 5 {
			t.Error("what came after Close was stored")
		}
	}
}

// Close stores everything that was appended, remembered or put before.
func closeStores(t *testing.T, o *Opened) {
	if o.Reopen == nil {
		t.Skip("the log ends with the process")
	}
	var events []*event.Event
	want := map[string]catalog.Digest{}
	items := catalog.List{}
	for round := range 3 {
		for i := range 200 {
			n := len(events)
			events = append(events, update("docs", URI(n), n))
			add(t, o.Log, events[n])
			want["docs "+URI(n)] = Digest(n)
			quiet := fmt.Sprint("file:///quiet/", i)
			remember(t, o.Log, "docs", quiet, round)
			want["docs "+quiet] = Digest(round)
		}
		items = append(items, catalog.Item{Key: fmt.Sprint(round), Digest: Digest(round)})
		rememberList(t, o.Log, journal.ListName{ServerID: "docs", Kind: catalog.Tools}, items)
		o.reopen(t)
		same(t, fmt.Sprintf("after %d times Close", round+1), ReadAll(t, o.Log, 0), o.Log.Epoch(), 1, events)
		equal(t, fmt.Sprintf("after %d times Close", round+1), want, digests(t, o.Log, ""))
		if got := states(t, o.Log, "").Lists[journal.ListName{ServerID: "docs", Kind: catalog.Tools}]; len(got) != round+1 {
			t.Errorf("after %d times Close, the list has %d items", round+1, len(got))
		}
	}
}

func flushAndStats(t *testing.T, o *Opened) {
	for round := range 5 {
		for i := range 100 {
			add(t, o.Log, update("docs", URI(i), 100*round+i))
		}
		flush(t, o.Log)
		b, s := bounds(t, o.Log), o.Log.Stats()
		if b.Last+s.Folded != uint64(100*(round+1)) || s.Stored != b.Last || s.Waiting != 0 || s.Failures != 0 || s.TooLarge != 0 || s.Damages != 0 || s.Fenced != 0 {
			t.Errorf("after Flush: bounds %+v, stats %+v", b, s)
		}
	}
	if s := o.Log.Stats(); s.Syncs > s.Stored || s.SlowestSync > s.SyncTime {
		t.Errorf("stats %+v", s)
	}
	flush(t, o.Log) // returns immediately, because nothing is queued
	if o.reopen(t) {
		if s := o.Log.Stats(); s.Stored != 0 {
			t.Errorf("%d events were stored since a reopen", s.Stored)
		}
	}
}

// While storing fails, appending does not block, and no reader sees an event that is not stored.
// Afterwards, the last event about every resource is stored, in order and exactly once.
func failingStore(t *testing.T, o *Opened) {
	if o.Break == nil {
		t.Skip("storing cannot fail")
	}
	ctx := within(t)
	Append(t, o.Log, update("docs", "file:///first", 0))
	var seen atomic.Uint64 // number of the last entry that the follower received
	followed := make(chan error, 1)
	following, stop := context.WithCancel(ctx)
	defer stop()
	const resources, rounds = 60, 100
	go func() {
		next := uint64(1)
		for e, err := range o.Log.Follow(following, 1) {
			if err != nil {
				followed <- err
				return
			}
			if e.Seq != next || e.Gap != nil {
				followed <- fmt.Errorf("followed %.200s, want number %d", e.Data(), next)
				return
			}
			seen.Store(next)
			if ev, _ := e.Event(); ev.ResourceURI == "file:///last" {
				followed <- nil
				return
			}
			next++
		}
	}()
	Eventually(t, patience, "the first event is seen", func() bool { return seen.Load() == 1 })
	mend := o.Break()
	appended := make(chan error, 1)
	go func() {
		for i := range resources * rounds {
			if err := o.Log.Append(update("docs", URI(i%resources), i)); err != nil {
				appended <- err
				return
			}
			if i%resources == 0 {
				if err := o.Log.Remember(journal.ResourceID{ServerID: "docs", URI: "file:///quiet"}, journal.State{Digest: Digest(i)}); err != nil {
					appended <- err
					return
				}
			}
		}
		appended <- nil
	}()
	select {
	case err := <-appended:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("Append waits for a store that fails")
	}
	Eventually(t, patience, "Err says why", func() bool { return o.Log.Err() != nil })
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if err := o.Log.Flush(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Flush while storing fails: %v, want the cause of its context", err)
	}
	if s := o.Log.Stats(); s.Waiting == 0 || s.Failures == 0 || s.Stored != 1 {
		t.Errorf("while storing fails: stats %+v", s)
	}
	if n := seen.Load(); n != 1 {
		t.Errorf("%d was seen before it was stored", n)
	}
	add(t, o.Log, update("docs", "file:///last", 0))
	mend()
	flush(t, o.Log)
	if err := <-followed; err != nil {
		t.Error(err)
	}
	Eventually(t, patience, "Err is nil again", func() bool { return o.Log.Err() == nil })
	want := map[string]catalog.Digest{"docs file:///first": Digest(0), "docs file:///last": Digest(0), "docs file:///quiet": Digest(resources * (rounds - 1))}
	for i := range resources {
		want["docs "+URI(i)] = Digest(resources*(rounds-1) + i)
	}
	stats := o.Log.Stats()
	o.check(t, func(t *testing.T, when string) {
		entries := ReadAll(t, o.Log, 0)
		if err := inOrder(entries, o.Log.Epoch(), 1, len(entries)); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if n := len(entries) + int(stats.Folded); n != resources*rounds+2 {
			t.Errorf("%s: %d entries, and %d were merged, of %d", when, len(entries), stats.Folded, resources*rounds+2)
		}
		last, got := -1, map[string]catalog.Digest{"docs file:///quiet": want["docs file:///quiet"]}
		for _, e := range entries {
			ev, _ := e.Event()
			p := ev.Payload.(event.ResourceUpdated)
			got["docs "+ev.ResourceURI] = p.Digest
			switch ev.ResourceURI {
			case "file:///first", "file:///last", "file:///stored":
				continue
			}
			if n := int(*p.Size); n <= last {
				t.Fatalf("%s: version %d after %d", when, n, last)
			} else {
				last = n
			}
		}
		equal(t, fmt.Sprintf("%s: the last events", when), want, got)
		equal(t, fmt.Sprintf("%s: the states", when), want, digests(t, o.Log, ""))
	})
}
