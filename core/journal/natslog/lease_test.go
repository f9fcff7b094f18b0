package natslog

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/records"
)

func lost(l *Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

func acquire(t *testing.T, j *Log, name string, ttl time.Duration) *Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := j.Lease(ctx, name, LeaseOptions{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRealLeaseIsHeldByOne(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	const ttl = 4 * time.Second
	a := acquire(t, j, "docs", ttl)
	other := acquire(t, j, "another server", ttl)
	ctx, cancel := context.WithTimeout(t.Context(), 2*ttl) // several lives of a lease that is not renewed
	defer cancel()
	if l, err := j.Lease(ctx, "docs", LeaseOptions{TTL: ttl}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second holder: %v, %v", l, err)
	}
	if lost(a) || lost(other) {
		t.Error("a lease that is renewed was lost")
	}
	// A released lease is free immediately.
	got := make(chan *Lease, 1)
	go func() {
		l, _ := j.Lease(t.Context(), "docs", LeaseOptions{TTL: time.Minute})
		got <- l
	}()
	a.Release()
	if !lost(a) {
		t.Error("a released lease is not lost")
	}
	select {
	case l := <-got:
		if l == nil || lost(l) {
			t.Error("the next holder got none")
		}
		closeLog(t, j)
		if !lost(l) || !lost(other) {
			t.Error("leases outlive the log")
		}
	case <-time.After(5 * time.Second):
		t.Error("a released lease was not free within 5 s")
	}
	if _, err := j.Lease(t.Context(), "docs", LeaseOptions{}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Every lease of the log is renewed every few seconds. Waking all waiters for each renewal would be
// work that grows with the square of the leases.
func TestRenewalWakesNobody(t *testing.T) {
	t.Parallel()
	table := newLeases(t.Context(), &store{})
	for i, c := range []struct {
		all   bool
		value string
		woken bool
	}{{true, `{"holder":"x"}`, true}, {false, `{"holder":"x"}`, false}, {false, `{"holder":"y"}`, true}, {false, `{"holder":"y"}`, false}, {false, `null`, true}} {
		_, _, changed := table.look("a")
		table.put(nil, records.Changes{All: c.all, Records: []records.Record{{Key: "a", Value: []byte(c.value)}}})
		woken := false
		select {
		case <-changed:
			woken = true
		default:
		}
		if woken != c.woken {
			t.Errorf("write %d, %s: woken: %v", i, c.value, woken)
		}
	}
}

func TestRealLeaseHasOneHolderAmongMany(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	var holders, turns atomic.Int32
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			l, err := j.Lease(t.Context(), "one", LeaseOptions{TTL: 5 * time.Second})
			if err == nil {
				if holders.Add(1) != 1 {
					err = errors.New("two holders")
				}
				turns.Add(1)
				holders.Add(-1)
				l.Release()
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if turns.Load() != int32(cap(done)) {
		t.Errorf("%d turns", turns.Load())
	}
}

// Yield tells a lease that another process has held from one that nobody took.
func TestRealYieldAfterAnotherHolder(t *testing.T) {
	t.Parallel()
	opts := Options{URL: journaltest.Store(t), Replicas: 1}
	one, other := open(t, opts), open(t, opts)
	yields := make(chan bool, 10) // what Yield was called with; sent by the goroutines of Lease
	waiting := LeaseOptions{TTL: time.Minute, Yield: func(taken bool) time.Duration { yields <- taken; return 0 }}
	free, err := one.Lease(t.Context(), "docs", waiting)
	if err != nil {
		t.Fatal(err)
	}
	if <-yields {
		t.Error("a lease that nobody held was taken by another process")
	}
	free.Release()
	journaltest.Eventually(t, time.Minute, "Yield is told of another holder", func() bool {
		held := acquire(t, other, "docs", time.Minute)
		journaltest.Eventually(t, time.Minute, "the holder is known", func() bool {
			leases, err := one.Leases()
			return err == nil && len(leases) == 1 && !leases[0].Own
		})
		next := make(chan *Lease, 1)
		go func() {
			l, _ := one.Lease(t.Context(), "docs", waiting)
			next <- l
		}()
		runtime.Gosched() // it may begin only after the release; then it is tried again
		held.Release()
		(<-next).Release()
		return <-yields
	})
}
