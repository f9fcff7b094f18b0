package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/pending"
)

// ErrLeaseLost is the error of storing something under a lease that another process may have
// taken.
var ErrLeaseLost = errors.New("the lease was lost")

// Fence stores the first event of the lease's holder. Once it has returned nil, nothing that an
// earlier holder appended under its lease will be stored.
func (l *Lease) Fence(ctx context.Context, e *event.Event) error {
	s := l.log.store
	ctx, cancel := l.log.lifetime(ctx)
	defer cancel()
	parts, err := pending.Encode(e, s.largest())
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
	// Read the last fence before checking the lease: if another process takes the lease after
	// that, one of the two fences finds the other.
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

// fenced returns the position of the holder's first event, which is zero if there is none.
func (l *Lease) fenced() position {
	if at := l.fence.Load(); at != nil {
		return *at
	}
	return position{}
}

// Append implements [journal.Recorder]: it is like [Log.Append], but the event is dropped, and
// counted, if the lease is lost before it is stored. [Lease.Fence] must have returned.
func (l *Lease) Append(e *event.Event) error {
	return l.log.writer.queue.Push(&item{Event: e, Note: note{lease: l}})
}

// Remember implements [journal.Recorder]: it is like [Log.Remember], but does nothing once the
// lease is lost.
func (l *Lease) Remember(r journal.Resource, st journal.State) error {
	return l.log.remember(newResourceState(r, st), l)
}

// RememberList implements [journal.Recorder]: it is like [Log.RememberList], but does nothing
// once the lease is lost.
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

// check marks the lease as lost if another process has stored under it, and reports whether it
// is still held.
func (l *Lease) check(ctx context.Context) (held bool, err error) {
	if l.isLost() {
		return false, nil
	}
	last, err := l.log.store.lastFence(ctx, l.log.store.subjects.fence(l.Name))
	switch {
	case err != nil:
		return false, err
	case last == 0: // retention, or a new log, removed the fence; there is no newer one
		l.fence.Store(nil)
		return true, nil
	case last == l.fenced().Seq:
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
		w.store.health.Fenced.Add(1)
		if r.item != nil {
			r.item.Finish(journal.Entry{}, fmt.Errorf("event log: %w", ErrLeaseLost))
		}
		for _, it := range r.after {
			w.reached(it, w.last)
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
