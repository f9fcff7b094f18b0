package natslog

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

// DefaultLease is the default time to live of a lease. If the holder crashes, it takes about this
// long until another process can acquire the lease.
const DefaultLease = 8 * time.Second

// LeaseOptions configures how a lease is acquired. The zero value selects the defaults.
type LeaseOptions struct {
	// TTL is how long other processes wait for a holder that no longer renews the lease. A holder
	// that cannot reach the store loses the lease within this time. The default is [DefaultLease];
	// the minimum is 1 s.
	TTL time.Duration
	// Yield is called when the lease is free. It returns how long to wait before taking it, so that
	// other processes may take it first. taken is true if another process has held the lease since
	// the call to [Log.Lease]. If Yield is nil, the lease is taken immediately.
	Yield func(taken bool) time.Duration
}

// Lease is the exclusive right to perform some task: only one process can hold it at a time. It is
// renewed until it is released or lost.
type Lease struct {
	// Name identifies the lease on the cluster.
	Name string

	log   *Log
	key   string
	ttl   time.Duration
	value leaseValue
	rev   uint64                    // revision of the last write by acquire or renew
	fence atomic.Pointer[position]  // position of the fence event (see Fence); nil if it is not in the log
	until atomic.Pointer[time.Time] // until then, no other process can take the lease

	lost chan struct{} // closed by the renewing goroutine when the lease is lost
	stop context.CancelFunc
	done sync.WaitGroup
}

// leaseValue is the stored form of a lease. It contains no timestamp, because the clocks of the
// processes may differ.
type leaseValue struct {
	Holder   string `json:"holder"` // unique id of the Lease that holds it
	Instance string `json:"instance,omitempty"`
	Process  string `json:"process,omitempty"`
	TTL      int64  `json:"ttlMs"`
	Beat     uint64 `json:"beat"`
}

// Lease waits until no other process holds the lease with the given name, and then takes it. Each
// process measures time itself, so clocks may be wrong as long as they run at about the same speed.
// If the store loses its data, leases survive: holders claim their leases again, and waiting
// processes still wait for the holders that they have seen.
func (l *Log) Lease(ctx context.Context, name string, opts LeaseOptions) (*Lease, error) {
	if opts.TTL == 0 {
		opts.TTL = DefaultLease
	}
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	if err := l.leases.open(); err != nil {
		return nil, err
	}
	ttl := max(opts.TTL, time.Second)
	held := &Lease{
		Name: name, log: l, key: leaseKey(name), ttl: ttl,
		value: leaseValue{Holder: journal.NewEpoch() + journal.NewEpoch(), Instance: l.store.instance, Process: l.store.opts.Process, TTL: ttl.Milliseconds()},
		lost:  make(chan struct{}),
	}
	sent, err := held.acquire(ctx, opts.Yield)
	if err != nil {
		return nil, fmt.Errorf("event log: acquire a lease: %w", err)
	}
	if err := l.leases.hold(held, sent); err != nil {
		return nil, err
	}
	return held, nil
}

func leaseKey(name string) string { return "l" + hex.EncodeToString([]byte(name)) }

