package subscriptions

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/fair"
)

// Errors of Open and Add, for errors.Is.
var (
	ErrEmptyURI    error = emptyURIError{}
	ErrTooMany           = errors.New("too many subscriptions")
	ErrUnavailable       = errors.New("not subscribable")
	ErrClosed            = errors.New("the subscriber is closed")
)

// emptyURIError has the text that existing clients of vaults expect.
type emptyURIError struct{}

func (emptyURIError) Error() string { return "Resource URI cannot be empty" }

// NotSubscribableError is the error of Add for a URI that Options.Subscribable refuses.
type NotSubscribableError struct{ URI string }

func (e *NotSubscribableError) Error() string {
	return fmt.Sprintf("Resource %s is not subscribable", e.URI)
}

// Is makes the refusal an ErrUnavailable.
func (e *NotSubscribableError) Is(target error) bool { return target == ErrUnavailable }

// Options of a Manager. The zero value is usable: a limit of 0 means the default named in
// its comment.
type Options struct {
	// Subscribable reports whether a URI can be subscribed. Nil: every URI can. It is
	// called without a lock held, only for URIs within the limits, and must not block.
	Subscribable func(uri string) bool
	// MaxURIs bounds the URIs of one subscriber; 10,000.
	MaxURIs int
	// MaxURIBytes bounds the length of one URI; 8,192.
	MaxURIBytes int
	// MaxSubscribers bounds the subscribers open at a time; 10,000. See package fair for the
	// part that each principal gets of it, and of MaxTotal.
	MaxSubscribers int
	// MaxTotal bounds the URIs of all subscribers together; 1,000,000.
	MaxTotal int
}

// Manager has all subscribers of one server. Its methods may be called from any
// goroutine and never block. An update costs time for each subscriber of its URI, but not
// for the subscribers of other URIs.
type Manager struct {
	opts Options

	mu          sync.Mutex
	open        map[*Subscriber]struct{}
	variants    map[string]int // how many of them see each variant
	byURI       map[string]map[*Subscriber]struct{}
	subscribers fair.Limit // those that are open
	total       fair.Limit // URIs over all subscribers
}

// New returns a Manager without subscribers.
func New(opts Options) *Manager {
	opts.MaxURIs = cmp.Or(opts.MaxURIs, 10_000)
	opts.MaxURIBytes = cmp.Or(opts.MaxURIBytes, 8_192)
	opts.MaxSubscribers = cmp.Or(opts.MaxSubscribers, 10_000)
	opts.MaxTotal = cmp.Or(opts.MaxTotal, 1_000_000)
	return &Manager{opts: opts, open: make(map[*Subscriber]struct{}), variants: make(map[string]int), byURI: make(map[string]map[*Subscriber]struct{}),
		subscribers: fair.Limit{Max: opts.MaxSubscribers}, total: fair.Limit{Max: opts.MaxTotal}}
}

// Lists says of which lists' changes a subscriber is notified, or which lists have changed.
// Templates belong to Resources; Events is the list of event types that the server offers.
type Lists struct{ Tools, Prompts, Resources, Events bool }

// Any reports whether at least one list is set.
func (l Lists) Any() bool { return l.Tools || l.Prompts || l.Resources || l.Events }

func (l Lists) and(o Lists) Lists {
	return Lists{l.Tools && o.Tools, l.Prompts && o.Prompts, l.Resources && o.Resources, l.Events && o.Events}
}

// Or returns the lists that are set in l or o.
func (l Lists) Or(o Lists) Lists {
	return Lists{l.Tools || o.Tools, l.Prompts || o.Prompts, l.Resources || o.Resources, l.Events || o.Events}
}

// Viewer says which lists the client of a subscriber sees, and whose client it is. The zero value
// is a client without a principal that sees the common lists.
type Viewer struct {
	Principal string
	Variant   string // of the lists; "" for the common ones
	// Generation is a catalog that was there before the subscriber is opened: the client sees that
	// one or a later one, and is not notified of how it came about.
	Generation uint64
}

// Change says what changed when a catalog replaced another one.
type Change struct {
	Lists      Lists // for clients whose variant is not in Variants
	Variants   map[string]VariantChange
	Generation uint64 // of the new catalog, greater than all before
}

// VariantChange is what changed for the clients that see one variant.
type VariantChange struct {
	Lists Lists
	// New means that the clients saw the common lists until now. Those that have not listed yet
	// need no notification.
	New bool
}

// All returns the lists that changed for any client.
func (c Change) All() Lists {
	all := c.Lists
	for _, v := range c.Variants {
		all = all.Or(v.Lists)
	}
	return all
}

// Open is OpenFor a zero Viewer.
func (m *Manager) Open(lists Lists) (*Subscriber, error) { return m.OpenFor(Viewer{}, lists) }

// OpenFor adds a subscriber that is notified of the lists and, so far, of no URI. The error is
// ErrTooMany when MaxSubscribers are open.
func (m *Manager) OpenFor(viewer Viewer, lists Lists) (*Subscriber, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.subscribers.Take(viewer.Principal) {
		return nil, fmt.Errorf("%w: %d clients are subscribed already", ErrTooMany, len(m.open))
	}
	s := &Subscriber{m: m, viewer: viewer, lists: lists, wake: make(chan struct{}, 1), uris: make(map[string]bool)}
	m.open[s] = struct{}{}
	m.variants[viewer.Variant]++
	return s, nil
}

// Updated notifies the subscribers of each of the URIs that the resource changed.
func (m *Manager) Updated(uris ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uri := range uris {
		for s := range m.byURI[uri] {
			s.mark(uri)
		}
	}
}

// ListChanged notifies all subscribers of each of the lists that are set that the list
// changed.
func (m *Manager) ListChanged(lists Lists) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.open {
		s.markLists(lists)
	}
}

// CatalogChanged notifies the subscribers for whose clients a list changed.
func (m *Manager) CatalogChanged(change Change) {
	if !change.All().Any() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.open {
		if s.viewer.Generation >= change.Generation {
			continue
		}
		lists := change.Lists
		if v, differs := change.Variants[s.viewer.Variant]; differs {
			if lists = v.Lists; v.New {
				lists = lists.and(s.listed)
			}
		}
		s.markLists(lists)
	}
}

// Seen reports whether there is a subscriber whose client sees the variant.
func (m *Manager) Seen(variant string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.variants[variant] > 0
}

// Subscribed reports whether a client is subscribed to the URI, so that a caller can
// skip finding out whether it changed.
func (m *Manager) Subscribed(uri string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byURI[uri]) > 0
}

// Stats are the sizes of a Manager at one moment.
type Stats struct {
	Subscribers   int // open
	Subscriptions int // URIs, counted once for each subscriber
	URIs          int // different URIs
}

// Stats returns the current sizes.
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
		return fmt.Errorf("%w: the URI has more than %d bytes", ErrUnavailable, m.opts.MaxURIBytes)
	}
	return nil
}
