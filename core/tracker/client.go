package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// A Client makes requests to one tracked server, caches the results and publishes them as events,
// and subscribes to resources. It is stateless: all Clients of one server with the same owner (see
// [Tracker.ClientOf]) are equivalent.
//
// Every request is sent to the server; the last results are available from [Client.Cache]. Cached
// resources that are tracked, because of the config or a subscription, are read again when the
// server announces an update. The cache and the subscriptions are discarded when the session ends:
// after reconnecting, the tracker tracks what the config selects, but does not restore the
// subscriptions of Clients.
//
// [Tracker.CallTool] and the similar methods of Tracker are meant for proxies: they neither cache
// nor publish anything.
type Client struct {
	t      *Tracker
	server string
	owner  any // owner of the subscriptions; comparable
}

// Client returns a client for the server with the given ID. The server need not be in the config
// yet.
func (t *Tracker) Client(server string) *Client { return t.ClientOf(server, nil) }

// ClientOf is like Client for one of several users of the tracker, each with a different owner,
// which must be comparable: a resource stays subscribed to until every owner has unsubscribed.
func (t *Tracker) ClientOf(server string, owner any) *Client { return &Client{t, server, owner} }

// Cache returns the cache of results for requests to the server.
func (c *Client) Cache() cache.View { return c.t.caches.View(c.server) }

// UnsupportedError is returned for a request that needs a feature the server does not offer. The
// request was not sent. It matches [session.ErrUnsupported] with errors.Is.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return "Server does not support " + e.What }

// Is makes errors.Is(err, session.ErrUnsupported) return true.
func (e *UnsupportedError) Is(target error) bool { return target == session.ErrUnsupported }

// List returns the last known version of a list; it is empty if the list is unknown or not tracked.
// It is kept when a session ends.
func (c *Client) List(kind catalog.Kind) catalog.List {
	return slices.Clone(c.t.store.list(c.server, kind))
}

// Item returns an item of the last known version of a list, or false if it is not in it.
func (c *Client) Item(kind catalog.Kind, key string) (catalog.Item, bool) {
	return c.t.store.list(c.server, kind).Get(key)
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

// ReadResource reads a resource from the server and caches its content. If an update is announced
// during the read, it reads the resource again, up to three times in total; content that is
// outdated even then is returned but not cached. A file of a tracked skill is verified: if it is not
// what the skill's entry says, skill.mismatch is published, and the error is a [*skill.Mismatch]. If the resource does not exist, it returns
// [session.ErrNotFound] and removes the cached content.
func (c *Client) ReadResource(ctx context.Context, uri string) (cache.Resource, error) {
	conn, err := c.offering(ctx, catalog.Resources)
	if err != nil {
		return cache.Resource{}, err
	}
	return conn.readCached(ctx, catalog.Resources, uri, uri, nil)
}

// CurrentResource returns the cached content if its digest matches and no update was announced;
// otherwise it calls ReadResource.
func (c *Client) CurrentResource(ctx context.Context, uri string, digest catalog.Digest) (cache.Resource, error) {
	if r, ok := c.Cache().Resource(uri); ok && !r.Stale && r.Digest == digest {
		return r, nil
	}
	return c.ReadResource(ctx, uri)
}

// ReadTemplate expands a URI template (RFC 6570), reads the resulting resource and caches its
// content under the template, together with the parameters; a later call replaces the entry.
// Variables without a parameter expand to nothing, as the RFC specifies. It returns an error if a
// parameter does not match a variable of the template, or if the server's list of templates is
// known and does not contain the template.
func (c *Client) ReadTemplate(ctx context.Context, template string, params map[string]string) (cache.Resource, error) {
	conn, err := c.offering(ctx, catalog.Templates)
	if err != nil {
		return cache.Resource{}, err
	}
	if list := c.List(catalog.Templates); len(list) > 0 {
		if _, ok := list.Get(template); !ok {
			return cache.Resource{}, fmt.Errorf("expand template %q: %w: the server does not list the template", printable.Line(template, 300), session.ErrNotFound)
		}
	}
	uri, err := uritemplate.Expand(template, params)
	if err != nil {
		return cache.Resource{}, err
	}
	return conn.readCached(ctx, catalog.Templates, template, uri, maps.Clone(params))
}

// GetPrompt retrieves a prompt from the server and caches it under its name, together with the
// arguments; a later call replaces the entry.
func (c *Client) GetPrompt(ctx context.Context, name string, args map[string]string) (cache.Prompt, error) {
	conn, err := c.offering(ctx, catalog.Prompts)
	if err != nil {
		return cache.Prompt{}, err
	}
	f := conn.cache.Fetch(catalog.Prompts, name, "")
	raw, err := do(conn, func(s *session.Session) (json.RawMessage, error) { return s.GetPrompt(ctx, name, args) })
	if err != nil {
		f.Cancel()
		return cache.Prompt{}, err
	}
	p := cache.NewPrompt(name, maps.Clone(args), raw, time.Now())
	conn.publishing.Lock()
	defer conn.publishing.Unlock()
	if o := f.Prompt(p); o == cache.Stored || o == cache.TooLarge {
		result := event.PromptContent{Name: name, Size: int64(len(raw))}
		if result.Size <= c.t.opts.MaxText {
			cached := p
			cached.Arguments = maps.Clone(p.Arguments) // because the caller may modify its map
			result.Prompt = &cached
		}
		c.t.store.publish(event.Event{ServerID: c.server, Payload: result})
	}
	return p, nil
}

// CallTool calls a tool and caches the result under the tool's name, even if the call failed. It
// returns an error if the call was rejected or not answered; a failure reported by the tool itself
// is returned as a result whose Success is false. For progress notifications, see
// [session.WithProgress]. If ctx ends, the call is cancelled on the server.
func (c *Client) CallTool(ctx context.Context, tool string, args map[string]any) (cache.ToolResult, error) {
	conn, err := c.offering(ctx, catalog.Tools)
	if err != nil {
		return cache.ToolResult{}, err
	}
	began := time.Now()
	f := conn.cache.Fetch(catalog.Tools, tool, "")
	raw, err := do(conn, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, tool, args) })
	failure, _ := conn.s.ToolFailure(raw)
	if err != nil {
		failure = errorLine(err)
		if errors.Is(err, context.Canceled) {
			failure = "cancelled"
		}
	}
	if args == nil {
		args = map[string]any{}
	}
	r := cache.NewToolResult(tool, args, raw, failure, time.Now())
	conn.publishing.Lock()
	defer conn.publishing.Unlock()
	if o := f.ToolResult(r); o == cache.Stored || o == cache.TooLarge {
		result := event.ToolResult{Name: tool, Success: r.Success, Error: r.Error, Duration: event.Milliseconds(r.Time.Sub(began))}
		if int64(len(raw)) <= c.t.opts.MaxText {
			cached := r
			result.Result = &cached
		}
		c.t.store.publish(event.Event{ServerID: c.server, Payload: result})
	}
	return r, err
}

