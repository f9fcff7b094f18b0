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
	"github.com/mcptrack/mcptrack/core/records"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// Options configures Subscriptions. Log, Records, Reader and Sender are required.
type Options struct {
	// Log has the events. If several processes share a *natslog.Log, one of them delivers.
	Log journal.Log
	// Records stores the subscriptions and the delivery positions; see [OpenRecords].
	Records records.Store
	// Keys encrypts the stored subscriptions. It is required with a *natslog.Log. Without Keys,
	// only the permissions of the file protect the subscriptions.
	Keys *Keys
	// Reader reads Log.
	Reader *mcpevents.Reader
	Sender *Sender
	// Scope decides which events may still be sent, as it does for poll and push.
	Scope mcpevents.Scope
	// Of returns what a client with the given identity may see, if that may differ from Reader and Scope; reader is
	// nil if that is not known yet. It may be nil.
	Of func(identity string) (reader *mcpevents.Reader, scope mcpevents.Scope)
	// Holds reports whether a client with the given identity may still exist. If nil, every client
	// may.
	Holds func(identity string) bool
	// Allow matches URLs that need no challenge.
	Allow URLs
	// MaxEach limits the number of subscriptions per client, 100 by default; MaxTotal limits their
	// total number, 1,000 by default.
	MaxEach, MaxTotal int
	// Logger receives records for operators; if nil, they are discarded. They contain hosts and
	// IDs, but no URLs or secrets.
	Logger *slog.Logger
}

// Subscriptions manages the webhooks that clients have subscribed. Handle serves their requests,
// and Run delivers events. Each subscription is a record, which any process that shares the log can
// create, refresh and remove. Every process follows the records, and therefore has all
// subscriptions. The delivering process saves all delivery positions in one checkpoint.
type Subscriptions struct {
	opts       Options
	records    records.Store
	checkpoint *checkpoint
	election   *leaderElection
	challenges challenges
	counts     counts

	mu         sync.Mutex // guards all fields below, and all fields of subscriptions
	byID       map[string]*subscription
	reserved   map[string]*reservation         // subscriptions being created, by ID
	last       uint64                          // number of the last known write
	moved      chan struct{}                   // closed and replaced after each write
	progress   map[string]subscriptionProgress // stored progress by ID, including subscriptions whose record is not known yet
	removed    map[string]uint64               // revisions of records that this process removed, until the removal is observed
	ignored    map[string]uint64               // revisions of unusable records
	unreadable map[string]string               // encryption keys of records that cannot be decrypted, by ID
	run        context.Context                 // context of Run; nil while Run is not running
	ctx        context.Context                 // context of deliveries; nil while this process does not deliver
	lease      *natslog.Lease                  // held while delivering; nil if not needed
	delivering sync.WaitGroup
	confirming sync.WaitGroup // the goroutines started by answered
}

// New loads the stored subscriptions. It waits up to 30 s if the cluster has no leader, and fails
// if a subscription is encrypted with a key that is not in Keys. It starts no goroutine.
func New(ctx context.Context, opts Options) (*Subscriptions, error) {
	opts.MaxEach, opts.MaxTotal = cmp.Or(opts.MaxEach, 100), cmp.Or(opts.MaxTotal, 1000)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Subscriptions{
		opts: opts, records: opts.Records, checkpoint: newCheckpoint(opts.Records, subscriptionsCheckpoint, opts.Logger),
		election:   newLeaderElection(opts.Log, FromSubscription, opts.Logger),
		challenges: challenges{last: map[string]time.Time{}, hosts: map[string][]time.Time{}},
		byID:       map[string]*subscription{}, reserved: map[string]*reservation{}, moved: make(chan struct{}),
		progress: map[string]subscriptionProgress{}, removed: map[string]uint64{}, ignored: map[string]uint64{}, unreadable: map[string]string{},
	}
	if s.election.shared() && opts.Keys == nil {
		return nil, errors.New("webhook subscriptions on a NATS cluster require a key")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*storeWait)
	defer cancel()
	read := false
	opts.Records.Follow(ctx, func(ch records.Changes) {
		s.applyChanges(ch)
		read = true
		cancel()
	})
	if !read {
		return nil, fmt.Errorf("read webhook subscriptions: %w", cmp.Or(context.Cause(ctx), journal.ErrClosed))
	}
	for _, key := range s.unreadable {
		return nil, &otherKeyError{key}
	}
	if !s.election.shared() { // the process that was writing the response has exited
		for _, sub := range s.byID {
			sub.presumeAnsweredLocked()
		}
	}
	return s, nil
}

