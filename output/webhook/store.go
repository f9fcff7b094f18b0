package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// subscriptionPrefix begins the keys of subscription records.
	subscriptionPrefix = "s."
	// storeWait limits the time to store a client's request.
	storeWait = 15 * time.Second
	// answerWait is how long the delivering process waits for the process that creates a
	// subscription to confirm that the client has the answer. The creating process may have died.
	answerWait = 10 * time.Second
)

// limitError reports that a limit is reached.
type limitError struct {
	limit  string
	max    int
	reason string // for people
}

func (e *limitError) Error() string { return e.reason }

// answer returns the error for the client.
func (e *limitError) answer(r *mcpserver.Request) error {
	return mcpevents.Fail(r, mcpevents.ResourceExhausted, map[string]any{"limit": e.limit, "max": e.max, "reason": e.reason})
}

// limit returns why a client that has own of all subscriptions cannot create another one.
func (o *Options) limit(own, all int) *limitError {
	switch {
	case own >= o.MaxEach:
		return &limitError{"webhook subscriptions of a client", o.MaxEach, fmt.Sprintf("a client may have %d webhook subscriptions", o.MaxEach)}
	case all >= o.MaxTotal:
		return &limitError{"webhook subscriptions", o.MaxTotal, fmt.Sprintf("there may be %d webhook subscriptions in total", o.MaxTotal)}
	}
	return nil
}

// create stores a new subscription, or refreshes the one with the same ID. It returns the previous
// record, nil if there was none, and the stored one. If another process was faster, it applies the
// request to what that process stored. The error may be a *limitError.
func (s *Subscriptions) create(ctx context.Context, next record) (before *record, after record, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	rec := journal.Record{Key: subscriptionPrefix + next.ID}
	for {
		var last uint64
		var full *limitError
		if before, rec.Revision, last, full, err = s.current(&next); err != nil {
			return nil, record{}, err
		}
		after = next.after(before)
		if rec.Value, err = s.opts.Keys.seal(after); err != nil {
			return nil, record{}, err
		}
		switch {
		case before != nil:
			rec.Revision, err = s.records.Put(ctx, rec)
		case full != nil:
			return nil, record{}, full
		default: // the limits hold only if nothing else was written
			rec.Revision, err = s.records.PutAfter(ctx, rec, last)
		}
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			return before, after, s.applyLocked(after, rec.Revision)
		}
		if !errors.Is(err, journal.ErrChanged) || !s.awaitWrite(ctx, last) {
			return nil, record{}, err
		}
	}
}

// current returns the record that a request changes, with its known progress, and its revision; nil
// if there is none or it has expired. last is the number of the last known write, and full is why
// the client cannot create another subscription.
func (s *Subscriptions) current(next *record) (r *record, revision, last uint64, full *limitError, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key, ok := s.unreadable[next.ID]; ok {
		return nil, 0, 0, nil, &otherKeyError{key}
	}
	own, all := 0, 0
	for _, sub := range s.byID {
		switch {
		case sub.expired():
		case sub.ID == next.ID:
			now := sub.record
			r, revision = &now, sub.revision
		default:
			all++
			if sub.Principal == next.Principal {
				own++
			}
		}
	}
	return r, revision, s.last, s.opts.limit(own, all), nil
}

// answered starts deliveries, as the answer that created the subscription was written. If other
// processes may deliver, it also stores that, in the background.
func (s *Subscriptions) answered(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub := s.byID[r.ID]; sub != nil && sub.Life == r.Life {
		sub.presumeAnsweredLocked()
	}
	if ctx := s.run; s.election.shared() && ctx != nil && ctx.Err() == nil {
		s.confirming.Go(func() { s.confirmAnswer(ctx, r) })
	}
}

