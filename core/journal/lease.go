package journal

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// DefaultLease is the time to live of a lease unless told otherwise. Somebody
// who died is replaced after about this time.
const DefaultLease = 8 * time.Second

// Lease is the right to do something that only one process may do at a time. It
// is renewed until it is released or lost.
type Lease struct {
	// Name is what it is about.
	Name string

	table *leaseTable
	key   string
	ttl   time.Duration
	value leaseValue
	rev   uint64

	lost chan struct{} // closed by the renewing goroutine; nobody sends
	stop context.CancelFunc
	done sync.WaitGroup
}

// leaseValue is a lease as it is kept. Nothing in it is a time: clocks differ.
type leaseValue struct {
	Holder string `json:"holder"`
	TTL    int64  `json:"ttlMs"`
	Beat   uint64 `json:"beat"`
}

// Lease waits until nobody else holds the lease of that name, and takes it. ttl
// (0: [DefaultLease], at least 1 s) is how long others wait for a holder that is
// silent, so a holder that cannot reach the store loses it within that time.
// Holders and waiters measure time by themselves: nobody's clock needs to be right,
// only to run about as fast as others'.
func (j *Journal) Lease(ctx context.Context, name string, ttl time.Duration) (*Lease, error) {
	if ttl == 0 {
		ttl = DefaultLease
	}
	ttl = max(ttl, time.Second)
	ctx, cancel := j.lifetime(ctx)
	defer cancel()
	t, err := j.leases.open(ctx, j)
	if err != nil {
		return nil, fmt.Errorf("journal: open the leases: %w", err)
	}
	l := &Lease{
		Name: name, table: t, key: "l" + hex.EncodeToString([]byte(name)), ttl: ttl,
		value: leaseValue{Holder: newEpoch() + newEpoch(), TTL: ttl.Milliseconds()},
		lost:  make(chan struct{}),
	}
	sent, err := l.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("journal: acquire a lease: %w", err)
	}
	if err := j.leases.hold(l, sent); err != nil {
		return nil, err
	}
	return l, nil
}

// acquire waits for the lease and takes it. It returns when it asked for it.
func (l *Lease) acquire(ctx context.Context) (time.Time, error) {
	for {
		seen, changed := l.table.look(l.key)
		wait := time.Until(seen.at.Add(seen.ttl))
		if seen.free || wait <= 0 {
			sent := time.Now()
			rev, err := l.write(ctx, seen)
			if err == nil {
				l.rev = rev
				return sent, nil
			}
			if ctx.Err() != nil {
				return time.Time{}, context.Cause(ctx)
			}
			wait = l.ttl / 10 // somebody was faster, or the store is away
			if !errors.Is(err, jetstream.ErrKeyExists) && !wrongRevision(err) {
				wait = l.ttl / 4
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// write puts our value in the place of what was seen, and of nothing else.
func (l *Lease) write(ctx context.Context, seen sighting) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/2)
	defer cancel()
	l.value.Beat++
	data, err := json.Marshal(l.value)
	if err != nil {
		return 0, err
	}
	if seen.free {
		return l.table.kv.Create(ctx, l.key, data)
	}
	return l.table.kv.Update(ctx, l.key, data, seen.rev)
}

func wrongRevision(err error) bool {
	apiErr, ok := errors.AsType[*jetstream.APIError](err)
	return ok && apiErr.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// Lost is closed when somebody else may hold the lease: it was released, or
// could not be renewed in time, or the Journal is closed. Who holds it must stop
// by then what the lease allows.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Release gives the lease back, for others to take at once, and waits for its
// goroutine. It may be called more than once.
func (l *Lease) Release() {
	l.stop()
	l.done.Wait()
}

// renew keeps the lease until ctx ends or it is lost.
func (l *Lease) renew(ctx context.Context, sent time.Time) {
	defer close(l.lost)
	for {
		// Others count from when they saw our last beat, which is after it was sent.
		until := sent.Add(l.ttl - l.ttl/8)
		next := time.NewTimer(min(l.ttl/4, time.Until(until)))
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			l.giveBack(context.WithoutCancel(ctx))
			return
		}
		if !time.Now().Before(until) {
			return
		}
		now := time.Now()
		try, cancel := context.WithDeadline(ctx, until)
		rev, err := l.write(try, sighting{rev: l.rev})
		switch {
		case err == nil:
			sent, l.rev = now, rev
		case wrongRevision(err) && !l.adopt(try):
			cancel()
			return
		}
		cancel()
	}
}

// adopt takes over the revision of a beat of ours whose answer was lost. It
// reports false if the lease is somebody else's.
func (l *Lease) adopt(ctx context.Context) bool {
	e, err := l.table.kv.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false
	}
	if err != nil {
		return true // not known; time will tell
	}
	var v leaseValue
	if json.Unmarshal(e.Value(), &v) != nil || v.Holder != l.value.Holder {
		return false
	}
	l.rev = e.Revision()
	return true
}

func (l *Lease) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = l.table.kv.Delete(ctx, l.key, jetstream.LastRevision(l.rev)) // else it runs out
}
