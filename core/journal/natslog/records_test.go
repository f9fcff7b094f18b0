package natslog

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/records"
)

// known is what a follower of records knows.
type known struct {
	mu   sync.Mutex
	all  map[string]string
	last uint64
}

func (k *known) changed(c records.Changes) {
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

// On three nodes, a bucket reports a concurrent write in another way; and followers see what was
// written while a node was away.
func TestRealRecordsOnACluster(t *testing.T) {
	t.Parallel()
	nodes := journaltest.StartCluster(t)
	opts := Options{URL: nodes.URL()}
	one, other := open(t, opts).Records("things").(*bucketRecords), open(t, opts).Records("things").(*bucketRecords)
	ctx := t.Context()
	k, done := &known{}, make(chan struct{})
	following, stop := one.log.life.Begin(ctx)
	go func() {
		defer close(done)
		one.Follow(following, k.changed)
	}()
	defer func() { stop(); <-done }()
	put := func(value string, after uint64) (rev uint64) {
		t.Helper()
		journaltest.Eventually(t, time.Minute, "record "+value, func() bool {
			var err error
			rev, err = other.Put(ctx, records.Record{Key: "a", Value: []byte(value), Revision: after})
			if errors.Is(err, records.ErrChanged) { // by an attempt whose answer was late
				var got records.Record
				got, err = other.Get(ctx, "a")
				rev = got.Revision
			}
			return err == nil
		})
		return rev
	}
	rev := put("1", 0)
	next := put("2", rev)
	if _, err := one.Put(ctx, records.Record{Key: "a", Value: []byte("late"), Revision: rev}); !errors.Is(err, records.ErrChanged) {
		t.Errorf("a late write: %v", err)
	}
	journaltest.Eventually(t, time.Minute, "both", func() bool { return k.is("2,") })
	nodes.Kill(0)
	put("3", next)
	journaltest.Eventually(t, time.Minute, "it is seen", func() bool { return k.is("3,") })
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
