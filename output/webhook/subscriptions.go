package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/records"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

const (
	// subscriptionPrefix is the key prefix of subscription records.
	subscriptionPrefix = "s."
	// storeWait limits how long storing a client's request may take.
	storeWait = 15 * time.Second
	// answerWait limits how long events wait until the client has the response that creates their
	// subscription. Another process may be writing it, or may have crashed.
	answerWait = 5 * time.Second
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

// Subscriptions manages the webhooks that clients have subscribed. Handle serves their requests while Run
// delivers events. Each subscription is a record, which any process that shares the log can create, refresh
// and remove. Every process follows the records, and knows its own writes, too, only from there.
type Subscriptions struct {
	*deliverer
	opts       Options
	challenges challenges
	over       chan struct{} // closed when Run ends

	// The mutex of deliverer guards all fields below.
	byID     map[string]*endpoint // of all records, also of those that cannot be used
	creating []*record            // requests that create or refresh subscriptions
	last     uint64               // number of the last known write
	moved    chan struct{}        // closed and replaced after each write
}

// New loads the stored subscriptions. It waits up to 30 s if the cluster has no leader, and fails
// if a subscription is encrypted with a key that is not in Keys. It starts no goroutine.
func New(ctx context.Context, opts Options) (*Subscriptions, error) {
	opts.MaxEach, opts.MaxTotal = cmp.Or(opts.MaxEach, 100), cmp.Or(opts.MaxTotal, 1000)
	s := &Subscriptions{
		opts: opts, challenges: challenges{recent: map[string][]time.Time{}}, over: make(chan struct{}),
		byID: map[string]*endpoint{}, moved: make(chan struct{}),
	}
	s.deliverer = newDeliverer(s, FromSubscription, opts.Log, opts.Records, opts.Sender, opts.Logger)
	if s.log != nil && opts.Keys == nil {
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
	return s, s.ready()
}

// Run delivers until ctx ends. When it returns, no delivery is in progress and the watermarks are
// stored. It logs and retries storage errors. It must be called at most once.
func (s *Subscriptions) Run(ctx context.Context) error {
	defer close(s.over)
	var following sync.WaitGroup
	following.Go(func() { s.records.Follow(ctx, s.applyChanges) })
	s.run(ctx)
	following.Wait()
	s.sender.Close()
	return nil
}

// ready fails if this process cannot decrypt all subscriptions. It then leaves deliveries to other
// processes, because saving would drop the watermarks of the others.
func (s *Subscriptions) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byID {
		if other, ok := errors.AsType[*otherKeyError](e.problem); ok {
			return other
		}
	}
	return nil
}

func (s *Subscriptions) caughtUp(ctx context.Context, revision uint64) error {
	return s.await(ctx, func() bool { return s.last >= revision })
}

func (s *Subscriptions) adoptLocked([]*endpoint) {
	before := len(s.kept)
	s.kept = slices.DeleteFunc(s.kept, func(p progress) bool {
		e := s.byID[p.ID]
		if e != nil && e.sub != nil && e.sub.Life == p.Life {
			e.progress = p
			e.normalizeLocked()
		}
		return e != nil && e.sub != nil || s.ctx != nil // while it delivers, it knows all records
	})
	s.changed = s.changed || len(s.kept) < before
}

// normalizeLocked makes the progress of a subscription consistent with its record, which another process may
// have written: a refresh ends a suspension, and what was reported to the client was missed.
func (e *endpoint) normalizeLocked() {
	e.Missed = max(e.Missed, e.sub.Told)
	if e.Status.Suspended && e.Status.SuspendedAt != e.sub.Refreshes {
		e.resumeLocked()
	}
}

// suspendAfter is the number of consecutive failed attempts after which a subscription is suspended.
const suspendAfter = 100

func (s *Subscriptions) suspendsLocked(e *endpoint) bool {
	if e.Status.failures < suspendAfter {
		return false
	}
	e.Status.SuspendedAt = e.sub.Refreshes
	return true
}

// view returns what the client of a subscription may see; see Options.Of.
func (s *Subscriptions) view(e *endpoint) (*mcpevents.Reader, mcpevents.Scope) {
	return s.of(e.sub.Principal)
}

func (s *Subscriptions) of(identity string) (*mcpevents.Reader, mcpevents.Scope) {
	if s.opts.Of == nil {
		return s.opts.Reader, s.opts.Scope
	}
	return s.opts.Of(identity)
}

func (s *Subscriptions) revoked(e *endpoint) bool {
	return s.opts.Holds != nil && !s.opts.Holds(e.sub.Principal)
}

func (s *Subscriptions) phaseLocked(e *endpoint) (phase, time.Time) {
	switch {
	case e.sub.expired(), s.revoked(e):
		return ended, time.Time{}
	case time.Now().Before(e.notBefore):
		return waiting, e.notBefore
	case e.Status.Suspended:
		return waiting, e.sub.Expires
	}
	return delivering, e.sub.Expires
}

// end removes a subscription that has expired, or whose client's token was removed. It tells the endpoint
// of the latter.
func (s *Subscriptions) end(ctx context.Context, e *endpoint) error {
	s.mu.Lock()
	r, revision := e.sub, e.revision
	s.mu.Unlock()
	if !r.expired() {
		w := &worker{deliverer: s.deliverer, e: e}
		_, _ = w.control(ctx, r.control("terminated", map[string]any{"error": map[string]any{
			"code": r.Numbering.Code(mcpevents.Forbidden), "message": mcpevents.Forbidden, "data": map[string]any{"reason": "the token was revoked"},
		}}), nil) // the subscription ends even if this fails
		s.locked(func() { s.total.Terminated++ })
	}
	// This fails if the subscription was refreshed in the meantime.
	return s.removeRecord(ctx, records.Record{Key: subscriptionPrefix + r.ID, Revision: revision})
}

// Recheck ends the subscriptions of clients for which Options.Holds returns false, and delivers what Options.Of
// returns.
func (s *Subscriptions) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		if reader, _ := s.view(e); s.revoked(e) || reader != e.reader {
			e.wakeLocked()
		}
	}
}

