package webhook

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

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