// acquire waits until the lease is free and takes it. It returns the time at which it sent the
// successful request.
func (l *Lease) acquire(ctx context.Context, yield func(taken bool) time.Duration) (time.Time, error) {
	yielded := false // yield was called since the lease was last held
	taken := false   // another process has held the lease
	for {
		seen, kv, changed := l.log.leases.look(l.key)
		wait := time.Until(seen.at.Add(seen.value.ttl()))
		// If the stored holder is this process and it has lost the lease, the lease is free.
		abandoned := seen.value.Instance == l.value.Instance && !l.log.leases.holds(l.key)
		switch {
		case kv == nil:
			wait = time.Minute // no bucket yet; the wait ends early when it is created
		case !seen.free && wait > 0 && !abandoned:
			yielded, taken = false, true
		case !yielded && yield != nil:
			yielded = true
			if wait = yield(taken); wait <= 0 {
				continue
			}
		default:
			sent := time.Now()
			rev, err := l.write(ctx, kv, seen)
			if err == nil {
				l.rev = rev
				return sent, nil
			}
			if ctx.Err() != nil {
				return time.Time{}, context.Cause(ctx)
			}
			wait = l.ttl / 10 // another process took the lease, or the store is unreachable
			if !errors.Is(err, jetstream.ErrKeyExists) && !wrongRevision(err) {
				wait = l.ttl / 4
				l.log.leases.check()
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

// write stores this process as the holder, but only if the stored lease has not changed since seen
// was read.
func (l *Lease) write(ctx context.Context, kv jetstream.KeyValue, seen sighting) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/2)
	defer cancel()
	l.value.Beat++
	data, err := json.Marshal(l.value)
	if err != nil {
		return 0, err
	}
	if seen.rev == 0 || seen.free {
		return kv.Create(ctx, l.key, data)
	}
	return kv.Update(ctx, l.key, data, seen.rev)
}

// Lost returns a channel that is closed when another process may hold the lease: after it was
// released, could not be renewed in time, or the Log was closed. By then, the holder must have
// stopped the task that the lease protects.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Held reports whether it is certain that no other process holds the lease. After the process was
// suspended, Held is immediately correct, whereas Lost may be closed late.
func (l *Lease) Held() bool { return !l.isLost() && time.Now().Before(*l.until.Load()) }

// renewed records the time at which a successful renewal was sent. It returns the time until which
// the lease is now held.
func (l *Lease) renewed(sent time.Time) time.Time {
	// Other processes measure the TTL from when they see the renewal, which is later than sent.
	until := sent.Add(l.ttl - l.ttl/8)
	l.until.Store(&until)
	return until
}

// Release gives up the lease, so that another process can take it immediately, and waits for the
// renewing goroutine to stop. It may be called more than once.
func (l *Lease) Release() {
	l.stop()
	l.done.Wait()
}

// renew renews the lease periodically until ctx ends or the lease is lost.
func (l *Lease) renew(ctx context.Context, sent time.Time) {
	defer close(l.lost)
	for {
		until := l.renewed(sent)
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
		held, err := l.beat(try)
		cancel()
		if !held {
			return
		}
		if err == nil {
			sent = now
		}
	}
}

// beat renews the lease once. held is false if another process has taken it. If it returns an
// error, the lease may or may not have been renewed.
func (l *Lease) beat(ctx context.Context) (held bool, err error) {
	kv := l.log.leases.bucket()
	if kv == nil {
		return true, errNoAnswer
	}
	rev, err := l.write(ctx, kv, sighting{rev: l.rev})
	if err == nil {
		l.rev = rev
		return true, nil
	}
	if !wrongRevision(err) {
		l.log.leases.check()
		return true, err
	}
	// The write was rejected for one of three reasons: the response to an earlier renewal was lost,
	// the store has lost the lease, or another process has taken it.
	e, err := kv.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		if rev, err = l.write(ctx, kv, sighting{free: true}); err == nil {
			l.rev = rev
		}
		return !errors.Is(err, jetstream.ErrKeyExists), err
	}
	if err != nil {
		return true, err
	}
	var v leaseValue
	if json.Unmarshal(e.Value(), &v) != nil || v.Holder != l.value.Holder {
		return false, nil
	}
	l.rev = e.Revision()
	return true, errNoAnswer // the lease was renewed, but it is unknown when
}

func (l *Lease) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if kv := l.log.leases.bucket(); kv != nil {
		_ = kv.Delete(ctx, l.key, jetstream.LastRevision(l.rev)) // if this fails, the lease expires by itself
	}
}

// ErrLeaseLost is returned when an event is stored under a lease that another process may have
// taken.
var ErrLeaseLost = errors.New("the lease was lost")

