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

// DefaultLease is the default time to live of a lease: about how long it takes to replace a dead
// holder.
const DefaultLease = 8 * time.Second

// LeaseOptions say how a lease is acquired. The zero value is usable.
type LeaseOptions struct {
	// TTL is how long others wait for a silent holder; [DefaultLease], at least 1 s. A holder that
	// cannot reach the store loses the lease within this time.
	TTL time.Duration
	// Yield is called when the lease is free, and returns how long to leave it to other processes.
	// taken reports whether another process has held it since the call of [Log.Lease]. nil: take it
	// immediately.
	Yield func(taken bool) time.Duration
}

// Lease is the right to do something that only one process may do at a time. It is renewed until it
// is released or lost.
type Lease struct {
	// Name identifies the right.
	Name string

	log   *Log
	key   string
	ttl   time.Duration
	value leaseValue
	rev   uint64                    // of the last write, by acquire or renew
	fence atomic.Pointer[position]  // position of the holder's first event, see Fence; nil: it is not in the log
	until atomic.Pointer[time.Time] // no other process can take the lease before

	lost chan struct{} // closed by the renewing goroutine; nobody sends
	stop context.CancelFunc
	done sync.WaitGroup
}

// leaseValue is the stored form of a lease. It has no time because clocks differ.
type leaseValue struct {
	Holder   string `json:"holder"` // identifies this Lease; unique
	Instance string `json:"instance,omitempty"`
	Process  string `json:"process,omitempty"`
	TTL      int64  `json:"ttlMs"`
	Beat     uint64 `json:"beat"`
}

// Lease waits until nobody else holds the lease with that name, and takes it. Holders and waiters
// measure time themselves: clocks need not be right, only run about equally fast. Leases survive
// the loss of the store's data: holders claim them again, and waiters still wait for the holders
// that they saw.
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

// acquire waits for the lease and takes it. It returns the time at which it sent the successful
// request.
func (l *Lease) acquire(ctx context.Context, yield func(taken bool) time.Duration) (time.Time, error) {
	yielded := false // Yield was called after the lease was last seen as held
	taken := false   // another process held the lease
	for {
		seen, kv, changed := l.log.leases.look(l.key)
		wait := time.Until(seen.at.Add(seen.value.ttl()))
		// This process held the lease and has lost it, so nobody holds it.
		abandoned := seen.value.Instance == l.value.Instance && !l.log.leases.holds(l.key)
		switch {
		case kv == nil:
			wait = time.Minute // until there is a bucket
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
			wait = l.ttl / 10 // another process was faster, or the store is unreachable
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

// write stores the value of this Lease only if the stored lease has not changed since it was seen.
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

// Lost is closed when another process may hold the lease: it was released, could not be renewed in
// time, or the Log was closed. By then the holder must have stopped using the right.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Held reports whether no other process can hold the lease now. After a process was suspended, Held
// is exact while Lost may be late.
func (l *Lease) Held() bool { return !l.isLost() && time.Now().Before(*l.until.Load()) }

// renewed records when a renewal was sent, and returns until when the lease is held.
func (l *Lease) renewed(sent time.Time) time.Time {
	// Other processes count from when they saw the renewal, which is later than sent.
	until := sent.Add(l.ttl - l.ttl/8)
	l.until.Store(&until)
	return until
}

// Release gives the lease back, so that others can take it immediately, and waits for its
// goroutine. It may be called more than once.
func (l *Lease) Release() {
	l.stop()
	l.done.Wait()
}

// renew keeps the lease until ctx ends or it is lost.
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

// beat renews the lease once. held is false if another process has it. After an error, the lease
// may or may not have been renewed.
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
	// The response to an earlier renewal was lost, the store has lost the lease, or another process
	// took it.
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
	return true, errNoAnswer // renewed at an unknown time
}

func (l *Lease) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if kv := l.log.leases.bucket(); kv != nil {
		_ = kv.Delete(ctx, l.key, jetstream.LastRevision(l.rev)) // else it expires
	}
}

// ErrLeaseLost is the error of storing under a lease that another process may have taken.
var ErrLeaseLost = errors.New("the lease was lost")

// Fence stores the first event of the lease's holder. After it has returned nil, nothing that an
// earlier holder appended under its lease is stored.
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
	// Read the last fence before verifying the lease: if another process then takes the lease, one
	// of the two fences finds the other.
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

// verify returns an error unless the store says that the lease is held.
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

// lastFence returns the number of the last event on the subject, 0 if there is none.
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

// fenced returns the position of the holder's first event, zero if it has none in the log.
func (l *Lease) fenced() position {
	if at := l.fence.Load(); at != nil {
		return *at
	}
	return position{}
}

// Append implements [journal.Recorder]. It is like [Log.Append], but if the lease is lost before
// the event is stored, the event is dropped and counted. Call [Lease.Fence] first.
func (l *Lease) Append(e *event.Event) error {
	return l.log.writer.queue.Push(&item{Event: e, Note: note{lease: l}})
}

// Remember implements [journal.Recorder]. It is like [Log.Remember], but has no effect after the
// lease is lost.
func (l *Lease) Remember(r journal.ResourceID, st journal.State) error {
	return l.log.remember(newResourceState(r, st), l)
}

// RememberList implements [journal.Recorder]. It is like [Log.RememberList], but has no effect
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

// check marks the lease as lost if another process has stored a fence under it, and reports whether
// it is still held.
func (l *Lease) check(ctx context.Context) (held bool, err error) {
	if l.isLost() {
		return false, nil
	}
	last, err := l.log.store.lastFence(ctx, l.log.store.subjects.fence(l.Name))
	switch {
	case err != nil:
		return false, err
	case last == 0: // retention or a new log removed the fence, and there is no newer one
		l.fence.Store(nil)
		return true, nil
	case last == l.fenced().Seq:
		return true, nil
	}
	l.stop()
	<-l.lost
	return false, nil
}
