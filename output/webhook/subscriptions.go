package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// Options configure Subscriptions. Log, Reader and Sender are required.
type Options struct {
	// Log stores the subscriptions in its records, and how far deliveries are. Several processes
	// share a *natslog.Log: one of them delivers. With any other log this process does.
	Log journal.Log
	// Keys encrypt the stored subscriptions. They are required with a *natslog.Log; nil: they are
	// protected as the log is, by the mode of its file.
	Keys *Keys
	// Reader reads Log.
	Reader *mcpevents.Reader
	Sender *Sender
	// Scope decides which events are still shown, as for poll and push.
	Scope mcpevents.Scope
	// Holds reports whether a client with that identity may still exist; nil: always.
	Holds func(identity string) bool
	// Allow are URLs that need no challenge.
	Allow URLs
	// NoExpiry allows clients to ask for subscriptions that never expire. It has no effect with a
	// *journal.Memory, as they would end with the process.
	NoExpiry bool
	// MessageIDs gives each message an id of its own in place of that of the event, which
	// all clients expect today; the final SEP-3415 is said to ask for the former.
	MessageIDs bool
	// MaxEach bounds the subscriptions of a client, 100 by default, and MaxTotal those of
	// all; 1,000.
	MaxEach, MaxTotal int
	// Logger gets records that an operator should see; nil discards them. They contain hosts
	// and ids, but no URLs or secrets.
	Logger *slog.Logger
}

// Subscriptions are the webhooks that clients subscribed. Handle serves their requests, and Run
// delivers. Each subscription is a record, which any process that shares the log makes, refreshes
// and removes; how far all are is a page, which the process that delivers saves. All processes know
// all, as they follow the records.
type Subscriptions struct {
	opts       Options
	records    journal.Records
	page       *page
	turns      *turns
	challenges challenges
	counts     counts
	// dirty wakes the goroutine that stores watermarks. Capacity 1, because one wake is enough;
	// never closed.
	dirty chan struct{}

	mu         sync.Mutex // guards all below, and the subscriptions
	byID       map[string]*subscription
	reserved   map[string]*reservation // subscriptions that are being made, by id
	last       uint64                  // the number of the last write that is known
	moved      chan struct{}           // closed and replaced when something was written
	advances   map[string]advance      // by id, as stored; also of subscriptions that are not known yet
	removed    map[string]uint64       // revisions of records that this process removed, until that is seen
	ignored    map[string]uint64       // revisions of records that cannot be used
	unreadable map[string]string       // ids of records of other keys, and those
	run        context.Context         // of Run; nil: it does not run
	ctx        context.Context         // of delivering; nil: this process does not
	lease      *natslog.Lease          // under which it delivers; nil: it needs none
	failed     bool                    // the page could not be stored, and that was logged
	running    sync.WaitGroup          // of delivering
	telling    sync.WaitGroup          // the goroutines of answered
}

// New reads the stored subscriptions. It waits for a cluster that has no leader for up to 30 s,
// and fails if they are encrypted with a key that is not among Keys. It starts no goroutine.
func New(ctx context.Context, opts Options) (*Subscriptions, error) {
	opts.MaxEach, opts.MaxTotal = cmp.Or(opts.MaxEach, 100), cmp.Or(opts.MaxTotal, 1000)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if _, ends := opts.Log.(*journal.Memory); ends {
		opts.NoExpiry = false
	}
	records := opts.Log.Records(recordsName)
	s := &Subscriptions{
		opts: opts, records: records, page: newPage(records, pageOfSubscriptions), turns: newTurns(opts.Log, FromSubscription, opts.Logger),
		dirty: make(chan struct{}, 1), byID: map[string]*subscription{}, reserved: map[string]*reservation{}, moved: make(chan struct{}),
		advances: map[string]advance{}, removed: map[string]uint64{}, ignored: map[string]uint64{}, unreadable: map[string]string{},
	}
	s.challenges.last, s.challenges.hosts = map[string]time.Time{}, map[string][]time.Time{}
	if s.turns.shared() && opts.Keys == nil {
		return nil, errors.New("webhook subscriptions on a NATS cluster need a key")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*storeWait)
	defer cancel()
	read := false
	records.Follow(ctx, func(ch journal.Changes) {
		s.takeOver(ch)
		read = true
		cancel()
	})
	if !read {
		return nil, fmt.Errorf("read the subscriptions of webhooks: %w", cmp.Or(context.Cause(ctx), journal.ErrClosed))
	}
	for _, key := range s.unreadable {
		return nil, &otherKeyError{key}
	}
	if !s.turns.shared() { // whoever was to say that a client has its answer has ended
		for _, sub := range s.byID {
			sub.presumeLocked()
		}
	}
	return s, nil
}