// Run delivers until ctx ends. When it returns, no delivery is in progress and the watermarks are
// stored. It logs and retries storage errors. It must be called at most once.
func (s *Subscriptions) Run(ctx context.Context) error {
	s.mu.Lock()
	s.run = ctx
	s.mu.Unlock()
	var following sync.WaitGroup
	following.Go(func() { s.records.Follow(ctx, s.applyChanges) })
	for ctx.Err() == nil {
		if s.canReadAll() {
			s.election.run(ctx, s.lead)
		} else {
			backoff.Sleep(ctx, time.Second)
		}
	}
	s.mu.Lock()
	s.run = nil
	s.mu.Unlock()
	s.confirming.Wait()
	following.Wait()
	s.opts.Sender.Close()
	return nil
}

// lead loads the checkpoint and delivers until ctx ends or another process has taken over.
func (s *Subscriptions) lead(ctx context.Context, lease *natslog.Lease) error {
	kept, loaded, err := s.checkpoint.load(ctx)
	if err != nil {
		return err
	}
	// Wait until all records older than the checkpoint are known, because saving drops the
	// watermarks of unknown subscriptions.
	for s.lastWrite() < loaded {
		if !s.awaitWrite(ctx, loaded-1) {
			return context.Cause(ctx)
		}
	}
	if !s.canReadAll() { // saving would drop the watermarks of unreadable subscriptions
		return nil
	}
	s.locked(func() { s.applyProgressLocked(kept.Subscriptions) })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { // stop when an unreadable record appears
		for s.canReadAll() {
			if !s.awaitWrite(ctx, s.lastWrite()) {
				return
			}
		}
		cancel()
	})
	s.deliverAll(ctx, lease)
	if now, _, err := s.checkpoint.read(context.WithoutCancel(ctx)); err == nil { // not followed while delivering
		s.locked(func() { s.applyProgressLocked(now.Subscriptions) })
	}
	return nil
}

// deliverAll delivers until ctx ends or another process has taken over. When it returns, no
// delivery is in progress, and it has tried to store the watermarks.
func (s *Subscriptions) deliverAll(ctx context.Context, lease *natslog.Lease) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.locked(func() {
		s.ctx, s.lease = ctx, lease
		for _, sub := range s.byID {
			s.startLocked(sub)
		}
	})
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for superseded := false; ctx.Err() == nil && !superseded; {
		select {
		case <-tick.C:
			select {
			case <-s.checkpoint.dirty:
				superseded = errors.Is(s.save(ctx), errSuperseded)
			default:
			}
		case <-ctx.Done():
		}
	}
	s.locked(func() { s.ctx = nil }) // start no more deliveries
	cancel()
	s.delivering.Wait()
	_ = s.save(ctx) // save logs errors; the next process resumes from the stored positions
}

func (s *Subscriptions) startLocked(sub *subscription) {
	if ctx := s.ctx; ctx != nil && ctx.Err() == nil {
		s.delivering.Go(func() { s.serve(ctx, sub) })
	}
}

// save stores the delivery positions, even if ctx has ended.
func (s *Subscriptions) save(ctx context.Context) error {
	return s.checkpoint.save(ctx, func() positions {
		s.mu.Lock()
		defer s.mu.Unlock()
		var out []subscriptionProgress
		for _, sub := range s.byID {
			out = append(out, subscriptionProgress{sub.ID, sub.Life, sub.progress})
		}
		slices.SortFunc(out, func(a, b subscriptionProgress) int { return cmp.Compare(a.ID, b.ID) })
		return positions{Subscriptions: out}
	})
}

func (s *Subscriptions) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// setExpiryLocked schedules the expiry of a subscription.
func (s *Subscriptions) setExpiryLocked(sub *subscription) {
	if sub.expiry != nil {
		sub.expiry.Stop()
		sub.expiry = nil
	}
	if !sub.removed {
		sub.expiry = time.AfterFunc(time.Until(sub.Expires), func() { s.locked(sub.wakeLocked) })
	}
}

