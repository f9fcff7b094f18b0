package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// subscription is one subscription. Its fields are guarded by Subscriptions.mu.
type subscription struct {
	record
	filter   mcpevents.Filter
	secret   standardwebhooks.Secret
	old      standardwebhooks.Secret
	answered bool // the answer that made it was written: events may be sent
	removed  bool
	caller   caller
	revision uint64 // of its record
	rates    rates
	counts   counts
	oldest   time.Time // when the first undelivered event happened; zero: there is none
	expiry   *time.Timer
	stop     context.CancelCauseFunc // of the worker; nil: none is running
	// changed wakes the goroutine of the subscription. Capacity 1, never closed.
	changed chan struct{}
}

func newSubscription(r record) (*subscription, error) {
	sub := &subscription{record: r, answered: !r.Unanswered, changed: make(chan struct{}, 1)}
	var err error
	if sub.filter, _, err = mcpevents.ParseFilter(r.Name, r.Arguments); err != nil {
		return nil, err
	}
	if sub.secret, err = standardwebhooks.ParseSecret(r.Secret); err != nil {
		return nil, err
	}
	if r.OldSecret != "" {
		sub.old, err = standardwebhooks.ParseSecret(r.OldSecret)
	}
	return sub, err
}

// errLook ends a worker whose subscription has changed.
var errLook = errors.New("the subscription has changed")

// wakeLocked has the goroutine of a subscription look at it again.
func (sub *subscription) wakeLocked() {
	if sub.stop != nil {
		sub.stop(errLook)
	}
	select {
	case sub.changed <- struct{}{}:
	default:
	}
}

// applyLocked makes or changes a subscription as its record says, unless something newer is known.
// What delivering changes stays.
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
		if a, ok := s.advances[r.ID]; ok && a.Life == r.Life {
			r.progress = a.progress
		}
		sub, err := newSubscription(r)
		if err != nil {
			return err
		}
		sub.revision = revision
		s.byID[r.ID] = sub
		s.startLocked(sub)
		if !sub.answered && s.turns.shared() {
			time.AfterFunc(answerWait, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				sub.presumeLocked()
			})
		}
		return nil
	}
	secret, err := standardwebhooks.ParseSecret(r.Secret)
	if err != nil {
		return err
	}
	var old standardwebhooks.Secret
	if r.OldSecret != "" {
		if old, err = standardwebhooks.ParseSecret(r.OldSecret); err != nil {
			return err
		}
	}
	wasSuspended, refreshed := sub.suspended(), sub.Refreshes != r.Refreshes
	// Only these: messages are made of the others without the lock.
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
		sub.presumeLocked()
	}
	s.expiresLocked(sub)
	return nil
}

// presumeLocked begins to deliver: the client has the answer, or will never get it.
func (sub *subscription) presumeLocked() {
	if !sub.answered && !sub.removed {
		sub.answered = true
		sub.wakeLocked()
	}
}