// confirmAnswer stores that the answer was written. If that fails, the delivering process waits for
// answerWait.
func (s *Subscriptions) confirmAnswer(ctx context.Context, r record) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for {
		last := s.lastWrite()
		rec, err := s.records.Get(ctx, subscriptionPrefix+r.ID)
		if err != nil || rec.Value == nil {
			return
		}
		now, err := s.opts.Keys.open(r.ID, rec.Value)
		if err != nil || now.Life != r.Life || !now.Unanswered {
			return
		}
		now.Unanswered = false
		if rec.Value, err = s.opts.Keys.seal(now); err != nil {
			return
		}
		if _, err = s.records.Put(ctx, rec); !errors.Is(err, journal.ErrChanged) || !s.awaitWrite(ctx, last) {
			return
		}
	}
}

// remove removes a subscription at the request of its client.
func (s *Subscriptions) remove(ctx context.Context, id string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	for {
		last := s.lastWrite()
		rec, err := s.records.Get(ctx, subscriptionPrefix+id)
		if err != nil || rec.Value == nil {
			return false, err
		}
		if err = s.records.Remove(ctx, rec); err == nil {
			s.forget(id, rec.Revision)
			return true, nil
		}
		if !errors.Is(err, journal.ErrChanged) || !s.awaitWrite(ctx, last) {
			return false, err
		}
	}
}

// removeEnded removes a subscription that has ended. It fails if it was refreshed meanwhile.
func (s *Subscriptions) removeEnded(ctx context.Context, sub *subscription) error {
	s.mu.Lock()
	revision, refreshed := sub.revision, s.phaseLocked(sub) < revoked
	s.mu.Unlock()
	if refreshed {
		return errChanged
	}
	if err := s.records.Remove(ctx, journal.Record{Key: subscriptionPrefix + sub.ID, Revision: revision}); err != nil {
		return err // if the record has changed, applyChanges gets the change soon
	}
	s.forget(sub.ID, revision)
	return nil
}

// forget drops a subscription whose record was removed.
func (s *Subscriptions) forget(id string, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[id] = revision
	delete(s.progress, id)
	if sub := s.byID[id]; sub != nil && sub.revision <= revision {
		s.dropLocked(sub)
	}
}

// applyChanges applies changes of the records, made by any process. Calls must not overlap.
func (s *Subscriptions) applyChanges(ch journal.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch.All && ch.Last < s.last { // the records were replaced, and revisions start again
		clear(s.removed)
	}
	for _, rec := range ch.Records {
		if rec.Key == subscriptionsCheckpoint && rec.Value != nil && s.ctx == nil { // another process delivers
			if kept, err := parseCheckpoint(rec); err == nil { // the process that delivers reports the error
				s.applyProgressLocked(kept.Subscriptions)
			}
		}
	}
	present := map[string]bool{}
	for _, rec := range ch.Records {
		if id, ok := strings.CutPrefix(rec.Key, subscriptionPrefix); ok {
			present[id] = true
			s.applyRecordLocked(id, rec)
		}
	}
	if ch.All {
		s.dropAbsentLocked(present, ch.Last)
	}
	s.last = ch.Last
	close(s.moved)
	s.moved = make(chan struct{})
}

// dropAbsentLocked drops all subscriptions except those present, which are all that existed at write
// number last.
func (s *Subscriptions) dropAbsentLocked(present map[string]bool, last uint64) {
	for id, sub := range s.byID {
		if !present[id] && sub.revision <= last {
			s.progress[id] = subscriptionProgress{id, sub.Life, sub.progress} // its record may only be late
			s.dropLocked(sub)
		}
	}
	absent := func(id string) bool { return !present[id] }
	maps.DeleteFunc(s.removed, func(id string, _ uint64) bool { return absent(id) })
	maps.DeleteFunc(s.ignored, func(id string, _ uint64) bool { return absent(id) })
	maps.DeleteFunc(s.unreadable, func(id, _ string) bool { return absent(id) })
}

// applyProgressLocked applies the positions in a checkpoint.
func (s *Subscriptions) applyProgressLocked(all []subscriptionProgress) {
	clear(s.progress)
	for _, p := range all {
		s.progress[p.ID] = p
		if sub := s.byID[p.ID]; sub != nil && sub.Life == p.Life {
			sub.progress = p.progress
		}
	}
}