// dropLocked removes a subscription from memory.
func (s *Subscriptions) dropLocked(sub *subscription) {
	sub.removed = true
	if s.byID[sub.ID] == sub {
		delete(s.byID, sub.ID)
	}
	if sub.expiry != nil {
		sub.expiry.Stop()
	}
	sub.wakeLocked()
	s.checkpoint.changed()
}

const oldSecretFor = 5 * time.Minute

// phase determines the next action of a subscription's goroutine.
type phase int

const (
	waiting phase = iota // wait until something changes
	delivering
	revoked // the client's token was removed
	over
)

func (s *Subscriptions) phaseLocked(sub *subscription) phase {
	switch {
	case sub.removed, sub.expired():
		return over
	case s.opts.Holds != nil && !s.opts.Holds(sub.Principal):
		return revoked
	case !sub.answered, sub.suspended():
		return waiting
	}
	return delivering
}

// serve delivers to one subscription until the subscription or ctx ends.
func (s *Subscriptions) serve(ctx context.Context, sub *subscription) {
	s.locked(func() {
		s.setExpiryLocked(sub)
		sub.responder.late.Store(sub.Status.LastError == Timeout && !sub.Status.FailedSince.IsZero())
	})
	defer s.locked(func() {
		if sub.expiry != nil {
			sub.expiry.Stop()
		}
	})
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
		}
		s.mu.Lock()
		sub.stop = nil
		ended := sub.removed
		s.mu.Unlock()
		stop(nil)
		if now >= revoked && !ended {
			if err = s.removeEnded(ctx, sub); err == nil {
				return
			}
		}
		if ended {
			return
		}
		if err != nil && !errors.Is(err, errChanged) && ctx.Err() == nil {
			backoff.Sleep(ctx, retry.Next())
		} else {
			retry.Reset()
		}
	}
}

// of returns what a client may see; see Options.Of.
func (s *Subscriptions) of(identity string) (*mcpevents.Reader, mcpevents.Scope) {
	if s.opts.Of == nil {
		return s.opts.Reader, s.opts.Scope
	}
	return s.opts.Of(identity)
}

var errNotYet = errors.New("it is not known what the client may see")

// deliver runs a worker that starts at the cursor.
func (s *Subscriptions) deliver(ctx context.Context, sub *subscription, cursor string) error {
	reader, _ := s.of(sub.Principal)
	if reader == nil {
		return errNotYet
	}
	s.locked(func() { sub.reader = reader })
	at, truncated, err := reader.Start(ctx, &cursor, 0, maxReplay)
	if err != nil {
		return err
	}
	gap := false
	s.locked(func() {
		if truncated {
			s.missedLocked(sub)
			sub.Cursor = at.Cursor()
		}
		gap = sub.GapDue
	})
	w := &worker{sender: s.opts.Sender, reader: reader, endpoint: s.endpoint(sub)}
	return w.run(ctx, at, gap)
}

// missedLocked records that events were lost. A gap message and the response to the next refresh
// report the loss.
func (s *Subscriptions) missedLocked(sub *subscription) {
	sub.GapDue = true
	// Missed is less than Told if a process reported a loss and crashed before it saved Missed.
	sub.Missed = max(sub.Missed, sub.Told) + 1
	s.checkpoint.changed()
}

