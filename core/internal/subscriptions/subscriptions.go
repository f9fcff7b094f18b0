// Package subscriptions implements the server side of subscriptions: it records what each client
// subscribes to, and which changes the client has not been notified of yet.
//
// A [Subscriber] is one notification channel to a client: either a legacy session, whose URIs are
// added and removed by resources/subscribe and resources/unsubscribe, or one subscriptions/listen
// of 2026-07-28, whose filter never changes. The package is independent of both: the protocol code
// opens a subscriber, waits on its C, sends what Take returns, and closes it.
//
// # Promises
//
//   - Loss: a subscriber does not queue changes, but stores a set of dirty keys (lists and URIs)
//     that have changed since they were last taken for sending. A client that reads slowly
//     receives fewer notifications, but always one after the last change to a resource. A slow
//     client blocks nothing.
//   - Repetition: multiple changes to a key between two calls to Take become one entry.
//   - Order: Take returns keys in the order in which they first became dirty, lists
//     before URIs, so that a new resource is listed before its update arrives.
//   - Freshness: an update contains a key but no content. The caller first makes the new content
//     readable and then calls Updated, so that a read after the notification returns that
//     content or a newer version.
//   - Limits: memory grows with the number of subscriptions, which Options limits, but
//     never with the number of changes. No principal can use up what another needs.
//   - Ownership: the package starts no goroutines. After Close, the Manager keeps no reference
//     to the subscriber.
package subscriptions

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/internal/wake"
)

// Errors that Open and Add return, for use with errors.Is.
var (
	ErrEmptyURI    error = &refusal{text: "Resource URI cannot be empty"}
	ErrTooMany           = errors.New("too many subscriptions")
	ErrUnavailable       = errors.New("not subscribable")
	ErrClosed            = errors.New("the subscriber is closed")
)

// refusal is an error with a text on which existing clients of vaults rely.
type refusal struct {
	text string
	kind error // wrapped error; may be nil
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.kind }

// Options configures a Manager. A limit of 0 selects the default stated in its comment.
type Options struct {
	// Subscribable reports whether clients may subscribe to a URI. If nil, they may subscribe to
	// any URI. It is called without holding a lock, only for URIs within the limits, and must not
	// block.
	Subscribable func(uri string) bool
	// MaxURIs limits the URIs per subscriber. The default is 10,000.
	MaxURIs int
	// MaxURIBytes limits the length of a URI in bytes. The default is 8,192.
	MaxURIBytes int
	// MaxSubscribers limits the open subscribers. The default is 10,000. Each principal gets its
	// fair share of MaxSubscribers and MaxTotal; see package fair.
	MaxSubscribers int
	// MaxTotal limits the URIs of all subscribers together. The default is 1,000,000.
	MaxTotal int
}

// Manager tracks all subscribers of one server. Its methods never block and may be called from any
// goroutine. The cost of an update depends only on the number of subscribers to its URI.
type Manager struct {
	opts Options

	mu          sync.Mutex
	open        map[*Subscriber]struct{}
	byURI       map[string]map[*Subscriber]struct{}
	subscribers fair.Limit // limits open subscribers
	total       fair.Limit // limits the URIs of all subscribers together
}

// New returns a Manager without subscribers.
func New(opts Options) *Manager {
	opts.MaxURIs = cmp.Or(opts.MaxURIs, 10_000)
	opts.MaxURIBytes = cmp.Or(opts.MaxURIBytes, 8_192)
	opts.MaxSubscribers = cmp.Or(opts.MaxSubscribers, 10_000)
	opts.MaxTotal = cmp.Or(opts.MaxTotal, 1_000_000)
	return &Manager{opts: opts, open: make(map[*Subscriber]struct{}), byURI: make(map[string]map[*Subscriber]struct{}),
		subscribers: fair.Limit{Max: opts.MaxSubscribers}, total: fair.Limit{Max: opts.MaxTotal}}
}

// Lists is a set of lists, such as the lists that changed. Resource templates belong to Resources.
// Events is the list of event types.
type Lists struct{ Tools, Prompts, Resources, Events bool }

// Any reports whether at least one list is set.
func (l Lists) Any() bool { return l.Tools || l.Prompts || l.Resources || l.Events }