// Run delivers until ctx ends, and returns when nothing is in progress and the watermarks are
// stored. What cannot be stored or read is logged, and tried again. It may be called once.
func (s *Subscriptions) Run(ctx context.Context) error {
	s.mu.Lock()
	s.run = ctx
	s.mu.Unlock()
	var following sync.WaitGroup
	following.Go(func() { s.records.Follow(ctx, s.takeOver) })
	for ctx.Err() == nil {
		if s.knowsAll() {
			s.turns.once(ctx, s.turn)
		} else {
			backoff.Sleep(ctx, time.Second)
		}
	}
	s.mu.Lock()
	s.run = nil
	s.mu.Unlock()
	s.telling.Wait()
	following.Wait()
	s.opts.Sender.Close()
	return nil
}

// turn delivers from what was stored last on, until ctx ends or another process has taken over.
func (s *Subscriptions) turn(ctx context.Context, lease *natslog.Lease) error {
	kept, loaded, err := s.page.load(ctx)
	if err != nil {
		return err
	}
	// What was subscribed before is to be known, as its watermark would be forgotten.
	for s.seen() < loaded {
		if !s.wait(ctx, loaded-1) {
			return context.Cause(ctx)
		}
	}
	if !s.knowsAll() { // since the wait for the lease: saving would forget the watermarks of what cannot be read
		return nil
	}
	s.mu.Lock()
	s.advanceLocked(kept.Advances)
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { // give it up when a record of another key appears
		for s.knowsAll() {
			if !s.wait(ctx, s.seen()) {
				return
			}
		}
		cancel()
	})
	s.deliverAll(ctx, lease)
	if now, _, err := s.page.read(context.WithoutCancel(ctx)); err == nil { // it was not followed meanwhile
		s.mu.Lock()
		defer s.mu.Unlock()
		s.advanceLocked(now.Advances)
	}
	return nil
}

// deliverAll delivers until ctx ends or another process has taken over. When it returns, nothing is
// in progress, and the watermarks are stored if that was possible.
func (s *Subscriptions) deliverAll(ctx context.Context, lease *natslog.Lease) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.ctx, s.lease = ctx, lease
	for _, sub := range s.byID {
		s.startLocked(sub)
	}
	s.mu.Unlock()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for taken := false; ctx.Err() == nil && !taken; {
		select {
		case <-tick.C:
			select {
			case <-s.dirty:
				taken = errors.Is(s.save(ctx), errTaken)
			default:
			}
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	s.ctx = nil // nothing is started any more
	s.mu.Unlock()
	cancel()
	s.running.Wait()
	_ = s.save(ctx) // it was logged, and who delivers next resumes from what was stored
}

func (s *Subscriptions) startLocked(sub *subscription) {
	if ctx := s.ctx; ctx != nil && ctx.Err() == nil {
		s.running.Go(func() { s.serve(ctx, sub) })
	}
}

// save stores what delivering changed, also if ctx has ended. An error is logged the first time.
func (s *Subscriptions) save(ctx context.Context) error {
	err := s.page.save(context.WithoutCancel(ctx), func() stored {
		s.mu.Lock()
		defer s.mu.Unlock()
		var out []advance
		for _, sub := range s.byID {
			out = append(out, advance{sub.ID, sub.Life, sub.progress})
		}
		slices.SortFunc(out, func(a, b advance) int { return cmp.Compare(a.ID, b.ID) })
		return stored{Advances: out}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !s.failed && !expected(err) {
		s.opts.Logger.Error("cannot store which events webhooks have received; a restart may deliver some again", "err", err)
	}
	if s.failed = err != nil; s.failed {
		s.changed() // to try it again
	}
	return err
}

func (s *Subscriptions) changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// expiresLocked sets the timer of the expiry.
func (s *Subscriptions) expiresLocked(sub *subscription) {
	if sub.expiry != nil {
		sub.expiry.Stop()
		sub.expiry = nil
	}
	if !sub.Expires.IsZero() && !sub.removed {
		sub.expiry = time.AfterFunc(time.Until(sub.Expires), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			sub.wakeLocked()
		})
	}
}

// dropLocked removes a subscription.
func (s *Subscriptions) dropLocked(sub *subscription) {
	sub.removed = true
	if s.byID[sub.ID] == sub {
		delete(s.byID, sub.ID)
	}
	if sub.expiry != nil {
		sub.expiry.Stop()
	}
	sub.wakeLocked()
	s.changed()
}

func bounded(text string) string { return printable.Line(text, 100) }

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
