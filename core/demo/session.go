package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// pending is how many notifications may wait for a slow client; mcp-go drops
	// what does not fit.
	pending = 100
	maxURIs = 10_000
)

// session is what mcp-go knows of the client, or of one of its listen streams. It
// implements ClientSession and the optional subscription and filter interfaces.
type session struct {
	id       string
	listenID any // request id of the stream; nil for the client itself
	end      context.CancelFunc

	// queue is sent to by mcp-go and push, both without blocking, received from
	// by forward, and never closed.
	queue chan mcp.JSONRPCNotification

	mu          sync.Mutex
	initialized bool
	legacy      bool
	acked       bool
	cancelled   bool
	uris        map[string]struct{}
	filter      mcp.SubscriptionFilter
}

func newSession(id string, listenID any) *session {
	return &session{
		id:          id,
		listenID:    listenID,
		initialized: listenID != nil,
		queue:       make(chan mcp.JSONRPCNotification, pending),
		uris:        make(map[string]struct{}),
	}
}

// forward sends what is queued until ctx is done. On a stream, every message is
// tagged with its id and nothing counts as subscribed before the acknowledgement
// is out: a client may rely on it being the first message.
func (s *session) forward(ctx context.Context, send func(any)) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-s.queue:
			if s.listenID != nil {
				// The map is shared with the other receivers of a broadcast.
				n.Params.Meta = maps.Clone(n.Params.Meta)
				if n.Params.Meta == nil {
					n.Params.Meta = make(map[string]any)
				}
				n.Params.Meta[mcp.MetaKeySubscriptionID] = s.listenID
			}
			send(n)
			if n.Method == mcp.MethodNotificationSubscriptionsAcknowledged {
				s.mu.Lock()
				s.acked = true
				s.mu.Unlock()
			}
		}
	}
}

func (s *session) push(n mcp.JSONRPCNotification) {
	select {
	case s.queue <- n:
	default:
	}
}

// setLegacy is called when the client says initialize: from then on list changes
// are sent without having been asked for.
func (s *session) setLegacy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.legacy = true
}

func (s *session) cancelByClient() {
	s.mu.Lock()
	s.cancelled = true
	s.mu.Unlock()
	s.end()
}

func (s *session) isCancelled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancelled
}

// SessionID is unique within one Serve.
func (s *session) SessionID() string { return s.id }

// NotificationChannel is the queue.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.queue }

// Initialize is called by mcp-go in both eras.
func (s *session) Initialize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.initialized = true
}

// Initialized says whether notifications may be sent.
func (s *session) Initialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.initialized
}

// SetSubscriptionFilter records what a listen asked for.
func (s *session) SetSubscriptionFilter(f mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = f
}

// SubscriptionFilter is inactive for a legacy client only: a modern one gets
// nothing outside of its streams.
func (s *session) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.listenID == nil:
		return mcp.SubscriptionFilter{}, !s.legacy
	case !s.acked:
		return mcp.SubscriptionFilter{}, true
	}
	return s.filter, true
}

// SubscribeToResourceErr accepts what is there and what may come.
func (s *session) SubscribeToResourceErr(uri string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.HasPrefix(uri, scheme) {
		return fmt.Errorf("resources of this server begin with %s", scheme)
	}
	if len(s.uris) >= maxURIs {
		return fmt.Errorf("more than %d subscriptions", maxURIs)
	}
	s.uris[uri] = struct{}{}
	return nil
}

// SubscribeToResource is not called by mcp-go, which prefers the method above.
func (s *session) SubscribeToResource(uri string) { _ = s.SubscribeToResourceErr(uri) }

// UnsubscribeFromResource forgets a URI.
func (s *session) UnsubscribeFromResource(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uris, uri)
}

// SubscribedResources is a copy, sorted.
func (s *session) SubscribedResources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.uris))
}

// IsSubscribedToResource says whether updates of the URI are to be sent now.
func (s *session) IsSubscribedToResource(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.uris[uri]
	return ok && (s.listenID == nil || s.acked)
}