// And returns the lists that are set in both l and o.
func (l Lists) And(o Lists) Lists {
	return Lists{l.Tools && o.Tools, l.Prompts && o.Prompts, l.Resources && o.Resources, l.Events && o.Events}
}

// Or returns the lists that are set in l or o.
func (l Lists) Or(o Lists) Lists {
	return Lists{l.Tools || o.Tools, l.Prompts || o.Prompts, l.Resources || o.Resources, l.Events || o.Events}
}

// Open adds a subscriber of a principal, which is empty if its client has none, that is notified of
// changes to the given lists. It has no URIs yet. The error is ErrTooMany if MaxSubscribers are already
// open.
func (m *Manager) Open(principal string, lists Lists) (*Subscriber, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.subscribers.Take(principal) {
		return nil, fmt.Errorf("%w: %d clients are already subscribed", ErrTooMany, len(m.open))
	}
	s := &Subscriber{m: m, principal: principal, lists: lists, wake: wake.New(), uris: make(map[string]bool)}
	m.open[s] = struct{}{}
	return s, nil
}

// Updated notifies the subscribers that the resources with these URIs have changed.
func (m *Manager) Updated(uris ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uri := range uris {
		for s := range m.byURI[uri] {
			s.mark(uri)
		}
	}
}

// ListChanged notifies all subscribers to the given lists that the lists have changed.
func (m *Manager) ListChanged(lists Lists) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.open {
		s.markLists(lists)
	}
}

// Subscribed reports whether any client subscribes to the URI. If none does, the caller need not
// check the resource for changes.
func (m *Manager) Subscribed(uri string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byURI[uri]) > 0
}

// URIs returns the URIs to which any client subscribes, in no order.
func (m *Manager) URIs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.byURI))
}

// Stats contains the sizes of a Manager at one point in time.
type Stats struct {
	Subscribers   int // open subscribers
	Subscriptions int // subscribed URIs, counted once per subscriber
	URIs          int // distinct subscribed URIs
}

// Stats returns the current sizes of the Manager.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{Subscribers: len(m.open), Subscriptions: m.total.All(), URIs: len(m.byURI)}
}

// wellFormed returns an error for a URI that is empty or longer than MaxURIBytes.
func (m *Manager) wellFormed(uri string) error {
	switch {
	case uri == "":
		return ErrEmptyURI
	case len(uri) > m.opts.MaxURIBytes:
		return fmt.Errorf("%w: the URI exceeds %d bytes", ErrUnavailable, m.opts.MaxURIBytes)
	}
	return nil
}

// Batch is a set of dirty lists and URIs, which are those that changed since the last Take.
type Batch struct {
	Lists Lists
	URIs  []string // without duplicates, in the order in which they became dirty
}

// Empty reports whether the batch contains nothing to send.
func (b Batch) Empty() bool { return !b.Lists.Any() && len(b.URIs) == 0 }

// Subscriber is one notification channel to a client. Create it with Manager.Open, and call Close
// when done. Its methods may be called from any goroutine, but only the goroutine that sends
// notifications to the client should call Take.
type Subscriber struct {
	m         *Manager
	principal string
	// wake signals that something is dirty. The manager sends to it while it holds its lock.
	wake wake.Channel

	// Guarded by m.mu.
	lists      Lists
	uris       map[string]bool // subscribed URIs; the value is true if the URI is dirty
	dirty      []string        // dirty URIs, in the order in which they became dirty
	dirtyLists Lists
	closed     bool
}