// Complete requests completions for an argument of a prompt or a variable of a template. value is
// the beginning of the argument's value; given holds the arguments that are already known.
func (c *Client) Complete(ctx context.Context, ref session.Reference, argument, value string, given map[string]string) (session.Completion, error) {
	conn, err := c.t.connection(ctx, c.server)
	if err != nil {
		return session.Completion{}, err
	}
	if !conn.s.Info().Capabilities.Completions {
		return session.Completion{}, &UnsupportedError{"completions"}
	}
	return do(conn, func(s *session.Session) (session.Completion, error) {
		return s.Complete(ctx, ref, argument, value, given)
	})
}

// offering returns the connection of the live session, or an error if the server does not offer
// lists of the kind.
func (c *Client) offering(ctx context.Context, k catalog.Kind) (*connection, error) {
	conn, err := c.t.connection(ctx, c.server)
	if err == nil && !conn.s.Info().Capabilities.Has(k) {
		return nil, &UnsupportedError{string(k)}
	}
	return conn, err
}

// connection is the part of a session that clients use. The sessionFollower creates it, and closes
// it when the session ends.
type connection struct {
	t      *Tracker
	server string
	s      *session.Session
	cache  *cache.Session

	// changes passes requests to the sessionFollower, which receives until it closes ended. It is
	// unbuffered, so that no request is left in the channel unanswered.
	changes chan *subscriptionRequest
	ended   chan struct{}

	// subscriptions holds the sorted URIs that clients are subscribed to; the sessionFollower
	// replaces the slice and never modifies it.
	subscriptions atomic.Pointer[[]string]

	requests requests

	// publishing ensures that events about the cache are published in the order of the changes. It
	// is not held during I/O.
	publishing sync.Mutex
}

func newConnection(t *Tracker, server string, s *session.Session) *connection {
	c := &connection{t: t, server: server, s: s, cache: t.caches.Open(server), changes: make(chan *subscriptionRequest), ended: make(chan struct{})}
	c.subscriptions.Store(new([]string))
	return c
}

// maxRereads limits how often a resource is read if updates are announced during the read.
const maxRereads = 3

// readCached reads a resource and caches the content. It reads the resource again if an update was
// announced during the read. kind is Templates if the URI was expanded from a template, and
// Resources otherwise; name is the template or the URI.
func (c *connection) readCached(ctx context.Context, kind catalog.Kind, name, uri string, params map[string]string) (cache.Resource, error) {
	for try := 1; ; try++ {
		f := c.cache.Fetch(kind, name, uri)
		content, err := do(c, func(s *session.Session) (*session.Content, error) { return c.readSkill(ctx, s, uri) })
		if err != nil {
			f.Cancel()
			if errors.Is(err, session.ErrNotFound) {
				c.cache.Gone(uri)
			}
			return cache.Resource{}, err
		}
		r := newResource(uri, content)
		if kind == catalog.Templates {
			r.Template, r.Params = name, params
		}
		if c.storeResource(f, kind, name, r) == cache.Outdated && try < maxRereads {
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

// storeResource caches the content of a resource and publishes a corresponding event.
func (c *connection) storeResource(f *cache.Fetch, kind catalog.Kind, name string, r cache.Resource) cache.Outcome {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	view := c.t.caches.View(c.server)
	was, had := view.Resource(name)
	if kind == catalog.Templates {
		was, had = view.Template(name)
	}
	outcome := f.Resource(r)
	if outcome == cache.Stored || outcome == cache.TooLarge {
		previous := &was
		if !had || was.URI != r.URI {
			previous = nil
		}
		c.publishContent("", previous, r)
	}
	return outcome
}

// publishContent publishes the content of a resource that a client has read, or of a cached
// resource that was read again.
func (c *connection) publishContent(cause event.Cause, was *cache.Resource, now cache.Resource) {
	p := event.ResourceContent{Template: now.Template, MimeType: now.MimeType, Size: now.Size, Digest: now.Digest}
	if now.Size <= c.t.opts.MaxText {
		now.Params = maps.Clone(now.Params) // because the caller may modify its map
		p.Content = &now
	}
	if was != nil {
		changed := was.Digest != now.Digest
		p.Changed, p.PreviousDigest = &changed, was.Digest
		if was.Size <= c.t.opts.MaxText {
			p.Previous = was
		}
	}
	// The event does not become the last event in the resource's status, which must still describe
	// the last change.
	c.t.store.publish(event.Event{ServerID: c.server, ResourceURI: now.URI, Cause: cause, Payload: p})
}