// Fence stores e as the first event of this holder of the lease. After Fence has returned nil, the
// store rejects all events that an earlier holder appended under its lease and that are not stored
// yet.
func (l *Lease) Fence(ctx context.Context, e *event.Event) error {
	s := l.log.store
	ctx, cancel := l.log.life.Begin(ctx)
	defer cancel()
	parts, err := storing.Encode(e, s.largest())
	if err != nil {
		return err
	}
	subject := s.subjects.fence(l.Name)
	id := journal.NewEpoch() + journal.NewEpoch()
	retry := backoff.New(50*time.Millisecond, time.Second)
	for {
		err := l.tryFence(ctx, subject, id, parts[0])
		if err == nil || l.isLost() || errors.Is(err, ErrLeaseLost) || !backoff.Sleep(ctx, retry.Next()) {
			return err
		}
	}
}

func (l *Lease) tryFence(ctx context.Context, subject, id string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout/4)
	defer cancel()
	epoch := l.log.Epoch()
	// Read the last fence before verifying the lease. If another process takes the lease
	// afterwards, one of the two processes detects the fence of the other.
	last, err := l.log.store.lastFence(ctx, subject)
	if err != nil {
		return err
	}
	if err := l.verify(ctx); err != nil {
		return err
	}
	ack, err := l.log.store.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data, Header: nats.Header{"Nats-Msg-Id": {id}}},
		jetstream.WithExpectLastSequencePerSubject(last))
	if err != nil {
		return fmt.Errorf("event log: fence a lease: %w", err)
	}
	l.fence.Store(&position{ack.Sequence, epoch})
	return nil
}

// verify returns nil if the store confirms that this process holds the lease.
func (l *Lease) verify(ctx context.Context) error {
	kv := l.log.leases.bucket()
	if kv == nil {
		return errNoAnswer
	}
	e, err := kv.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return errNoAnswer // the store has lost the lease; the next renewal claims it again
	}
	if err != nil {
		return fmt.Errorf("event log: verify a lease: %w", err)
	}
	var v leaseValue
	if json.Unmarshal(e.Value(), &v) != nil || v.Holder != l.value.Holder {
		return ErrLeaseLost
	}
	return nil
}

// lastFence returns the number of the last event on the subject, or 0 if there is none.
func (s *store) lastFence(ctx context.Context, subject string) (uint64, error) {
	log, err := s.js.Stream(ctx, s.opts.Stream)
	if err != nil {
		return 0, fmt.Errorf("event log: fence a lease: %w", err)
	}
	m, err := log.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("event log: fence a lease: %w", err)
	}
	return m.Sequence, nil
}

// fenced returns the position of this holder's fence event, or the zero position if it is not in
// the log.
func (l *Lease) fenced() position {
	if at := l.fence.Load(); at != nil {
		return *at
	}
	return position{}
}

// Append implements [journal.Recorder]. It works like [Log.Append], except that the event is
// dropped and counted if the lease is lost before the event is stored. [Lease.Fence] must be called
// first.
func (l *Lease) Append(e *event.Event) error {
	return l.log.writer.queue.Push(&item{Event: e, Note: note{lease: l}})
}

// Remember implements [journal.Recorder]. It works like [Log.Remember], but has no effect after the
// lease is lost.
func (l *Lease) Remember(r journal.ResourceID, st journal.State) error {
	return l.log.remember(newResourceState(r, st), l)
}

// RememberList implements [journal.Recorder]. It works like [Log.RememberList], but has no effect
// after the lease is lost.
func (l *Lease) RememberList(name journal.ListName, list catalog.List) error {
	return l.log.remember(newKnownList(name, list), l)
}

var _ journal.Recorder = (*Lease)(nil)

func (l *Lease) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// check asks the store for the last fence of the lease. If another process has stored a newer one,
// check marks the lease as lost. It reports whether the lease is still held.
func (l *Lease) check(ctx context.Context) (held bool, err error) {
	if l.isLost() {
		return false, nil
	}
	last, err := l.log.store.lastFence(ctx, l.log.store.subjects.fence(l.Name))
	switch {
	case err != nil:
		return false, err
	case last == 0: // the fence is gone, due to retention or a new log, and there is no newer one
		l.fence.Store(nil)
		return true, nil
	case last == l.fenced().Seq:
		return true, nil
	}
	l.stop()
	<-l.lost
	return false, nil
}
