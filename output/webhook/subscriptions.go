package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/events"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Options configure Subscriptions. Reader and Sender are required.
type Options struct {
	Reader *events.Reader
	Sender *Sender
	// Scope decides which events are still shown, as for poll and push.
	Scope events.Scope
	// File stores the subscriptions, with mode 0600; "": they end with the process.
	File string
	// Cluster is where they are stored on a cluster, in place of File; nil: this process has
	// them for itself.
	Cluster *Cluster
	// Holds reports whether a client with that identity may still exist; nil: always.
	Holds func(identity string) bool
	// Allow are URLs that need no challenge.
	Allow URLs
	// NoExpiry allows clients to ask for subscriptions that never expire.
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

// Subscriptions are the webhooks that clients subscribed. Handle serves their requests,
// and Run delivers.
type Subscriptions struct {
	opts       Options
	doc        document // of what delivering changes
	store      store
	challenges challenges
	counts     counts
	// dirty wakes the goroutine that stores watermarks. Capacity 1, because one wake is enough;
	// never closed.
	dirty chan struct{}

	mu       sync.Mutex // guards all below, and the records
	byID     map[string]*subscription
	reserved map[string]int  // subscriptions that are being made, by principal
	ctx      context.Context // of delivering; nil: this process does not
	lease    *journal.Lease  // under which it delivers; nil: it needs none
	failed   bool            // doc could not be stored, and that was logged
	running  sync.WaitGroup
}

// New reads the stored subscriptions.
func New(opts Options) (*Subscriptions, error) {
	opts.MaxEach, opts.MaxTotal = cmp.Or(opts.MaxEach, 100), cmp.Or(opts.MaxTotal, 1000)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Subscriptions{opts: opts, dirty: make(chan struct{}, 1), byID: map[string]*subscription{}, reserved: map[string]int{}}
	s.challenges.last, s.challenges.hosts = map[string]time.Time{}, map[string][]time.Time{}
	if opts.Cluster != nil {
		s.store, s.doc = opts.Cluster, opts.Cluster.page
		opts.Cluster.attach(s)
		return s, nil
	}
	f := &file{path: opts.File, what: "subscriptions of webhooks"}
	s.store, s.doc = &alone{s, opts.File != ""}, f
	kept, err := f.load(context.Background())
	if err != nil {
		return nil, err
	}
	for _, r := range kept.Subscriptions {
		r.Unanswered = false
		if _, err := s.applyLocked(r, 0); err != nil {
			opts.Logger.Warn("a stored webhook subscription is ignored", "id", printable.Line(r.ID, 40), "reason", err.Error())
		}
	}
	return s, nil
}

// Run delivers until ctx ends, and returns when nothing is in progress and the
// watermarks are stored. It may be called once.
func (s *Subscriptions) Run(ctx context.Context) error {
	err := s.store.run(ctx)
	s.opts.Sender.Close()
	return err
}

// deliverAll delivers until ctx ends or another process has taken over, and returns as Run.
func (s *Subscriptions) deliverAll(ctx context.Context, lease *journal.Lease) (err error) {
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
	for ctx.Err() == nil && !errors.Is(err, errTaken) {
		select {
		case <-tick.C:
			select {
			case <-s.dirty:
				err = s.save(ctx) // it was logged
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
	return s.save(ctx)
}

func (s *Subscriptions) startLocked(sub *subscription) {
	if ctx := s.ctx; ctx != nil && ctx.Err() == nil {
		s.running.Go(func() { s.serve(ctx, sub) })
	}
}

// save stores what delivering changed, also if ctx has ended.
func (s *Subscriptions) save(ctx context.Context) error {
	err := s.doc.save(context.WithoutCancel(ctx), func() stored {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.store.snapshotLocked()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !s.failed && !errors.Is(err, errTaken) {
		s.opts.Logger.Error("cannot store the webhook subscriptions", "err", err)
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
