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

// Client is one server of a tracker, as somebody uses it who looks at it: requests
// in the live session, whose answers are kept and told, and subscriptions. It has
// no state of its own: any number of Clients of one server are one and the same.
//
// Every request goes to the server; what it brought last is in [Client.Cache], and
// an event tells of it. Of what is kept there, what is followed (by the config or by
// a subscription) is read again when the server announces an update. All that is
// kept, and all subscriptions, end with the session: the tracker reconnects and
// follows what the config names, but does not subscribe again for a Client.
//
// [Tracker.CallTool] and its siblings are for those who only pass things on: they
// keep and tell nothing.
type Client struct {
	t      *Tracker
	server string
}

// Client returns the client of the server with the id, whether it is known yet or
// not.
func (t *Tracker) Client(server string) *Client { return &Client{t, server} }

// Cache returns what is kept of the server.
func (c *Client) Cache() cache.View { return c.t.kept.View(c.server) }

// CacheStats returns how full the cache of all clients is.
func (t *Tracker) CacheStats() cache.Stats { return t.kept.Stats() }

// UnsupportedError is the error for what a server does not offer. Nothing was sent.
// errors.Is finds [session.ErrUnsupported] in it.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return "Server does not support " + e.What }

// Is implements the errors.Is protocol.
func (e *UnsupportedError) Is(target error) bool { return target == session.ErrUnsupported }

const whatSubscriptions = "resource subscriptions"

// connection is what a Client needs of one session: the follower makes it and ends
// it with the session.
type connection struct {
	s     *session.Session
	shelf *cache.Shelf

	// asks are taken by the follower, until it has closed ended. No capacity: who
	// asks knows that it was taken.
	asks  chan *ask
	ended chan struct{}

	// subscriptions are the URIs that clients are subscribed to, sorted; the follower
	// replaces the slice and nobody changes it.
	subscriptions atomic.Pointer[[]string]

	errands errands

	// telling orders what is kept and the events about it. It is held for no I/O.
	telling sync.Mutex
}

func newConnection(kept *cache.Store, server string, s *session.Session) *connection {
	c := &connection{s: s, shelf: kept.Open(server), asks: make(chan *ask), ended: make(chan struct{})}
	c.subscriptions.Store(new([]string))
	return c
}

// connection returns that of the live session.
func (c *Client) connection() (*connection, error) { return c.t.connection(c.server) }

// offering is connection for a server that offers the lists of the kind.
func (c *Client) offering(k catalog.Kind) (*connection, error) {
	conn, err := c.connection()
	if err == nil && !conn.s.Info().Capabilities.Has(k) {
		return nil, &UnsupportedError{string(k)}
	}
	return conn, err
}

// maxRereads is how often a resource is read that keeps changing while it is.
const maxRereads = 3

// fetched is what a read brought and where it is to be kept.
type fetched struct {
	c    *Client
	conn *connection
	kind catalog.Kind // resources, or templates
	name string       // the URI, or the template
}

// read asks for the resource until no update was announced meanwhile.
func (q fetched) read(ctx context.Context, uri string, params map[string]string) (cache.Resource, error) {
	for try := 1; ; try++ {
		f := q.conn.shelf.Fetch(q.kind, q.name, uri)
		content, err := errand(q.conn, func(s *session.Session) (*session.Content, error) { return s.Read(ctx, uri) })
		if err != nil {
			f.Cancel()
			if errors.Is(err, session.ErrNotFound) {
				q.conn.shelf.Gone(uri)
			}
			return cache.Resource{}, err
		}
		r := newResource(uri, content)
		if q.kind == catalog.Templates {
			r.Template, r.Params = q.name, params
		}
		if q.keep(f, r) == cache.Outdated && try < maxRereads {
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

// keep stores what was read and tells it.
func (q fetched) keep(f *cache.Fetch, r cache.Resource) cache.Outcome {
	q.conn.telling.Lock()
	defer q.conn.telling.Unlock()
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
		q.c.t.tellContent(q.c.server, "", previous, r)
	}
	return outcome
}

// tellContent publishes that a client has the content of a resource anew.
func (t *Tracker) tellContent(server string, cause event.Cause, was *cache.Resource, now cache.Resource) {
	p := event.ResourceContent{Template: now.Template, MimeType: now.MimeType, Size: now.Size, Digest: now.Digest}
	if now.Size <= t.opts.MaxText {
		now.Params = maps.Clone(now.Params) // those of the caller are his to change
		p.Content = &now
	}
	if was != nil {
		changed := was.Digest != now.Digest
		p.Changed, p.PreviousDigest = &changed, was.Digest
		if was.Size <= t.opts.MaxText {
			p.Previous = was
		}
	}
	// It tells nothing that is published as state: the last event about the resource
	// remains the one that told its change.
	t.store.publish(event.Event{ServerID: server, ResourceURI: now.URI, Cause: cause, Payload: p})
}

// List returns the last known list of the server, empty if none is known or
// followed. It outlives sessions.
func (c *Client) List(kind catalog.Kind) catalog.List {
	return slices.Clone(c.t.store.list(c.server, kind))
}

// Capabilities returns what the connected server says that it offers.
func (c *Client) Capabilities() (session.Capabilities, error) {
	conn, err := c.connection()
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