// applyRecordLocked applies a change of one record.
func (s *Subscriptions) applyRecordLocked(id string, rec journal.Record) {
	sub := s.byID[id]
	switch {
	case rec.Value == nil:
		delete(s.unreadable, id)
		delete(s.ignored, id)
		delete(s.removed, id)
		delete(s.progress, id)
		if sub != nil && sub.revision < rec.Revision {
			s.dropLocked(sub)
		}
		return
	case rec.Revision <= s.removed[id], rec.Revision == s.ignored[id], sub != nil && rec.Revision <= sub.revision:
		return
	}
	r, err := s.opts.Keys.open(id, rec.Value)
	if other, ok := errors.AsType[*otherKeyError](err); ok {
		if len(s.unreadable) == 0 && s.run != nil { // before Run, New returns it
			s.opts.Logger.Error("this process cannot decrypt webhook subscriptions, so it delivers no webhooks", "err", other)
		}
		s.unreadable[id] = other.key
		return
	}
	delete(s.unreadable, id)
	if err == nil {
		err = s.applyLocked(r, rec.Revision)
	}
	if err != nil {
		s.ignored[id] = rec.Revision
		s.opts.Logger.Warn("a stored webhook subscription is ignored; its client can subscribe again", "id", printable.Line(id, 40), "reason", err.Error())
	}
}

// applyLocked creates or changes a subscription to match its record, unless a newer revision is
// known. The progress stays.
func (s *Subscriptions) applyLocked(r record, revision uint64) error {
	sub := s.byID[r.ID]
	if sub != nil && revision <= sub.revision {
		return nil
	}
	if sub != nil && sub.Life != r.Life {
		s.dropLocked(sub)
		sub = nil
	}
	if sub == nil {
		if p, ok := s.progress[r.ID]; ok && p.Life == r.Life {
			r.progress = p.progress
		}
		sub, err := newSubscription(r)
		if err != nil {
			return err
		}
		sub.revision = revision
		s.byID[r.ID] = sub
		s.startLocked(sub)
		if !sub.answered && s.election.shared() {
			time.AfterFunc(answerWait, func() { s.locked(sub.presumeAnsweredLocked) })
		}
		return nil
	}
	secret, old, err := r.secrets()
	if err != nil {
		return err
	}
	wasSuspended, refreshed := sub.suspended(), sub.Refreshes != r.Refreshes
	// The other fields must not change: messages are made from them without the lock.
	sub.Secret, sub.secret, sub.OldSecret, sub.old, sub.OldUntil = r.Secret, secret, r.OldSecret, old, r.OldUntil
	sub.Expires, sub.Verified, sub.Numbering = r.Expires, r.Verified, r.Numbering
	sub.Refreshes, sub.Told, sub.Unanswered, sub.revision = r.Refreshes, r.Told, r.Unanswered, revision
	if wasSuspended && !sub.suspended() {
		sub.Status, sub.rates = status{LastDelivery: sub.Status.LastDelivery}, rates{}
		sub.wakeLocked()
	}
	if refreshed && s.phaseLocked(sub) == dead { // its client still wants it
		sub.Status.FailedSince = time.Time{}
	}
	if !r.Unanswered {
		sub.presumeAnsweredLocked()
	}
	s.setExpiryLocked(sub)
	return nil
}

// awaitWrite waits for a write after last, and reports whether ctx has not ended.
func (s *Subscriptions) awaitWrite(ctx context.Context, last uint64) bool {
	s.mu.Lock()
	if s.last > last {
		s.mu.Unlock()
		return ctx.Err() == nil
	}
	moved := s.moved
	s.mu.Unlock()
	timer := time.NewTimer(time.Second) // the write may have failed for another reason
	defer timer.Stop()
	select {
	case <-moved:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// lastWrite returns the number of the last known write.
func (s *Subscriptions) lastWrite() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// canReadAll reports whether this process can decrypt all subscriptions. If it cannot, it leaves the
// deliveries to other processes.
func (s *Subscriptions) canReadAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unreadable) == 0
}
