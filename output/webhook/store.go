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
	// keyOfSubscription begins the keys of the records of subscriptions.
	keyOfSubscription = "s."
	// storeWait bounds how long a request of a client is stored.
	storeWait = 15 * time.Second
	// answerWait is how long the process that delivers waits for the process that makes a
	// subscription to say that its client has the answer: that one may have died.
	answerWait = 10 * time.Second
)

// fullError says that a limit is reached.
type fullError struct {
	limit  string
	max    int
	reason string // for people
}

func (e *fullError) Error() string { return e.reason }

// answer returns the error for the client.
func (e *fullError) answer(r *mcpserver.Request) error {
	return mcpevents.Fail(r, mcpevents.ResourceExhausted, map[string]any{"limit": e.limit, "max": e.max, "reason": e.reason})
}

// limit returns why no subscription may be made when a client has own of all.
func (o *Options) limit(own, all int) *fullError {
	switch {
	case own >= o.MaxEach:
		return &fullError{"webhook subscriptions of a client", o.MaxEach, fmt.Sprintf("a client may have %d webhook subscriptions", o.MaxEach)}
	case all >= o.MaxTotal:
		return &fullError{"webhook subscriptions", o.MaxTotal, fmt.Sprintf("there may be %d webhook subscriptions in all", o.MaxTotal)}
	}
	return nil
}

// keep makes a subscription, or refreshes the one with that id, and returns when that is stored.
// before is what there was, nil if there was none. If another process was faster, the request is
// applied to what that one stored. The error may be a *fullError.
func (s *Subscriptions) keep(ctx context.Context, next record) (before *record, after record, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	rec := journal.Record{Key: keyOfSubscription + next.ID}
	for {
		var last uint64
		var full *fullError
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
		default: // the limits hold as long as nothing else was written
			rec.Revision, err = s.records.PutAfter(ctx, rec, last)
		}
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			return before, after, s.applyLocked(after, rec.Revision)
		}
		if !errors.Is(err, journal.ErrChanged) || !s.wait(ctx, last) {
			return nil, record{}, err
		}
	}
}

