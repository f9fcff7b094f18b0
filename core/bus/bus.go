// Package bus puts events into one total order and delivers them to subscribers.
//
// Order: all subscribers receive the same events in the same order, with sequence
// numbers that rise by one, without holes. Loss: none while a subscriber keeps up. A
// subscriber that falls behind by more than its capacity is cut off: it still receives
// what is queued for it, then its stream ends with [ErrLagged], and the last sequence
// number shows what it missed. Publishing never blocks.
//
// Ownership: the bus owns the queues; Close ends every stream after the queued events. A
// subscription has one consumer, which leaves by ending its context.
package bus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"iter"
	"sync"

	"github.com/mcptrack/mcptrack/core/event"
)

// ErrLagged is the error of a subscription that was cut for being too slow.
var ErrLagged = errors.New("subscriber too slow: it missed events")

// DefaultCapacity is how many events a subscription may lag behind by default.
const DefaultCapacity = 1 << 16

// Bus is a total order of events. The zero Bus is not usable; see [New].
type Bus struct {
	epoch string

	mu     sync.Mutex // guards all below; held for no I/O
	seq    uint64
	subs   map[*Subscription]struct{}
	closed bool
}

// New returns an empty bus with a random epoch.
func New() *Bus {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return &Bus{epoch: hex.EncodeToString(b[:]), subs: map[*Subscription]struct{}{}}
}

// Epoch is the part of every event ID that distinguishes this run from others.
func (b *Bus) Epoch() string { return b.epoch }

// Publish gives the event its place in the order and queues it for every
// subscriber. It returns the event as published, which is shared and must not be
// modified. After Close the event is numbered but not delivered.
func (b *Bus) Publish(e event.Event) *event.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	e.Seq = b.seq
	e.ID = event.FormatID(b.epoch, b.seq)
	for s := range b.subs {
		if !s.push(&e) {
			delete(b.subs, s)
		}
	}
	return &e
}

// Seq is the number of the last event published, 0 before the first.
func (b *Bus) Seq() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seq
}

// Subscribe starts a stream of all events after the last one published, for a
// consumer that may lag capacity events behind (0: [DefaultCapacity]). The stream ends
// when ctx does, when the bus is closed, or when the consumer lags further behind.
func (b *Bus) Subscribe(ctx context.Context, capacity int) *Subscription {
	if capacity <= 0 {
		capacity = DefaultCapacity
	}
	s := &Subscription{capacity: capacity, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		s.end(nil)
		return s
	}
	b.subs[s] = struct{}{}
	s.stop = context.AfterFunc(ctx, func() { b.leave(s, context.Cause(ctx)) })
	return s
}

// Close ends every stream once its consumer has received the queued events. It may be
// called more than once.
func (b *Bus) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for s := range b.subs {
		s.end(nil)
		delete(b.subs, s)
	}
}

func (b *Bus) leave(s *Subscription, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
	s.end(cause)
}

// Subscription is one consumer's stream of events.
type Subscription struct {
	capacity int         // of queue, in events
	stop     func() bool // removes the AfterFunc from the subscriber's context; nil: there is none

	// wake is sent to by the bus and never closed. Capacity 1: a token means that
	// queue or ended changed since the consumer looked.
	wake chan struct{}

	mu    sync.Mutex // guards all below
	queue []*event.Event
	ended bool  // nothing more is queued
	err   error // see Err
}

// Next waits for events and returns all that are queued, oldest first, or nil
// once the stream has ended and all was returned. The slice is the caller's.
func (s *Subscription) Next() []*event.Event {
	for {
		if batch, ended := s.Take(); len(batch) > 0 || ended {
			return batch
		}
		<-s.wake
	}
}

// Take is Next without waiting: it returns what is queued now, which may be nothing, and
// whether the stream has ended, so that nothing will follow.
func (s *Subscription) Take() (batch []*event.Event, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, s.queue = s.queue, nil
	return batch, s.ended
}

// Ready receives a value when Take may have something, for a consumer that waits for
// other things, too. Events that were queued since the last Take are always signalled,
// but a signal may be about what an earlier Take returned. Capacity 1, sent to by the
// bus, never closed.
func (s *Subscription) Ready() <-chan struct{} { return s.wake }

// Events ranges over the stream until it ends; then Err returns the reason.
func (s *Subscription) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		for batch := s.Next(); batch != nil; batch = s.Next() {
			for _, e := range batch {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Err returns why the stream ended: nil when the bus was closed, [ErrLagged], or
// the cause of the subscriber's context. It is nil before the end.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// push queues the event. If the queue is full it ends the stream and reports false.
func (s *Subscription) push(e *event.Event) bool {
	s.mu.Lock()
	full := len(s.queue) >= s.capacity
	if !full {
		s.queue = append(s.queue, e)
	}
	s.mu.Unlock()
	if full {
		s.end(ErrLagged)
		return false
	}
	s.signal()
	return true
}

func (s *Subscription) end(err error) {
	s.mu.Lock()
	if !s.ended {
		s.ended, s.err = true, err
	}
	s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
	s.signal()
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