// Endpoints returns the subscriptions of all clients whose identity satisfies of, sorted by host
// and ID.
func (s *Subscriptions) Endpoints(of func(identity string) bool) (all []EndpointStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		if of(e.sub.Principal) {
			all = append(all, e.report())
		}
	}
	sort.Slice(all, func(i, j int) bool {
		return cmp.Or(cmp.Compare(all[i].Host, all[j].Host), cmp.Compare(all[i].Subscription, all[j].Subscription)) < 0
	})
	return all
}

// create stores a new subscription, or refreshes the existing one with the same ID. It returns the
// previous record with its progress, or nil if there was none, and the stored record. If another process
// has changed the record concurrently, create applies the request to the new version.
func (s *Subscriptions) create(ctx context.Context, next record) (before *record, after record, was progress, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	rec := records.Record{Key: subscriptionPrefix + next.ID}
	for {
		var last uint64
		s.locked(func() {
			last, rec.Revision, before, was = s.last, 0, nil, progress{}
			if e := s.byID[next.ID]; e != nil {
				rec.Revision = e.revision
				_, other := errors.AsType[*otherKeyError](e.problem)
				switch {
				case other:
					err = e.problem
				case e.sub != nil && e.problem == nil && !e.sub.expired():
					before, was = e.sub, e.progress
				}
			}
		})
		if err != nil {
			return nil, after, was, err
		}
		after = next.after(before, was.Missed)
		if rec.Value, err = s.opts.Keys.seal(after); err != nil {
			return nil, after, was, err
		}
		revision, err := s.records.Put(ctx, rec)
		if err == nil {
			return before, after, was, s.await(ctx, func() bool { return s.last >= revision })
		}
		if !errors.Is(err, records.ErrChanged) {
			return nil, after, was, err
		}
		if err := s.await(ctx, func() bool { return s.last > last }); err != nil {
			return nil, after, was, err
		}
	}
}

// answered allows deliveries to start, after the response to the request that created the
// subscription was written.
func (s *Subscriptions) answered(id, life string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil && e.sub != nil && e.sub.Life == life {
		e.notBefore = time.Time{}
		e.wakeLocked()
	}
}

