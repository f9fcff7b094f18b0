// Package recordstest tests that a [records.Store] keeps its contract.
package recordstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/records"
)

// Run runs all tests, each with a new store. open returns it, and reopen opens it again, as the next
// process does.
func Run(t *testing.T, open func(t *testing.T) (store records.Store, reopen func() records.Store)) {
	t.Run("Writes", func(t *testing.T) { s, _ := open(t); writes(t, s) })
	t.Run("Followers", func(t *testing.T) { s, _ := open(t); followers(t, s) })
	t.Run("ConcurrentWriters", func(t *testing.T) { s, _ := open(t); concurrentWriters(t, s) })
	t.Run("AfterReopen", func(t *testing.T) { s, reopen := open(t); afterReopen(t, s, reopen) })
}

// within returns a context that ends with the test, or when the store does not answer.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("the store does not answer"))
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s records.Store, key string) records.Record {
	t.Helper()
	rec, err := s.Get(within(t), key)
	if err != nil || rec.Key != key {
		t.Fatalf("Get of %s: %+v, %v", key, rec, err)
	}
	return rec
}

func put(t *testing.T, s records.Store, key, value string, revision uint64) uint64 {
	t.Helper()
	revision, err := s.Put(within(t), records.Record{Key: key, Value: []byte(value), Revision: revision})
	must(t, err)
	return revision
}

func writes(t *testing.T, s records.Store) {
	ctx := within(t)
	if rec := get(t, s, "a"); rec.Value != nil || rec.Revision != 0 {
		t.Errorf("a record that does not exist is %+v", rec)
	}
	value := []byte("1")
	first, err := s.Put(ctx, records.Record{Key: "a", Value: value})
	if err != nil || first == 0 {
		t.Fatalf("revision %d, %v", first, err)
	}
	value[0] = 'x' // must not change the stored record
	if rec := get(t, s, "a"); string(rec.Value) != "1" || rec.Revision != first {
		t.Errorf("the record is %+v, want revision %d", rec, first)
	}
	second := put(t, s, "a", "2", first)
	if second <= first {
		t.Fatalf("revision %d after %d", second, first)
	}
	late := func(key string, revision uint64) error {
		_, err := s.Put(ctx, records.Record{Key: key, Value: []byte("0"), Revision: revision})
		return err
	}
	for what, err := range map[string]error{
		"Put as new":                   late("a", 0),
		"Put with the first revision":  late("a", first),
		"Put with a future revision":   late("a", second+1),
		"Put of what does not exist":   late("b", second),
		"Remove of the first revision": s.Remove(ctx, records.Record{Key: "a", Revision: first}),
	} {
		if !errors.Is(err, records.ErrChanged) {
			t.Errorf("%s: %v, want ErrChanged", what, err)
		}
	}
	if rec := get(t, s, "a"); string(rec.Value) != "2" || rec.Revision != second {
		t.Errorf("the record is %+v, want revision %d", rec, second)
	}
	if rec := get(t, s, "b"); rec.Value != nil {
		t.Errorf("a write that failed stored %+v", rec)
	}
	must(t, s.Remove(ctx, records.Record{Key: "a", Revision: second}))
	gone := get(t, s, "a")
	if gone.Value != nil {
		t.Errorf("a removed record is %+v", gone)
	}
	if err := late("a", second); !errors.Is(err, records.ErrChanged) {
		t.Errorf("Put with a revision from before the removal: %v, want ErrChanged", err)
	}
	if third := put(t, s, "a", "3", gone.Revision); third <= second {
		t.Errorf("a record that is made again has revision %d after %d", third, second)
	}
}

// known is the data that a follower has received: the values by key, and the number of the last
// write.
type known struct {
	values map[string]string
	last   uint64
}

