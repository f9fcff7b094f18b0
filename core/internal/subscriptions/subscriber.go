package subscriptions

import (
	"fmt"
	"maps"
	"slices"
)

// Batch is the lists and URIs that became dirty, which means that they changed, since the last
// Take.
type Batch struct {
	Lists Lists
	URIs  []string // in the order in which they became dirty, none twice
}

// Empty reports whether there is nothing to send.
func (b Batch) Empty() bool { return !b.Lists.Any() && len(b.URIs) == 0 }

// Subscriber is one channel to a client. Make it with Manager.Open and Close it.
// Its methods may be called from any goroutine; Take should be called by the goroutine that
// sends notifications to the client.
type Subscriber struct {
	m      *Manager
	viewer Viewer
	// wake is sent to by the manager under its lock, without waiting, and never closed.
	// Capacity 1: it says that something is dirty, not how much.
	wake chan struct{}

	// Guarded by m.mu.
	lists      Lists
	listed     Lists           // what the client may have seen already
	uris       map[string]bool // subscribed; true: dirty
	dirty      []string        // the dirty URIs, in the order in which they became dirty
	dirtyLists Lists
	closed     bool
}

// Add subscribes to a URI. Adding a URI again has no effect. The error
// is an ErrEmptyURI, ErrUnavailable, ErrTooMany or ErrClosed, with a text for the
// client.
func (s *Subscriber) Add(uri string) error {
	if err := s.m.wellFormed(uri); err != nil {
		return err
	}
	// Check the limits before Subscribable is called, which may start work for the URI.
	if there, err := s.room(uri); there || err != nil {
		return err
	}
	if s.m.opts.Subscribable != nil && !s.m.opts.Subscribable(uri) {
		return &NotSubscribableError{URI: uri}
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if there, err := s.roomLocked(uri); there || err != nil {
		return err
	}
	s.uris[uri] = false
	s.m.total.Take(s.viewer.Principal) // there is room
	of := s.m.byURI[uri]
	if of == nil {
		of = make(map[*Subscriber]struct{})
		s.m.byURI[uri] = of
	}
	of[s] = struct{}{}
	return nil
}

// room reports whether the URI is subscribed already (there), or why it cannot be.
func (s *Subscriber) room(uri string) (there bool, err error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.roomLocked(uri)
}

func (s *Subscriber) roomLocked(uri string) (there bool, err error) {
	_, there = s.uris[uri]
	switch {
	case s.closed:
		return false, ErrClosed
	case there:
		return true, nil
	case len(s.uris) >= s.m.opts.MaxURIs:
		return false, fmt.Errorf("%w: at most %d resources for a client", ErrTooMany, s.m.opts.MaxURIs)
	case !s.m.total.Room(s.viewer.Principal):
		return false, fmt.Errorf("%w: the server has reached its limit of %d", ErrTooMany, s.m.opts.MaxTotal)
	}
	return false, nil
}

// Remove ends the subscription to a URI; if it is dirty, the client is not notified any
// more. Removing a URI that is not subscribed has no effect.
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
		// The list of dirty URIs must not grow by subscribing and leaving again.
		for i, d := range s.dirty {
			if d == uri {
				s.dirty = append(s.dirty[:i], s.dirty[i+1:]...)
				break
			}
		}
	}
	delete(s.uris, uri)
	s.m.total.Give(s.viewer.Principal)
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

// URIs returns the URIs that are subscribed, in no order.
func (s *Subscriber) URIs() []string {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return slices.Collect(maps.Keys(s.uris))
}

// Variant returns which variant of the lists the client sees.
func (s *Subscriber) Variant() string { return s.viewer.Variant }

// Listed records that the client is about to get the lists, or may have got them before.
func (s *Subscriber) Listed(lists Lists) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.listed = s.listed.Or(lists)
}

// C returns the channel that wakes the sender: a receive means that something is dirty, or
// was until an earlier Take. The channel is never closed.
func (s *Subscriber) C() <-chan struct{} { return s.wake }

// Take returns what is dirty, which is clean afterwards. The caller must send all of it, or
// Restore it, before it waits on C again.
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

// Restore makes a batch that could not be sent dirty again, for the next Take. URIs that are
// no longer subscribed are left out.
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
	if s.m.variants[s.viewer.Variant]--; s.m.variants[s.viewer.Variant] == 0 {
		delete(s.m.variants, s.viewer.Variant)
	}
	s.m.subscribers.Give(s.viewer.Principal)
}

// mark makes a subscribed URI dirty. m.mu must be held.
func (s *Subscriber) mark(uri string) {
	if !s.uris[uri] {
		s.uris[uri] = true
		s.dirty = append(s.dirty, uri)
	}
	s.ring()
}

// markLists makes the lists dirty that the subscriber is notified of. m.mu must be held.
func (s *Subscriber) markLists(lists Lists) {
	if wanted := lists.and(s.lists); wanted.Any() {
		s.dirtyLists = s.dirtyLists.Or(wanted)
		s.ring()
	}
}

func (s *Subscriber) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