// remove removes a subscription at the request of its client.
func (s *Subscriptions) remove(ctx context.Context, id string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	for {
		rec, err := s.records.Get(ctx, subscriptionPrefix+id)
		if err != nil || rec.Value == nil {
			return false, err
		}
		if err = s.removeRecord(ctx, rec); !errors.Is(err, records.ErrChanged) {
			return err == nil, err
		}
		if err := s.await(ctx, func() bool { return s.byID[id] == nil || s.byID[id].revision > rec.Revision }); err != nil {
			return false, err
		}
	}
}

// removeRecord removes a record with a revision, and waits until this process knows that.
func (s *Subscriptions) removeRecord(ctx context.Context, rec records.Record) error {
	if err := s.records.Remove(ctx, rec); err != nil {
		return err
	}
	id := strings.TrimPrefix(rec.Key, subscriptionPrefix)
	return s.await(ctx, func() bool { return s.byID[id] == nil || s.byID[id].revision > rec.Revision })
}

// await waits until a condition holds, which the lock guards and a write may change. It fails if Run ends.
func (s *Subscriptions) await(ctx context.Context, holds func() bool) error {
	for {
		s.mu.Lock()
		done, moved := holds(), s.moved
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-s.over:
			return journal.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// applyChanges applies record changes made by any process. Calls must not be concurrent.
func (s *Subscriptions) applyChanges(ch records.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	absent := maps.Clone(s.byID)
	for _, rec := range ch.Records {
		id, isSubscription := strings.CutPrefix(rec.Key, subscriptionPrefix)
		switch {
		case rec.Key == checkpointKey(FromSubscription) && s.ctx == nil: // another process delivers and saves positions
			if kept, err := parseCheckpoint(rec); err == nil { // the delivering process reports the error
				s.kept = kept
			}
		case !isSubscription:
		case rec.Value == nil:
			s.dropLocked(id)
		default:
			delete(absent, id)
			s.applyLocked(id, rec)
		}
	}
	if ch.All {
		for id := range absent {
			s.dropLocked(id)
		}
	}
	s.adoptLocked(nil)
	s.last = ch.Last
	close(s.moved)
	s.moved = make(chan struct{})
	s.wake()
}

// dropLocked drops a subscription whose record was removed.
func (s *Subscriptions) dropLocked(id string) {
	if e := s.byID[id]; e != nil {
		delete(s.byID, id)
		s.removeLocked(e)
	}
}

// applyLocked creates or updates a subscription to match its record. A record that cannot be used is
// reported once; its subscription stays as it was.
func (s *Subscriptions) applyLocked(id string, rec records.Record) {
	e := s.byID[id]
	if e != nil && e.revision == rec.Revision {
		return
	}
	r, err := s.opts.Keys.open(id, rec.Value)
	var secret, old *standardwebhooks.Secret
	var filter mcpevents.Filter
	if err == nil {
		secret, old, err = r.secrets()
	}
	if err == nil {
		filter, _, err = mcpevents.ParseFilter(r.Name, r.Arguments)
	}
	if e != nil && err == nil && e.sub != nil && e.sub.Life != r.Life {
		s.dropLocked(id)
		e = nil
	}
	if e == nil {
		e = &endpoint{}
		s.byID[id] = e
	}
	e.revision, e.problem = rec.Revision, err
	if err != nil {
		if _, other := errors.AsType[*otherKeyError](err); !other { // the deliverer reports it
			s.logger.Warn("a stored webhook subscription is ignored; its client can subscribe again", "id", printable.Line(id, 40), "reason", err.Error())
		}
		return
	}
	isNew := e.sub == nil
	e.sub, e.secret, e.old, e.oldUntil = &r, secret, old, r.OldUntil
	if !isNew {
		e.normalizeLocked()
		return
	}
	e.progress = progress{ID: id, Life: r.Life, Cursor: r.Cursor, Missed: r.Told}
	e.destination = r.destination(filter.Matches)
	e.notBefore = time.Now().Add(min(answerWait, time.Until(r.Created.Add(answerWait))))
	s.addLocked(e)
}

// secrets returns the secrets of a subscription; old is nil if there is none.
func (r *record) secrets() (secret, old *standardwebhooks.Secret, err error) {
	now, err := standardwebhooks.ParseSecret(r.Secret)
	if err != nil || r.OldSecret == "" {
		return &now, nil, err
	}
	before, err := standardwebhooks.ParseSecret(r.OldSecret)
	return &now, &before, err
}