// Add subscribes to a URI. Adding it again has no effect. The error is ErrEmptyURI, ErrUnavailable,
// ErrTooMany or ErrClosed (for errors.Is), and its text is suitable for the client.
func (s *Subscriber) Add(uri string) error {
	if err := s.m.wellFormed(uri); err != nil {
		return err
	}
	// Check the limits first, because Subscribable may start work for the URI.
	s.m.mu.Lock()
	there, err := s.room(uri)
	s.m.mu.Unlock()
	if there || err != nil {
		return err
	}
	if s.m.opts.Subscribable != nil && !s.m.opts.Subscribable(uri) {
		return &refusal{"Resource " + uri + " is not subscribable", ErrUnavailable}
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if there, err := s.room(uri); there || err != nil {
		return err
	}
	s.uris[uri] = false
	s.m.total.Take(s.principal) // succeeds, as checked above
	of := s.m.byURI[uri]
	if of == nil {
		of = make(map[*Subscriber]struct{})
		s.m.byURI[uri] = of
	}
	of[s] = struct{}{}
	return nil
}

// room reports whether the URI is already subscribed (there), or returns the reason why the
// subscriber cannot add it. The caller must hold m.mu.
func (s *Subscriber) room(uri string) (there bool, err error) {
	_, there = s.uris[uri]
	switch {
	case s.closed:
		return false, ErrClosed
	case there:
		return true, nil
	case len(s.uris) >= s.m.opts.MaxURIs:
		return false, fmt.Errorf("%w: at most %d resources per client", ErrTooMany, s.m.opts.MaxURIs)
	case !s.m.total.Room(s.principal):
		return false, fmt.Errorf("%w: the server has reached its limit of %d", ErrTooMany, s.m.opts.MaxTotal)
	}
	return false, nil
}

// Remove unsubscribes from a URI. If the URI is dirty, its change is no longer announced. Removing
// a URI that is not subscribed has no effect.
func (s *Subscriber) Remove(uri string) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.remove(uri)
}

func (s *Subscriber) remove(uri string) {
	dirty, there := s.uris[uri]
	if !there {
		return
	}
	if dirty {
		// Subscribing and unsubscribing repeatedly must not grow the list.
		i := slices.Index(s.dirty, uri)
		s.dirty = slices.Delete(s.dirty, i, i+1)
	}
	delete(s.uris, uri)
	s.m.total.Give(s.principal)
	of := s.m.byURI[uri]
	delete(of, s)
	if len(of) == 0 {
		delete(s.m.byURI, uri)
	}
}

// Has reports whether the URI is subscribed.
func (s *Subscriber) Has(uri string) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	_, there := s.uris[uri]
	return there
}

// URIs returns the subscribed URIs, in no order.
func (s *Subscriber) URIs() []string {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return slices.Collect(maps.Keys(s.uris))
}

// C returns the channel that wakes the sender: a receive means that something is dirty, or was
// until an earlier Take. It is never closed.
func (s *Subscriber) C() <-chan struct{} { return s.wake }

// Take returns everything dirty and marks it clean. The caller must send all of it, or Restore it,
// before it waits on C again.
func (s *Subscriber) Take() Batch {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	b := Batch{Lists: s.dirtyLists, URIs: s.dirty}
	for _, uri := range s.dirty {
		s.uris[uri] = false
	}
	s.dirtyLists, s.dirty = Lists{}, nil
	return b
}

// Restore marks an unsent batch dirty again for the next Take. URIs that are no longer subscribed
// are left out.
func (s *Subscriber) Restore(b Batch) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.closed || b.Empty() {
		return
	}
	s.dirtyLists = s.dirtyLists.Or(b.Lists)
	for _, uri := range b.URIs {
		if _, there := s.uris[uri]; there {
			s.mark(uri)
		}
	}
	s.ring()
}

// Close removes the subscriber from its manager.
func (s *Subscriber) Close() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.dirty, s.dirtyLists = nil, Lists{}
	for uri := range s.uris {
		s.uris[uri] = false
		s.remove(uri)
	}
	delete(s.m.open, s)
	s.m.subscribers.Give(s.principal)
}

// mark makes a subscribed URI dirty. The caller must hold m.mu.
func (s *Subscriber) mark(uri string) {
	if !s.uris[uri] {
		s.uris[uri] = true
		s.dirty = append(s.dirty, uri)
	}
	s.ring()
}

// markLists makes the given lists dirty, except those to which the subscriber does not subscribe.
// The caller must hold m.mu.
func (s *Subscriber) markLists(lists Lists) {
	if wanted := lists.And(s.lists); wanted.Any() {
		s.dirtyLists = s.dirtyLists.Or(wanted)
		s.ring()
	}
}

func (s *Subscriber) ring() {
	s.wake.Send()
}
