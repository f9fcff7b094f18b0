package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/records"
)

const (
	// subscriptionPrefix is the key prefix of subscription records.
	subscriptionPrefix = "s."
	// storeWait limits how long storing a client's request may take.
	storeWait = 15 * time.Second
	// answerWait limits how long the delivering process waits for the process that creates a
	// subscription to confirm that the client has received its response. The creating process may
	// have crashed.
	answerWait = 10 * time.Second
)

// limitError reports that a client has reached a limit.
type limitError struct {
	limit  string
	max    int
	reason string // human-readable
}

func (e *limitError) Error() string { return e.reason }

// answer converts the error into the response for the client.
func (e *limitError) answer(r *mcpserver.Request) error {
	return mcpevents.Fail(r, mcpevents.ResourceExhausted, map[string]any{"limit": e.limit, "max": e.max, "reason": e.reason})
}

// limit returns an error if a client cannot create another subscription. own is the number of its
// subscriptions, and all is the number of subscriptions of all clients.
func (o *Options) limit(own, all int) *limitError {
	switch {
	case own >= o.MaxEach:
		return &limitError{"webhook subscriptions of a client", o.MaxEach, fmt.Sprintf("a client may have at most %d webhook subscriptions", o.MaxEach)}
	case all >= o.MaxTotal:
		return &limitError{"webhook subscriptions", o.MaxTotal, fmt.Sprintf("there may be at most %d webhook subscriptions in total", o.MaxTotal)}
	}
	return nil
}

// create stores a new subscription, or refreshes the existing one with the same ID. It returns the
// previous record, or nil if there was none, and the stored record. If another process has changed
// the record concurrently, it applies the request to the new version. The error may be a
// *limitError.
func (s *Subscriptions) create(ctx context.Context, next record) (before *record, after record, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	rec := records.Record{Key: subscriptionPrefix + next.ID}
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
		default: // fails if anything else was written, so that the limits are exact
			rec.Revision, err = s.records.PutAfter(ctx, rec, last)
		}
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			return before, after, s.applyLocked(after, rec.Revision)
		}
		if !errors.Is(err, records.ErrChanged) || !s.awaitWrite(ctx, last) {
			return nil, record{}, err
		}
	}
}

// current returns the record that a request would change, with its known progress and its revision,
// or nil if there is none or it has expired. last is the number of the last known write; full
// explains why the client cannot create another subscription, if it cannot.
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

// answered allows deliveries to start, after the response to the request that created the
// subscription was written. If another process may deliver, answered also stores this fact in the
// background.
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

// confirmAnswer stores that the response was written. If storing fails, the delivering process
// proceeds after answerWait.
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
		if _, err = s.records.Put(ctx, rec); !errors.Is(err, records.ErrChanged) || !s.awaitWrite(ctx, last) {
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
		if !errors.Is(err, records.ErrChanged) || !s.awaitWrite(ctx, last) {
			return false, err
		}
	}
}

// removeEnded removes a subscription that has ended. It fails if the subscription was refreshed in
// the meantime.
func (s *Subscriptions) removeEnded(ctx context.Context, sub *subscription) error {
	s.mu.Lock()
	revision, refreshed := sub.revision, s.phaseLocked(sub) < revoked
	s.mu.Unlock()
	if refreshed {
		return errChanged
	}
	if err := s.records.Remove(ctx, records.Record{Key: subscriptionPrefix + sub.ID, Revision: revision}); err != nil {
		return err // if the record has changed, applyChanges will soon receive the change
	}
	s.forget(sub.ID, revision)
	return nil
}

// forget drops a subscription whose stored record was removed.
func (s *Subscriptions) forget(id string, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[id] = revision
	delete(s.progress, id)
	if sub := s.byID[id]; sub != nil && sub.revision <= revision {
		s.dropLocked(sub)
	}
}

// applyChanges applies record changes made by any process. Calls must not be concurrent.
func (s *Subscriptions) applyChanges(ch records.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch.All && ch.Last < s.last { // the record store was replaced, and revisions restart
		clear(s.removed)
	}
	for _, rec := range ch.Records {
		if rec.Key == subscriptionsCheckpoint && rec.Value != nil && s.ctx == nil { // another process delivers and saves positions
			if kept, err := parseCheckpoint(rec); err == nil { // the delivering process reports the error
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

// dropAbsentLocked drops all subscriptions except those in present, which lists everything that
// existed as of write number last.
func (s *Subscriptions) dropAbsentLocked(present map[string]bool, last uint64) {
	for id, sub := range s.byID {
		if !present[id] && sub.revision <= last {
			s.progress[id] = subscriptionProgress{id, sub.Life, sub.progress} // its record may still arrive
			s.dropLocked(sub)
		}
	}
	absent := func(id string) bool { return !present[id] }
	maps.DeleteFunc(s.removed, func(id string, _ uint64) bool { return absent(id) })
	maps.DeleteFunc(s.ignored, func(id string, _ uint64) bool { return absent(id) })
	maps.DeleteFunc(s.unreadable, func(id, _ string) bool { return absent(id) })
}

// applyProgressLocked applies the positions from a checkpoint.
func (s *Subscriptions) applyProgressLocked(all []subscriptionProgress) {
	clear(s.progress)
	for _, p := range all {
		s.progress[p.ID] = p
		if sub := s.byID[p.ID]; sub != nil && sub.Life == p.Life {
			sub.progress = p.progress
		}
	}
}

// applyRecordLocked applies a change to one record.
func (s *Subscriptions) applyRecordLocked(id string, rec records.Record) {
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
		if len(s.unreadable) == 0 && s.run != nil { // before Run, New returns the error
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

// applyLocked creates or updates a subscription to match its record, unless a newer revision is
// known. It does not change the progress.
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
	wasSuspended := sub.suspended()
	// The other fields must not change, because messages are built from them without the lock.
	sub.Secret, sub.secret, sub.OldSecret, sub.old, sub.OldUntil = r.Secret, secret, r.OldSecret, old, r.OldUntil
	sub.Expires, sub.Verified, sub.Numbering = r.Expires, r.Verified, r.Numbering
	sub.Refreshes, sub.Told, sub.Unanswered, sub.revision = r.Refreshes, r.Told, r.Unanswered, revision
	if wasSuspended && !sub.suspended() {
		sub.Status, sub.rates = status{LastDelivery: sub.Status.LastDelivery}, rates{}
		sub.wakeLocked()
	}
	if !r.Unanswered {
		sub.presumeAnsweredLocked()
	}
	s.setExpiryLocked(sub)
	return nil
}

// awaitWrite waits for a write after number last. It returns false if ctx has ended.
func (s *Subscriptions) awaitWrite(ctx context.Context, last uint64) bool {
	s.mu.Lock()
	if s.last > last {
		s.mu.Unlock()
		return ctx.Err() == nil
	}
	moved := s.moved
	s.mu.Unlock()
	timer := time.NewTimer(time.Second) // limits the wait, because the write may have failed for another reason
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

// canReadAll reports whether this process can decrypt all subscriptions. If it cannot, it leaves
// deliveries to other processes.
func (s *Subscriptions) canReadAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unreadable) == 0
}