// current returns the record that a request changes, with what is known of its deliveries, and its
// revision; nil if there is none or its time is over. last is the number of the last write that is
// known, and full why the client may make no other subscription.
func (s *Subscriptions) current(next *record) (r *record, revision, last uint64, full *fullError, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.unreadable[next.ID]; ok {
		return nil, 0, 0, nil, &otherKeyError{other}
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

// answered begins to deliver, as the answer that made the subscription was written. Only where other
// processes may deliver it is stored, too. It does not block.
func (s *Subscriptions) answered(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub := s.byID[r.ID]; sub != nil && sub.Life == r.Life {
		sub.presumeLocked()
	}
	if ctx := s.run; s.turns.shared() && ctx != nil && ctx.Err() == nil {
		s.telling.Go(func() { s.tell(ctx, r) })
	}
}

// tell says in the record that the answer was written, for others that deliver. If that fails,
// they wait for answerWait.
func (s *Subscriptions) tell(ctx context.Context, r record) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for {
		last := s.seen()
		rec, err := s.records.Get(ctx, keyOfSubscription+r.ID)
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
		if _, err = s.records.Put(ctx, rec); !errors.Is(err, journal.ErrChanged) || !s.wait(ctx, last) {
			return
		}
	}
}

// remove removes a subscription that its client does not want any more.
func (s *Subscriptions) remove(ctx context.Context, id string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	for {
		last := s.seen()
		rec, err := s.records.Get(ctx, keyOfSubscription+id)
		if err != nil || rec.Value == nil {
			return false, err
		}
		if err = s.records.Remove(ctx, rec); err == nil {
			s.forget(id, rec.Revision)
			return true, nil
		}
		if !errors.Is(err, journal.ErrChanged) || !s.wait(ctx, last) {
			return false, err
		}
	}
}

// drop removes a subscription that has ended. It fails if it was refreshed meanwhile.
func (s *Subscriptions) drop(ctx context.Context, sub *subscription) error {
	s.mu.Lock()
	revision, refreshed := sub.revision, s.phaseLocked(sub) < revoked
	s.mu.Unlock()
	if refreshed {
		return errLook
	}
	if err := s.records.Remove(ctx, journal.Record{Key: keyOfSubscription + sub.ID, Revision: revision}); err != nil {
		return err // if it has changed, that is taken over soon
	}
	s.forget(sub.ID, revision)
	return nil
}

// forget removes a subscription whose record was removed.
func (s *Subscriptions) forget(id string, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[id] = revision
	delete(s.advances, id)
	if sub := s.byID[id]; sub != nil && sub.revision <= revision {
		s.dropLocked(sub)
	}
}

// takeOver takes over what was written to the records, by any process. One goroutine calls it at
// a time.
func (s *Subscriptions) takeOver(ch journal.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch.All && ch.Last < s.last { // other records, whose revisions began again
		clear(s.removed)
	}
	for _, rec := range ch.Records {
		if rec.Key == pageOfSubscriptions && rec.Value != nil && s.ctx == nil { // another process delivers
			if kept, err := parsePage(rec); err == nil { // else whoever is to deliver reports it
				s.advanceLocked(kept.Advances)
			}
		}
	}
	known := map[string]bool{}
	for _, rec := range ch.Records {
		if id, ok := strings.CutPrefix(rec.Key, keyOfSubscription); ok {
			known[id] = true
			s.takeRecordLocked(id, rec)
		}
	}
	if ch.All {
		s.forgetOthersLocked(known, ch.Last)
	}
	s.last = ch.Last
	close(s.moved)
	s.moved = make(chan struct{})
}

// forgetOthersLocked forgets all records but those that are known, which were all at write number
// last.
func (s *Subscriptions) forgetOthersLocked(known map[string]bool, last uint64) {
	for id, sub := range s.byID {
		if !known[id] && sub.revision <= last {
			s.advances[id] = advance{id, sub.Life, sub.progress} // it may only have come late
			s.dropLocked(sub)
		}
	}
	gone := func(id string) bool { return !known[id] }
	maps.DeleteFunc(s.removed, func(id string, _ uint64) bool { return gone(id) })
	maps.DeleteFunc(s.ignored, func(id string, _ uint64) bool { return gone(id) })
	maps.DeleteFunc(s.unreadable, func(id, _ string) bool { return gone(id) })
}

// advanceLocked takes over how far the deliveries are.
func (s *Subscriptions) advanceLocked(all []advance) {
	clear(s.advances)
	for _, a := range all {
		s.advances[a.ID] = a
		if sub := s.byID[a.ID]; sub != nil && sub.Life == a.Life {
			sub.progress = a.progress
		}
	}
}

// takeRecordLocked takes over the record of a subscription.
func (s *Subscriptions) takeRecordLocked(id string, rec journal.Record) {
	sub := s.byID[id]
	switch {
	case rec.Value == nil:
		delete(s.unreadable, id)
		delete(s.ignored, id)
		delete(s.removed, id)
		delete(s.advances, id)
		if sub != nil && sub.revision < rec.Revision {
			s.dropLocked(sub)
		}
		return
	case rec.Revision <= s.removed[id], rec.Revision == s.ignored[id], sub != nil && rec.Revision <= sub.revision:
		return
	}
	r, err := s.opts.Keys.open(id, rec.Value)
	if other, ok := errors.AsType[*otherKeyError](err); ok {
		if len(s.unreadable) == 0 && s.run != nil { // else New returns it
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

// wait waits until something is written after last, and reports whether ctx has not ended.
func (s *Subscriptions) wait(ctx context.Context, last uint64) bool {
	s.mu.Lock()
	if s.last > last {
		s.mu.Unlock()
		return ctx.Err() == nil
	}
	moved := s.moved
	s.mu.Unlock()
	timer := time.NewTimer(time.Second) // a write may have failed for another reason
	defer timer.Stop()
	select {
	case <-moved:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// seen is the number of the last write that is known.
func (s *Subscriptions) seen() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// knowsAll reports whether this process can read all subscriptions. If it cannot, it leaves them
// to others.
func (s *Subscriptions) knowsAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unreadable) == 0
}