func (s *Subscriptions) endpoint(sub *subscription) endpoint {
	return endpoint{
		responder: &sub.responder,
		match:     sub.filter.Matches,
		shows: func(o *mcpevents.Occurrence) bool {
			reader, scope := s.of(sub.Principal)
			return reader != nil && scope.Shows(o)
		},
		message: func(o *mcpevents.Occurrence, cursor string) *message {
			return sub.message(o.ID, o.Body(cursor)) // reads only fields that never change, so no lock is needed
		},
		gap: func(cursor string) *message {
			s.counts.gaps.Add(1)
			return sub.control("gap", map[string]any{"cursor": cursor})
		},
		missed: func() { s.locked(func() { s.missedLocked(sub) }) },
		gapTried: func(bool) (again bool) { // no retry: the next refresh also reports the gap
			s.locked(func() { sub.GapDue = false })
			s.checkpoint.changed()
			return false
		},
		secrets: s.secrets(sub),
		allowed: func() (err error) {
			s.locked(func() {
				switch {
				case s.phaseLocked(sub) != delivering, s.outdatedLocked(sub):
					err = errChanged
				case s.lease != nil && !s.lease.Held():
					err = errSuperseded
				}
			})
			return err
		},
		attempted: func(r result) { s.attempted(sub, r) },
		abandoned: func() {
			s.counts.abandoned.Add(1)
			sub.counts.abandoned.Add(1)
		},
		passed: func(at mcpevents.Position, oldest time.Time) {
			cursor := at.Cursor()
			s.locked(func() {
				sub.oldest = oldest
				if sub.Cursor != cursor {
					sub.Cursor = cursor
					s.checkpoint.changed()
				}
			})
		},
	}
}

// secrets returns a function that returns a subscription's current signing secrets.
func (s *Subscriptions) secrets(sub *subscription) func() []standardwebhooks.Secret {
	return func() (all []standardwebhooks.Secret) {
		s.locked(func() {
			all = append(all, sub.secret)
			if sub.OldSecret != "" && time.Now().Before(sub.OldUntil) {
				all = append(all, sub.old)
			}
		})
		return all
	}
}

// attempted counts an attempt, and suspends the subscription if nearly all recent attempts failed.
func (s *Subscriptions) attempted(sub *subscription, r result) {
	s.counts.note(r)
	sub.counts.note(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	sub.rates.note(now, r.err != "")
	sub.Status.note(now, r)
	if r.err != "" && sub.rates.hopeless(now) {
		sub.Status.Suspended, sub.Status.SuspendedAt = true, sub.Refreshes
		s.checkpoint.changed()
		s.opts.Logger.Warn("deliveries to a webhook are suspended because nearly all of them fail", "id", sub.ID, "host", hostOf(sub.URL), "error", string(r.err))
		sub.wakeLocked()
	}
}

// outdatedLocked reports whether the client of a subscription may see other events than its worker.
func (s *Subscriptions) outdatedLocked(sub *subscription) bool {
	reader, _ := s.of(sub.Principal)
	return reader != sub.reader
}

// Recheck ends the subscriptions of clients for which Options.Holds returns false, and delivers what Options.Of
// returns.
func (s *Subscriptions) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byID {
		if s.phaseLocked(sub) == revoked || sub.stop != nil && s.outdatedLocked(sub) {
			sub.wakeLocked()
		}
	}
}

// terminate sends, in at most two attempts, a message that the subscription has ended.
func (s *Subscriptions) terminate(ctx context.Context, sub *subscription, m *message) {
	w := &worker{sender: s.opts.Sender, endpoint: endpoint{responder: &sub.responder, secrets: s.secrets(sub)}}
	_, _ = w.control(ctx, m) // the subscription ends even if this fails
	s.counts.terminated.Add(1)
}

// Stats returns the current state.
func (s *Subscriptions) Stats() Stats {
	out := s.counts.stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byID {
		if sub.suspended() {
			out.Suspended++
			continue
		}
		out.Active++
		out.addLag(sub.oldest)
	}
	return out
}

// Endpoints returns the subscriptions of all clients whose identity satisfies of, sorted by host
// and ID.
func (s *Subscriptions) Endpoints(of func(identity string) bool) (all []EndpointStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byID {
		if !of(sub.Principal) {
			continue
		}
		st := sub.Status
		st.Suspended = sub.suspended()
		e := newEndpointStatus(FromSubscription, sub.URL, &sub.counts, st, sub.oldest)
		e.Subscription, e.Event = sub.ID, sub.Name
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b EndpointStatus) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Subscription, b.Subscription))
	})
	return all
}

// Deliverers returns the process that delivers to subscriptions, or nothing if the log is not on a
// cluster.
func (s *Subscriptions) Deliverers() []Deliverer {
	all := s.election.deliverers()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		for _, key := range s.unreadable {
			all[i].Waiting = (&otherKeyError{key}).line()
		}
	}
	return all
}
