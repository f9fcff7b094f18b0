package natslog

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	// TTL is how long the store keeps a lease that is not renewed, in whole seconds. A holder that
	// cannot reach the store loses the lease within this time. The default is [DefaultLease].
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

	log    *Log
	key    string
	ttl    time.Duration
	holder string                    // unique id of this Lease
	rev    uint64                    // revision of the last write
	fence  atomic.Pointer[position]  // position of the fence event (see Fence); nil if it is not in the log
	until  atomic.Pointer[time.Time] // until then, no other process can take the lease

	lost chan struct{} // closed by the renewing goroutine when the lease is lost
	stop context.CancelFunc
}

// leaseValue is the stored form of a lease.
type leaseValue struct {
	Holder  string `json:"holder"` // unique id of the Lease that holds it
	Process string `json:"process,omitempty"`
	TTL     int64  `json:"ttlMs"`
}

// Lease waits until no other process holds the lease with the given name, and then takes it. If the
// store loses the lease, its holder notices within its TTL.
func (l *Log) Lease(ctx context.Context, name string, opts LeaseOptions) (*Lease, error) {
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	l.leases.open()
	held := &Lease{Name: name, log: l, key: leaseKey(name), ttl: cmp.Or(opts.TTL, DefaultLease),
		holder: l.store.instance + journal.NewEpoch(), lost: make(chan struct{})}
	sent, err := held.acquire(ctx, opts.Yield)
	if err != nil {
		return nil, fmt.Errorf("event log: acquire a lease: %w", err)
	}
	held.renewed(sent)
	renewing, done := l.leases.life.Begin(context.Background())
	renewing, held.stop = context.WithCancel(renewing)
	go func() {
		defer done()
		defer held.stop()
		held.renew(renewing)
	}()
	return held, nil
}

func leaseKey(name string) string { return "l" + hex.EncodeToString([]byte(name)) }

// acquire waits until the lease is free and takes it. It returns the time at which it sent the
// successful request.
func (l *Lease) acquire(ctx context.Context, yield func(taken bool) time.Duration) (sent time.Time, err error) {
	yielded := false // yield was called since the lease was last held
	taken := false   // another process has held the lease
	for {
		seen, kv, changed := l.log.leases.look(l.key)
		wait := time.Until(seen.until)
		switch {
		case kv == nil:
			wait = time.Minute // no bucket yet; the wait ends early when it is created
		case wait > 0:
			yielded, taken = false, true
		case !yielded && yield != nil:
			yielded = true
			if wait = yield(taken); wait <= 0 {
				continue
			}
		default:
			sent = time.Now()
			if err = l.take(ctx, kv); err == nil {
				return sent, nil
			}
			wait = l.ttl / 20 // another process has it, or the store is unreachable
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

// take takes the lease if no process holds it.
func (l *Lease) take(ctx context.Context, kv jetstream.KeyValue) (err error) {
	try, cancel := context.WithTimeout(ctx, l.ttl/2)
	defer cancel()
	l.rev, err = kv.Create(try, l.key, l.value(), jetstream.KeyTTL(l.ttl))
	return err
}

func (l *Lease) value() []byte {
	data, _ := json.Marshal(leaseValue{l.holder, l.log.store.opts.Process, l.ttl.Milliseconds()}) // strings can always be encoded
	return data
}

// Lost returns a channel that is closed when another process may hold the lease: after it was
// released, could not be renewed in time, or the Log was closed. By then, the holder must have
// stopped the task that the lease protects.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Held reports whether it is certain that no other process holds the lease. After the process was
// suspended, Held is immediately correct, whereas Lost may be closed late.
func (l *Lease) Held() bool {
	now, until := time.Now(), *l.until.Load()
	// Also by the wall clock: the monotonic clock of Linux stands still while the machine sleeps.
	return !l.isLost() && now.Before(until) && now.Round(0).Before(until.Round(0))
}

// renewed records the time at which a successful renewal was sent.
func (l *Lease) renewed(sent time.Time) {
	// The store measures the TTL from when it stores the renewal, which is later than sent.
	until := sent.Add(l.ttl - l.ttl/8)
	l.until.Store(&until)
}

// Release gives up the lease, so that another process can take it immediately, and waits until it is
// lost. It may be called more than once.
func (l *Lease) Release() {
	l.stop()
	<-l.lost
}

// renew renews the lease periodically until ctx ends or the lease is lost.
func (l *Lease) renew(ctx context.Context) {
	defer close(l.lost)
	pause := l.ttl / 4
	for backoff.Sleep(ctx, min(pause, time.Until(*l.until.Load()))) && l.Held() {
		sent := time.Now()
		pause = l.ttl / 16
		if l.beat(ctx) == nil {
			l.renewed(sent)
			pause = l.ttl / 4
		}
	}
	if ctx.Err() != nil {
		l.giveBack(context.WithoutCancel(ctx))
	}
}

// beat renews the lease once. After an error it may or may not have been renewed.
func (l *Lease) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/8)
	defer cancel()
	if seen, _, _ := l.log.leases.look(l.key); seen.Holder == l.holder { // the response to an earlier renewal may have been lost
		l.rev = max(l.rev, seen.rev)
	}
	m := &nats.Msg{Subject: "$KV." + l.log.leases.config.Bucket + "." + l.key, Data: l.value()}
	ack, err := l.log.store.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(l.rev), jetstream.WithMsgTTL(l.ttl))
	if err == nil {
		l.rev = ack.Sequence
	}
	return err
}

func (l *Lease) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, kv, _ := l.log.leases.look(l.key); kv != nil {
		_ = kv.Purge(ctx, l.key, jetstream.LastRevision(l.rev), jetstream.PurgeTTL(leaseMarkers)) // if this fails, the lease expires by itself
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
	// Read the last fence before checking the time. If another process takes the lease afterwards, one
	// of the two processes detects the fence of the other.
	last, err := l.log.store.lastFence(ctx, subject)
	if err != nil {
		return err
	}
	if !l.Held() {
		return ErrLeaseLost
	}
	ack, err := l.log.store.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data, Header: nats.Header{"Nats-Msg-Id": {id}}},
		jetstream.WithExpectLastSequencePerSubject(last))
	if err != nil {
		return fmt.Errorf("event log: fence a lease: %w", err)
	}
	l.fence.Store(&position{ack.Sequence, epoch})
	return nil
}

// lastFence returns the number of the last event on the subject, or 0 if there is none.
func (s *store) lastFence(ctx context.Context, subject string) (uint64, error) {
	var m *jetstream.RawStreamMsg
	log, err := s.stream(ctx, s.opts.Stream)
	if err == nil {
		m, err = log.GetLastMsgForSubject(ctx, subject)
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil
	case err != nil:
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
// check marks the lease as lost.
func (l *Lease) check(ctx context.Context) error {
	last, err := l.log.store.lastFence(ctx, l.log.store.subjects.fence(l.Name))
	switch {
	case err != nil:
		return err
	case last == 0: // the fence is gone, due to retention or a new log, and there is no newer one
		l.fence.Store(nil)
	case last != l.fenced().Seq:
		l.stop()
		<-l.lost
	}
	return nil
}
