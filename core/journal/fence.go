package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
)

// ErrLeaseLost is the error of storing something under a lease that another process may have
// taken.
var ErrLeaseLost = errors.New("the lease was lost")

// Fence stores the first event of the lease's holder. Once it has returned nil, nothing that an
// earlier holder appended under its lease will be stored.
func (l *Lease) Fence(ctx context.Context, e *event.Event) error {
	s := l.journal.store
	if s.embedded != nil { // there is no other process
		_, err := l.journal.Store(ctx, e)
		return err
	}
	ctx, cancel := l.journal.lifetime(ctx)
	defer cancel()
	parts, err := encode(e, l.journal.writer.largest())
	if err != nil {
		return err
	}
	subject := s.subjects.fence(l.Name)
	id := newEpoch() + newEpoch()
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
	// Read the last fence before checking the lease: if another process takes the lease after
	// that, one of the two fences finds the other.
	last, err := l.journal.store.lastFence(ctx, subject)
	if err != nil {
		return err
	}
	if err := l.verify(ctx); err != nil {
		return err
	}
	ack, err := l.journal.store.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data, Header: nats.Header{"Nats-Msg-Id": {id}}},
		jetstream.WithExpectLastSequencePerSubject(last))
	if err != nil {
		return fmt.Errorf("journal: fence a lease: %w", err)
	}
	l.fence.Store(ack.Sequence)
	return nil
}

// verify asks the store whether the lease is held.
func (l *Lease) verify(ctx context.Context) error {
	kv := l.table.bucket()
	if kv == nil {
		return errNoAnswer
	}
	e, err := kv.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return errNoAnswer // the store has lost the lease; the next renewal claims it again
	}
	if err != nil {
		return fmt.Errorf("journal: verify a lease: %w", err)
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
		return 0, fmt.Errorf("journal: fence a lease: %w", err)
	}
	m, err := log.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("journal: fence a lease: %w", err)
	}
	return m.Sequence, nil
}

// Append is like [Journal.Append], but the event is dropped, and counted, if the lease is lost
// before it is stored. [Lease.Fence] must have returned.
func (l *Lease) Append(e *event.Event) error {
	return l.journal.writer.queue.push(&item{event: e, lease: l})
}

// Remember is like [Journal.Remember], but does nothing once the lease is lost.
func (l *Lease) Remember(r Resource, st State) error {
	return l.journal.writer.queue.push(&item{resource: r, state: st, lease: l})
}

func (l *Lease) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// check marks the lease as lost if another process has stored under it, and reports whether it
// is still held.
func (l *Lease) check(ctx context.Context) (held bool, err error) {
	if l.isLost() {
		return false, nil
	}
	last, err := l.journal.store.lastFence(ctx, l.journal.store.subjects.fence(l.Name))
	switch {
	case err != nil:
		return false, err
	case last == 0: // retention, or a new log, removed the fence; there is no newer one
		l.fence.Store(0)
		return true, nil
	case last == l.fence.Load():
		return true, nil
	}
	l.stop()
	<-l.lost
	return false, nil
}

// held returns the records whose leases are not lost. With ask, it asks the store about every
// lease, because the store refused a record.
func (w *writer) held(ctx context.Context, records []*record, ask bool) ([]*record, error) {
	known := map[*Lease]bool{}
	kept := records[:0:0]
	for _, r := range records {
		if r.lease == nil {
			kept = append(kept, r)
			continue
		}
		held, ok := known[r.lease]
		if !ok {
			held = !r.lease.isLost()
			if held && ask {
				var err error
				if held, err = r.lease.check(ctx); err != nil {
					return records, err
				}
			}
			known[r.lease] = held
		}
		if held {
			kept = append(kept, r)
			continue
		}
		w.store.counts.fenced.Add(1)
		for _, it := range r.states {
			if it.lease != r.lease {
				w.states.put(it, w.last)
			}
		}
		if r.item != nil {
			r.item.finish(Entry{}, fmt.Errorf("journal: %w", ErrLeaseLost))
		}
	}
	return kept, nil
}

// refused reports whether the store did not store a record because of a fence.
func refused(err error) bool {
	e, ok := errors.AsType[*storeError](err)
	return ok && (e.Code == codeWrongSequence || e.Code == codeWrongSequenceConstant)
}

// Error codes of the server: the expected last sequence was wrong.
const (
	codeWrongSequence         = 10071
	codeWrongSequenceConstant = 10164
)