// watch follows a store in a goroutine until the test ends, and sends the current data after each
// change. The channel is never closed. After ctx has ended, changes are discarded.
func watch(ctx context.Context, t *testing.T, s records.Store) <-chan known {
	changes, now := make(chan known), known{values: map[string]string{}}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		s.Follow(ctx, func(c records.Changes) {
			if c.All {
				clear(now.values)
			}
			for _, rec := range c.Records {
				if now.values[rec.Key] = string(rec.Value); rec.Value == nil {
					delete(now.values, rec.Key)
				}
			}
			now.last = max(now.last, c.Last)
			select {
			case changes <- known{maps.Clone(now.values), now.last}:
			case <-ctx.Done():
			}
		})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return changes
}

// await waits until a follower has received exactly the wanted values.
func await(ctx context.Context, t *testing.T, changes <-chan known, want map[string]string) known {
	t.Helper()
	var now known
	for {
		select {
		case now = <-changes:
			if maps.Equal(now.values, want) {
				return now
			}
		case <-ctx.Done():
			t.Fatalf("one that follows knows %v, want %v: %v", now.values, want, context.Cause(ctx))
		}
	}
}

func followers(t *testing.T, s records.Store) {
	ctx := within(t)
	empty := watch(ctx, t, s)
	await(ctx, t, empty, nil)
	first := put(t, s, "a", "1", 0)
	await(ctx, t, empty, map[string]string{"a": "1"})
	changes := watch(ctx, t, s) // a follower that starts when records exist
	now := await(ctx, t, changes, map[string]string{"a": "1"})
	if now.last == 0 {
		t.Error("the last write has number 0")
	}
	b := put(t, s, "b", "2", 0)
	await(ctx, t, changes, map[string]string{"a": "1", "b": "2"})
	put(t, s, "a", "3", first)
	await(ctx, t, changes, map[string]string{"a": "3", "b": "2"})
	must(t, s.Remove(ctx, records.Record{Key: "b", Revision: b}))
	await(ctx, t, changes, map[string]string{"a": "3"})
	put(t, s, "b", "4", get(t, s, "b").Revision)
	await(ctx, t, changes, map[string]string{"a": "3", "b": "4"})
	await(ctx, t, empty, map[string]string{"a": "3", "b": "4"}) // the first follower receives all later changes
}

// Several goroutines increment a counter, and no update is lost.
func concurrentWriters(t *testing.T, s records.Store) {
	const writers, each = 5, 20
	ctx := within(t)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for n := 0; n < each; {
				rec, err := s.Get(ctx, "count")
				if err != nil {
					t.Error(err)
					return
				}
				count, _ := strconv.Atoi(string(rec.Value)) // 0 if the record does not exist yet
				rec.Value = fmt.Append(nil, count+1)
				switch _, err := s.Put(ctx, rec); {
				case err == nil:
					n++
				case !errors.Is(err, records.ErrChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if rec := get(t, s, "count"); string(rec.Value) != fmt.Sprint(writers*each) {
		t.Errorf("counted %s, want %d", rec.Value, writers*each)
	}
}

func afterReopen(t *testing.T, s records.Store, reopen func() records.Store) {
	ctx := within(t)
	for _, key := range []string{"a", "b.c_D-1", "gone"} {
		put(t, s, key, strconv.Quote(key), 0)
	}
	must(t, s.Remove(ctx, get(t, s, "gone")))
	s = reopen()
	await(ctx, t, watch(ctx, t, s), map[string]string{"a": `"a"`, "b.c_D-1": `"b.c_D-1"`})
	a := get(t, s, "a")
	revision, err := s.Put(ctx, records.Record{Key: "a", Value: []byte("2"), Revision: a.Revision})
	if err != nil || revision <= a.Revision {
		t.Errorf("the next write has revision %d after %d, %v", revision, a.Revision, err)
	}
	if _, err := s.Put(ctx, records.Record{Key: "a", Value: []byte("0"), Revision: a.Revision}); !errors.Is(err, records.ErrChanged) {
		t.Errorf("Put with the revision from before: %v, want ErrChanged", err)
	}
}
