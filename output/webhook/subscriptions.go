package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/mcptrack/mcptrack/core/events"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/webhooks"
)

// Options configure Subscriptions. Reader and Sender are required.
type Options struct {
	Reader *events.Reader
	Sender *Sender
	// Scope says what is still shown, as for poll and push.
	Scope events.Scope
	// File is where the subscriptions are stored, with mode 0600; "": they end with the
	// process.
	File string
	// Holds reports whether a client of that identity may still exist; nil: it may.
	Holds func(identity string) bool
	// Allow are globs of URLs, or of origins, that need not prove that they want events.
	Allow []string
	// NoExpiry grants subscriptions without an end to those who ask for one.
	NoExpiry bool
	// MessageIDs gives each message an id of its own in place of that of the event, which
	// all clients expect today; the final SEP-3415 is said to ask for the former.
	MessageIDs bool
	// MaxEach bounds the subscriptions of a client, 100 by default, and MaxTotal those of
	// all; 1,000.
	MaxEach, MaxTotal int
	// Logger gets what an operator should look into; nil discards. It gets hosts and ids,
	// and neither URLs nor secrets.
	Logger *slog.Logger
}

// Subscriptions are the webhooks that clients subscribed. Handle serves their requests,
// and Run delivers.
type Subscriptions struct {
	opts       Options
	file       file
	challenges challenges
	counts     counts
	// dirty wakes the goroutine that stores watermarks. Capacity 1: it says that there is
	// something; never closed.
	dirty chan struct{}

	mu       sync.Mutex // guards all below, and the records
	byID     map[string]*subscription
	reserved map[string]int // subscriptions that are being made, by principal
	ctx      context.Context
	running  sync.WaitGroup
}

// subscription is one subscription. Its fields are guarded by Subscriptions.mu.
type subscription struct {
	record
	filter   events.Filter
	secret   webhooks.Secret
	old      webhooks.Secret
	answered bool // the answer that made it was written: events may be sent
	removed  bool
	rates    rates
	counts   counts
	oldest   time.Time // when the first undelivered event happened; zero: there is none
	expiry   *time.Timer
	stop     context.CancelCauseFunc // of the worker; nil: none is running
	// changed wakes the goroutine of the subscription. Capacity 1, never closed.
	changed chan struct{}
}

// New reads the stored subscriptions.
func New(opts Options) (*Subscriptions, error) {
	opts.MaxEach, opts.MaxTotal = cmp.Or(opts.MaxEach, 100), cmp.Or(opts.MaxTotal, 1000)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	for _, glob := range opts.Allow {
		if !doublestar.ValidatePattern(glob) {
			return nil, errors.New("invalid glob " + printable.Line(glob, 200))
		}
	}
	s := &Subscriptions{opts: opts, file: file{path: opts.File, what: "subscriptions of webhooks"}, dirty: make(chan struct{}, 1), byID: map[string]*subscription{}, reserved: map[string]int{}}
	s.challenges.last, s.challenges.hosts = map[string]time.Time{}, map[string][]time.Time{}
	kept, err := s.file.load(context.Background())
	if err != nil {
		return nil, err
	}
	for _, r := range kept.Subscriptions {
		sub, err := newSubscription(r)
		if err != nil {
			opts.Logger.Warn("a stored subscription is left out", "id", printable.Line(r.ID, 40), "reason", err.Error())
			continue
		}
		sub.answered = true
		s.byID[r.ID] = sub
	}
	return s, nil
}

func newSubscription(r record) (*subscription, error) {
	sub := &subscription{record: r, changed: make(chan struct{}, 1)}
	var err error
	if sub.filter, _, err = events.ParseFilter(r.Name, r.Arguments); err != nil {
		return nil, err
	}
	if sub.secret, err = webhooks.ParseSecret(r.Secret); err != nil {
		return nil, err
	}
	if r.OldSecret != "" {
		sub.old, err = webhooks.ParseSecret(r.OldSecret)
	}
	return sub, err
}

// Run delivers until ctx ends, and returns when nothing is in progress and the
// watermarks are stored. It may be called once.
func (s *Subscriptions) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for _, sub := range s.byID {
		s.startLocked(sub)
	}
	s.mu.Unlock()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			select {
			case <-s.dirty:
				_ = s.save() // it was logged
			default:
			}
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	s.ctx = nil // nothing is started any more
	s.mu.Unlock()
	s.running.Wait()
	err := s.save()
	s.opts.Sender.Close()
	return err
}

func (s *Subscriptions) startLocked(sub *subscription) {
	if ctx := s.ctx; ctx != nil && ctx.Err() == nil {
		s.running.Go(func() { s.serve(ctx, sub) })
	}
}

// save stores all subscriptions.
func (s *Subscriptions) save() error {
	err := s.file.save(context.Background(), func() stored {
		s.mu.Lock()
		defer s.mu.Unlock()
		var out []record
		for _, sub := range s.byID {
			out = append(out, sub.record)
		}
		slices.SortFunc(out, func(a, b record) int { return cmp.Compare(a.ID, b.ID) })
		return stored{Subscriptions: out}
	})
	if err != nil {
		s.opts.Logger.Error("the subscriptions of webhooks cannot be stored", "err", err)
	}
	return err
}

func (s *Subscriptions) changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
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

// allowed reports whether a URL need not prove that it wants events.
func (s *Subscriptions) allowed(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.opts.Allow, func(glob string) bool {
		return doublestar.MatchUnvalidated(glob, raw) || doublestar.MatchUnvalidated(glob, u.Scheme+"://"+u.Host)
	})
}

func bounded(text string) string { return printable.Line(text, 100) }
