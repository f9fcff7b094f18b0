package natslog

import (
	"errors"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// holder acquires and fences the lease of the server of a journaltest.Source.
func holder(t *testing.T, j *Log, ttl time.Duration) *Lease {
	t.Helper()
	l := acquire(t, j, "docs", ttl)
	e := &event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ServerState{State: event.Pending}}
	if err := l.Fence(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return l
}

// last returns the name in the last event of the resource.
func last(t *testing.T, j *Log, uri string) (name string) {
	t.Helper()
	for _, entry := range journaltest.ReadAll(t, j, 0) {
		e, err := entry.Event()
		if err != nil {
			t.Fatal(err)
		}
		if u, ok := e.Payload.(event.ResourceUpdated); ok && e.ResourceURI == uri {
			name = u.Name
		}
	}
	return name
}

// What waits in the queue of a disconnected process is not stored behind the events of the process
// that took over.
func TestRealCutOffHolderStoresNothingOld(t *testing.T) {
	t.Parallel()
	f := startSlowStore(t)
	cut, other := open(t, Options{URL: f.url, Replicas: 1}), open(t, Options{URL: f.store, Replicas: 1})
	s := new(journaltest.Source)
	old := holder(t, cut, 4*time.Second)
	if err := old.Append(s.Next(journaltest.URI(1))); err != nil {
		t.Fatal(err)
	}
	if err := cut.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.setAway(true)
	for range 3 {
		if err := errors.Join(old.Append(s.Next(journaltest.URI(1))), old.Remember(journal.ResourceID{ServerID: "docs", URI: journaltest.URI(2)}, journal.State{Digest: journaltest.Digest(7)})); err != nil {
			t.Fatal(err)
		}
	}
	next := holder(t, other, 4*time.Second)
	newer := s.Next(journaltest.URI(1))
	if err := next.Append(newer); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.setAway(false)
	journaltest.Eventually(t, time.Minute, "the cut off process has nothing to store", func() bool { return cut.Stats().Waiting == 0 })
	if got, want := last(t, other, journaltest.URI(1)), newer.Payload.(event.ResourceUpdated).Name; got != want {
		t.Errorf("the last event is %s, want %s", got, want)
	}
	if n := cut.Stats().Fenced; n == 0 {
		t.Error("nothing was counted as dropped")
	}
	closeLog(t, cut)
	states, err := other.States(t.Context(), "")
	if err != nil || states.Resources[journal.ResourceID{ServerID: "docs", URI: journaltest.URI(1)}].Digest != newer.Payload.(event.ResourceUpdated).Digest || len(states.Resources) != 1 {
		t.Errorf("states %v, %v", states, err)
	}
}

// A stopped process (SIGSTOP) does not know that it lost its lease. The store rejects what it
// appends.
func TestRealStoppedHolderStoresNothingOld(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	stopped, other := open(t, Options{URL: url, Replicas: 1}), open(t, Options{URL: url, Replicas: 1})
	s := new(journaltest.Source)
	old := holder(t, stopped, time.Minute)
	// The lease moves to another process early, which the holder does not see.
	_, kv, _ := stopped.leases.look(old.key)
	err := kv.Purge(t.Context(), old.key)
	if err != nil {
		t.Fatal(err)
	}
	next := holder(t, other, time.Minute)
	newer := s.Next(journaltest.URI(1))
	if err := next.Append(newer); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lost(old) {
		t.Fatal("the holder knows already")
	}
	for n := range 10 { // as a batch
		e := s.Next(journaltest.URI(1))
		e.ServerID = []string{"docs", "another"}[n%2]
		if e.ServerID == "docs" {
			err = old.Append(e)
		} else {
			err = stopped.Append(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := stopped.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !lost(old) || stopped.Stats().Fenced != 5 {
		t.Errorf("lost: %v, %+v", lost(old), stopped.Stats())
	}
	found := map[string]int{}
	for _, entry := range journaltest.ReadAll(t, other, 0) {
		e, err := entry.Event()
		if err != nil {
			t.Fatal(err)
		}
		found[e.ServerID]++
	}
	if found["docs"] != 3 || found["another"] != 5 {
		t.Errorf("stored: %v", found)
	}
	// The next holder continues.
	if err := next.Append(s.Next(journaltest.URI(1))); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(t.Context()); err != nil || other.Stats().Fenced != 0 {
		t.Errorf("the next holder: %v, %+v", err, other.Stats())
	}
}

// A lease whose fence retention has removed is still valid.
func TestRealFenceOutlivesRetention(t *testing.T) {
	t.Parallel()
	j := open(t, Options{URL: journaltest.Store(t), Replicas: 1, Retain: 300 * time.Millisecond})
	l := holder(t, j, 0)
	journaltest.Eventually(t, time.Minute, "the fence is gone", func() bool {
		b, err := j.Bounds(t.Context())
		return err == nil && b.First > b.Last
	})
	if err := l.Append(new(journaltest.Source).Next(journaltest.URI(1))); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(t.Context()); err != nil || j.Stats().Fenced != 0 || j.Stats().Stored != 1 {
		t.Errorf("%v, %+v", err, j.Stats())
	}
}

// What a process learned under a lost lease is unknown when it gets the lease again, because its
// event may not be stored.
func TestRealContentRememberedUnderALostLease(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	lease := holder(t, j, time.Minute)
	known := func() int {
		states, err := j.States(t.Context(), "docs")
		if err != nil {
			t.Fatal(err)
		}
		return len(states.Resources)
	}
	j.states.mu.Lock() // nothing is written to the store meanwhile
	j.states.dirty["x"] = remembered{value: newResourceState(journal.ResourceID{ServerID: "docs", URI: journaltest.URI(1)}, journal.State{Digest: journaltest.Digest(1)}), lease: lease}
	lease.stop()
	<-lease.lost
	j.states.mu.Unlock()
	if n := known(); n != 0 {
		t.Errorf("%d contents known that waited when the lease was lost", n)
	}
	if err := lease.Remember(journal.ResourceID{ServerID: "docs", URI: journaltest.URI(2)}, journal.State{Digest: journaltest.Digest(2)}); err != nil {
		t.Fatal(err)
	}
	if n := known(); n != 0 {
		t.Errorf("%d contents known that were remembered after the lease was lost", n)
	}
}

// What a stored event tells stays remembered after its lease is lost, even if the holder has
// learned something newer since.
func TestLostLeaseKeepsWhatIsStored(t *testing.T) {
	t.Parallel()
	held, gone := &Lease{lost: make(chan struct{})}, &Lease{lost: make(chan struct{})}
	close(gone.lost)
	of := func(n uint64) value {
		return newResourceState(journal.ResourceID{ServerID: "docs"}, journal.State{Digest: journaltest.Digest(n)})
	}
	type put struct {
		n     uint64
		lease *Lease
	}
	for what, c := range map[string]struct {
		puts []put
		want uint64 // 0: nothing is stored
	}{
		"an event":                        {[]put{{1, nil}}, 1},
		"without one":                     {[]put{{1, gone}}, 0},
		"an event, and something newer":   {[]put{{1, nil}, {2, gone}, {3, gone}}, 1},
		"something newer, and an event":   {[]put{{1, gone}, {2, nil}}, 2},
		"an event, and what another held": {[]put{{1, nil}, {2, gone}, {3, held}}, 3},
	} {
		for taken := range len(c.puts) { // so many are on their way to the store, and come back
			s := newStateWriter(nil)
			var values map[string]remembered
			for i, p := range c.puts {
				if i == taken {
					values, _ = s.take()
				}
				s.put(of(p.n), p.lease, position{})
			}
			s.takeBack(values)
			values, _ = s.take()
			if len(values) != 1 {
				t.Fatalf("%s: %d values", what, len(values))
			}
			for _, r := range values {
				got, ok := r.current()
				if ok != (c.want != 0) || ok && got.value.(*resourceState).Digest != journaltest.Digest(c.want).String() {
					t.Errorf("%s, %d taken: %+v, %v", what, taken, got.value, ok)
				}
			}
		}
	}
}
