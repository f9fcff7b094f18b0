package natslog

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// known is what a follower of records knows.
type known struct {
	mu   sync.Mutex
	all  map[string]string
	last uint64
}

func (k *known) changed(c journal.Changes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.All {
		k.all = map[string]string{}
	}
	for _, rec := range c.Records {
		if k.all[rec.Key] = string(rec.Value); rec.Value == nil {
			delete(k.all, rec.Key)
		}
	}
	k.last = c.Last
}

func (k *known) is(want string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var got []string
	for _, key := range []string{"a", "b"} {
		got = append(got, k.all[key])
	}
	return strings.Join(got, ",") == want && k.last > 0
}

// Only a writer that has seen the latest record replaces it. Followers get all records and then
// each change. A removed record can be created again.
func TestRealRecordsAreChangedByWhoHasSeenThem(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	one, other := open(t, Options{URL: url}).Records("things").(*records), open(t, Options{URL: url}).Records("things").(*records)
	ctx := t.Context()
	rev, err := one.Put(ctx, journal.Record{Key: "a", Value: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Put(ctx, journal.Record{Key: "a", Value: []byte("2")}); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("made twice: %v", err)
	}
	got, err := other.Get(ctx, "a")
	if err != nil || string(got.Value) != "1" || got.Revision != rev {
		t.Fatalf("%+v, %v", got, err)
	}
	got.Value = []byte("3")
	if _, err := other.Put(ctx, got); err != nil {
		t.Fatal(err)
	}
	for _, f := range []func() error{
		func() error {
			_, err := one.Put(ctx, journal.Record{Key: "a", Value: []byte("late"), Revision: rev})
			return err
		},
		func() error { return one.Remove(ctx, journal.Record{Key: "a", Revision: rev}) },
		func() error {
			_, err := one.PutAfter(ctx, journal.Record{Key: "b", Value: []byte("late")}, rev)
			return err
		},
	} {
		if err := f(); !errors.Is(err, journal.ErrChanged) {
			t.Errorf("a late write: %v", err)
		}
	}
	k, done := &known{}, make(chan struct{})
	following, stop := one.log.life.Begin(ctx)
	defer stop()
	go func() {
		defer close(done)
		one.Follow(following, k.changed)
	}()
	journaltest.Eventually(t, time.Minute, "all", func() bool { return k.is("3,") })
	if _, err := other.PutAfter(ctx, journal.Record{Key: "b", Value: []byte("4")}, k.last); err != nil {
		t.Fatal(err)
	}
	journaltest.Eventually(t, time.Minute, "the new one", func() bool { return k.is("3,4") })
	got, _ = other.Get(ctx, "a")
	if err := other.Remove(ctx, got); err != nil {
		t.Fatal(err)
	}
	journaltest.Eventually(t, time.Minute, "the removal", func() bool { return k.is(",4") })
	if got, err := one.Get(ctx, "a"); err != nil || got.Value != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := one.Put(ctx, journal.Record{Key: "a", Value: []byte("5")}); err != nil {
		t.Error(err)
	}
	journaltest.Eventually(t, time.Minute, "it is made again", func() bool { return k.is("5,4") })
	stop()
	<-done
}

// On three nodes, a bucket reports a concurrent write in another way; and followers see what was
// written while a node was away.
func TestRealRecordsOnACluster(t *testing.T) {
	t.Parallel()
	nodes := journaltest.StartCluster(t)
	opts := Options{URL: nodes.URL()}
	one, other := open(t, opts).Records("things").(*records), open(t, opts).Records("things").(*records)
	ctx := t.Context()
	k, done := &known{}, make(chan struct{})
	following, stop := one.log.life.Begin(ctx)
	defer stop()
	go func() {
		defer close(done)
		one.Follow(following, k.changed)
	}()
	put := func(value string, after uint64) (rev uint64) {
		t.Helper()
		journaltest.Eventually(t, time.Minute, "record "+value, func() bool {
			var err error
			rev, err = other.Put(ctx, journal.Record{Key: "a", Value: []byte(value), Revision: after})
			if errors.Is(err, journal.ErrChanged) { // by an attempt whose answer was late
				var got journal.Record
				got, err = other.Get(ctx, "a")
				rev = got.Revision
			}
			return err == nil
		})
		return rev
	}
	rev := put("1", 0)
	next := put("2", rev)
	if _, err := one.Put(ctx, journal.Record{Key: "a", Value: []byte("late"), Revision: rev}); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("a late write: %v", err)
	}
	journaltest.Eventually(t, time.Minute, "both", func() bool { return k.is("2,") })
	nodes.Kill(0)
	put("3", next)
	journaltest.Eventually(t, time.Minute, "it is seen", func() bool { return k.is("3,") })
	stop()
	<-done
}

// A late holder knows immediately that it lost the lease, before Lost is closed.
func TestRealLeaseIsHeldUntilOthersMayTakeIt(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	l := acquire(t, j, "docs", time.Minute)
	if !l.Held() {
		t.Error("a new lease is not held")
	}
	l.renewed(time.Now().Add(-time.Minute))
	if l.Held() || lost(l) {
		t.Error("a lease is held for longer than others wait")
	}
	l.Release()
	if l.Held() {
		t.Error("a released lease is held")
	}
}
