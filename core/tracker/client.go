package tracker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// A Client makes requests to one tracked server, caches the results and publishes them
// as events, and subscribes to resources. It has no state of its own: all Clients of
// one server are equivalent.
//
// Every request goes to the server; its last result is in [Client.Cache]. Cached resources that
// are tracked, because of the config or a subscription, are read again when the server
// announces an update of them. The cache and the subscriptions end with the session: the
// tracker reconnects and tracks what the config selects, but does not subscribe again for a
// Client.
//
// [Tracker.CallTool] and its siblings are for passing results on: they neither cache
// nor publish anything.
type Client struct {
	t      *Tracker
	server string
}

// Client returns a client of the server with that ID. The server may become known later.
func (t *Tracker) Client(server string) *Client { return &Client{t, server} }

// Cache returns the cached results of requests to the server.
func (c *Client) Cache() cache.View { return c.t.caches.View(c.server) }

// UnsupportedError is the error for a request for something that the server does not offer.
// Nothing was sent. errors.Is finds [session.ErrUnsupported] in it.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return "Server does not support " + e.What }

// Is implements the errors.Is protocol.
func (e *UnsupportedError) Is(target error) bool { return target == session.ErrUnsupported }

const whatSubscriptions = "resource subscriptions"

// connection is the part of a session that clients use. The follower creates it and ends it
// with the session.
type connection struct {
	s     *session.Session
	cache *cache.Session

	// changes carries requests to the follower, which receives until it closes ended. It has no
	// capacity, so that no request is sent that the follower will not receive.
	changes chan *subscriptionRequest
	ended   chan struct{}

	// subscriptions are the URIs that clients are subscribed to, sorted; the follower replaces
	// the slice and never modifies it.
	subscriptions atomic.Pointer[[]string]

	requests requests

	// publishing keeps the events about the cache in the order of its changes. It is
	// not held across I/O.
	publishing sync.Mutex
}

func newConnection(caches *cache.Store, server string, s *session.Session) *connection {
	c := &connection{s: s, cache: caches.Open(server), changes: make(chan *subscriptionRequest), ended: make(chan struct{})}
	c.subscriptions.Store(new([]string))
	return c
}

// connection returns the connection of the live session. See [Tracker.connection].
func (c *Client) connection(ctx context.Context) (*connection, error) {
	return c.t.connection(ctx, c.server)
}

// offering is like connection, and fails unless the server offers lists of the kind.
func (c *Client) offering(ctx context.Context, k catalog.Kind) (*connection, error) {
	conn, err := c.connection(ctx)
	if err == nil && !conn.s.Info().Capabilities.Has(k) {
		return nil, &UnsupportedError{string(k)}
	}
	return conn, err
}

// maxRereads bounds how often a resource is read if updates are announced while it is read.
const maxRereads = 3

// fetch is a read whose result will be cached.
type fetch struct {
	c    *Client
	conn *connection
	kind catalog.Kind // Resources, or Templates if the URI came from a template
	name string       // the URI, or the template
}

// read reads the resource, and reads it again if an update was announced meanwhile.
func (q fetch) read(ctx context.Context, uri string, params map[string]string) (cache.Resource, error) {
	for try := 1; ; try++ {
		f := q.conn.cache.Fetch(q.kind, q.name, uri)
		content, err := do(q.conn, func(s *session.Session) (*session.Content, error) { return s.Read(ctx, uri) })
		if err != nil {
			f.Cancel()
			if errors.Is(err, session.ErrNotFound) {
				q.conn.cache.Gone(uri)
			}
			return cache.Resource{}, err
		}
		r := newResource(uri, content)
		if q.kind == catalog.Templates {
			r.Template, r.Params = q.name, params
		}
		if q.store(f, r) == cache.Outdated && try < maxRereads {
			continue
		}
		return r, nil
	}
}

func newResource(uri string, c *session.Content) cache.Resource {
	r := cache.NewResource(uri, c.Raw, time.Now())
	r.Digest, r.Size, r.MimeType = c.Digest, c.Size, c.MimeType
	return r
}

// store caches the result and publishes it.
func (q fetch) store(f *cache.Fetch, r cache.Resource) cache.Outcome {
	q.conn.publishing.Lock()
	defer q.conn.publishing.Unlock()
	was, had := q.c.Cache().Resource(q.name)
	if q.kind == catalog.Templates {
		was, had = q.c.Cache().Template(q.name)
	}
	outcome := f.Resource(r)
	if outcome == cache.Stored || outcome == cache.TooLarge {
		previous := &was
		if !had || was.URI != r.URI {
			previous = nil
		}
		q.c.t.publishContent(q.c.server, "", previous, r)
	}
	return outcome
}

// publishContent publishes the content of a resource that a client read.
func (t *Tracker) publishContent(server string, cause event.Cause, was *cache.Resource, now cache.Resource) {
	p := event.ResourceContent{Template: now.Template, MimeType: now.MimeType, Size: now.Size, Digest: now.Digest}
	if now.Size <= t.opts.MaxText {
		now.Params = maps.Clone(now.Params) // the caller may change its own map
		p.Content = &now
	}
	if was != nil {
		changed := was.Digest != now.Digest
		p.Changed, p.PreviousDigest = &changed, was.Digest
		if was.Size <= t.opts.MaxText {
			p.Previous = was
		}
	}
	// The event does not change the published state: it is not the resource's last event, which
	// still describes its last change.
	t.store.publish(event.Event{ServerID: server, ResourceURI: now.URI, Cause: cause, Payload: p})
}

// List returns the last known list of the server, empty if none is known or tracked. It is kept
// when a session ends.
func (c *Client) List(kind catalog.Kind) catalog.List {
	return slices.Clone(c.t.store.list(c.server, kind))
}

// CurrentList lists the server now, which changes neither [Client.List] nor when the server is
// listed next.
func (c *Client) CurrentList(ctx context.Context, kind catalog.Kind) (catalog.List, error) {
	conn, err := c.offering(ctx, kind)
	if err != nil {
		return nil, err
	}
	return do(conn, func(s *session.Session) (catalog.List, error) { return s.List(ctx, kind) })
}

// Capabilities returns the capabilities that the connected server declares.
func (c *Client) Capabilities() (session.Capabilities, error) {
	conn, err := c.t.live(c.server)
	if err != nil {
		return session.Capabilities{}, err
	}
	return conn.s.Info().Capabilities, nil
}

// SupportsSubscriptions reports whether the server is connected and offers
// subscriptions to resources.
func (c *Client) SupportsSubscriptions() bool {
	caps, err := c.Capabilities()
	return err == nil && caps.Resources && caps.ResourcesSubscribe
}
