package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

const (
	oldSecretFor = 5 * time.Minute
	deadAfter    = 72 * time.Hour // without any success, for a subscription that never expires
)

// phase is the next action of a subscription's goroutine.
type phase int

const (
	waiting phase = iota // until something changes
	delivering
	revoked // its client's token was removed
	dead    // no delivery succeeded for deadAfter
	over
)

func (s *Subscriptions) phaseLocked(sub *subscription) phase {
	now := time.Now()
	switch {
	case sub.removed, sub.expired():
		return over
	case s.opts.Holds != nil && !s.opts.Holds(sub.Principal):
		return revoked
	case sub.Expires.IsZero() && !sub.Status.FailedSince.IsZero() && now.Sub(sub.Status.FailedSince) > deadAfter:
		return dead
	case !sub.answered, sub.suspended():
		return waiting
	}
	return delivering
}

// serve delivers to one subscription until it ends or ctx does.
func (s *Subscriptions) serve(ctx context.Context, sub *subscription) {
	s.mu.Lock()
	s.expiresLocked(sub)
	sub.caller.late.Store(sub.Status.LastError == Timeout && !sub.Status.FailedSince.IsZero())
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if sub.expiry != nil {
			sub.expiry.Stop()
		}
	}()
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		s.mu.Lock()
		now := s.phaseLocked(sub)
		work, stop := context.WithCancelCause(ctx)
		if now == delivering {
			sub.stop = stop
		}
		r := sub.record
		s.mu.Unlock()
		var err error
		switch now {
		case waiting:
			select {
			case <-sub.changed:
			case <-ctx.Done():
			}
		case delivering:
			err = s.deliver(work, sub, r.Cursor)
		case revoked:
			s.terminate(ctx, sub, r.terminated(mcpevents.Forbidden, "the token was revoked"))
		case dead:
			s.terminate(ctx, sub, r.terminated(mcpevents.CallbackEndpointError, string(r.Status.LastError)))
		}
		s.mu.Lock()
		sub.stop = nil
		ended := sub.removed
		s.mu.Unlock()
		stop(nil)
		if now >= revoked && !ended {
			if err = s.drop(ctx, sub); err == nil {
				return
			}
		}
		if ended {
			return
		}
		if err != nil && !errors.Is(err, errLook) && ctx.Err() == nil {
			backoff.Sleep(ctx, retry.Next())
		} else {
			retry.Reset()
		}
	}
}

// deliver runs a worker from the cursor on.
func (s *Subscriptions) deliver(ctx context.Context, sub *subscription, cursor string) error {
	at, truncated, err := s.opts.Reader.Start(ctx, &cursor, 0, maxReplay)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if truncated {
		s.missedLocked(sub)
		sub.Cursor = at.Cursor()
	}
	gap := sub.GapDue
	s.mu.Unlock()
	w := &worker{sender: s.opts.Sender, reader: s.opts.Reader, endpoint: s.endpoint(sub)}
	return w.run(ctx, at, gap)
}

// missedLocked records that events are missing, so that a gap message and the answer to the next
// refresh say so.
func (s *Subscriptions) missedLocked(sub *subscription) {
	sub.GapDue = true
	sub.Missed = max(sub.Missed, sub.Told) + 1 // it is behind if a process was killed that had answered, but not stored it
	s.changed()
}

func (s *Subscriptions) endpoint(sub *subscription) endpoint {
	locked := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	return endpoint{
		caller: &sub.caller,
		match:  sub.filter.Matches,
		shows:  s.opts.Scope.Shows,
		message: func(o *mcpevents.Occurrence, cursor string) *Message {
			return sub.eventMessage(o, cursor, s.opts.MessageIDs) // of members that do not change
		},
		gap: func(cursor string) *Message {
			s.counts.gaps.Add(1)
			return sub.control("gap", map[string]any{"cursor": cursor})
		},
		missed: func() { locked(func() { s.missedLocked(sub) }) },
		gapTried: func(bool) (again bool) { // the next refresh says the same
			locked(func() { sub.GapDue = false })
			s.changed()
			return false
		},
		secrets: func() (out []standardwebhooks.Secret) {
			locked(func() { out = sub.secretsLocked() })
			return out
		},
		allowed: func() (err error) {
			locked(func() {
				switch {
				case s.phaseLocked(sub) != delivering:
					err = errLook
				case s.lease != nil && !s.lease.Held():
					err = errTaken
				}
			})
			return err
		},
		noted: func(r Result) { s.note(sub, r) },
		gaveUp: func() {
			s.counts.gaveUp.Add(1)
			sub.counts.gaveUp.Add(1)
		},
		passed: func(at mcpevents.Position, oldest time.Time) {
			cursor := at.Cursor()
			locked(func() {
				sub.oldest = oldest
				if sub.Cursor != cursor {
					sub.Cursor = cursor
					s.changed()
				}
			})
		},
	}
}

func (sub *subscription) secretsLocked() []standardwebhooks.Secret {
	if sub.OldSecret != "" && time.Now().Before(sub.OldUntil) {
		return []standardwebhooks.Secret{sub.secret, sub.old}
	}
	return []standardwebhooks.Secret{sub.secret}
}

// note counts an attempt, and suspends the subscription if nearly all attempts fail.
func (s *Subscriptions) note(sub *subscription, r Result) {
	s.counts.note(r)
	sub.counts.note(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	sub.rates.note(now, r.Err != "")
	switch {
	case r.Drop: // it responds, but does not want the event
		sub.Status.FailedSince = time.Time{}
		return
	case r.Err == "":
		sub.Status = status{LastDelivery: now.UTC()}
		return
	}
	sub.Status.LastError = r.Err
	if sub.Status.FailedSince.IsZero() {
		sub.Status.FailedSince = now.UTC()
	}
	if sub.rates.hopeless(now) {
		sub.Status.Suspended, sub.Status.SuspendedAt = true, sub.Refreshes
		s.changed()
		s.opts.Logger.Warn("deliveries to a webhook are suspended because nearly all of them fail", "id", sub.ID, "host", hostOf(sub.URL), "error", string(r.Err))
		sub.wakeLocked()
	} else if sub.Expires.IsZero() && now.Sub(sub.Status.FailedSince) > deadAfter {
		sub.wakeLocked()
	}
}

// Recheck ends the subscriptions of clients that Options.Holds does not know any more.
func (s *Subscriptions) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byID {
		if s.phaseLocked(sub) == revoked {
			sub.wakeLocked()
		}
	}
}

// terminate sends the message that the subscription has ended, in at most two attempts.
func (s *Subscriptions) terminate(ctx context.Context, sub *subscription, m *Message) {
	w := &worker{sender: s.opts.Sender, endpoint: endpoint{
		caller: &sub.caller,
		secrets: func() []standardwebhooks.Secret {
			s.mu.Lock()
			defer s.mu.Unlock()
			return sub.secretsLocked()
		},
	}}
	_, _ = w.control(ctx, m) // the subscription ends in any case
	s.counts.terminated.Add(1)
}
