package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Subscribe tracks a resource in addition to the resources selected by the config, until
// Unsubscribe is called or the session ends. Updates of the resource are published like all others,
// and its cached content is kept current. Subscribe returns once the server has agreed. If the
// resource is already subscribed to or tracked, no request is sent. If the server does not support
// subscriptions, Subscribe sends nothing and returns an [*UnsupportedError]; if the server supports
// them but has no channel to push updates, the resource is polled. If ctx ends before the server
// has answered, use Subscribed to find out the outcome.
func (c *Client) Subscribe(ctx context.Context, uri string) error {
	if uri == "" {
		return errors.New("subscribe: no URI")
	}
	return c.changeSubscription(ctx, &subscriptionRequest{uri: uri, owner: c.owner, subscribe: true, done: make(chan error, 1)})
}

// Unsubscribe ends a subscription made by Subscribe; if there is none, it does nothing. A resource
// selected by the config, or subscribed to by another owner, remains tracked.
func (c *Client) Unsubscribe(ctx context.Context, uri string) error {
	return c.changeSubscription(ctx, &subscriptionRequest{uri: uri, owner: c.owner, done: make(chan error, 1)})
}

// UnsubscribeAll ends all subscriptions of the client's owner. It does not wait for the server.
func (c *Client) UnsubscribeAll(ctx context.Context) error {
	return c.changeSubscription(ctx, &subscriptionRequest{owner: c.owner, all: true, done: make(chan error, 1)})
}

// Subscribed reports whether the resource is subscribed to in the live session as a result of
// Subscribe, by any owner.
func (c *Client) Subscribed(uri string) bool {
	_, ok := slices.BinarySearch(c.subscriptions(), uri)
	return ok
}

// Subscriptions returns the sorted URIs that are subscribed to in the live session as a result of
// Subscribe. For all tracked resources, see [status.ServerStatus.Resources].
func (c *Client) Subscriptions() []string { return slices.Clone(c.subscriptions()) }

func (c *Client) subscriptions() []string {
	conn, err := c.t.live(c.server)
	if err != nil {
		return nil
	}
	return *conn.subscriptions.Load()
}

// subscriptionRequest is a client's request to change the subscriptions.
type subscriptionRequest struct {
	uri       string
	owner     any
	subscribe bool
	all       bool       // unsubscribe from everything; uri is empty
	done      chan error // receives one result; capacity 1, so that the worker never blocks
}

func (c *Client) changeSubscription(ctx context.Context, q *subscriptionRequest) error {
	conn, err := c.t.connection(ctx, c.server)
	if err != nil {
		return err
	}
	if caps := conn.s.Info().Capabilities; q.subscribe && !(caps.Resources && caps.ResourcesSubscribe) {
		return &UnsupportedError{"resource subscriptions"}
	}
	over := fmt.Errorf("%w: %s", ErrNotConnected, printable.Line(c.server, 128))
	select {
	case conn.changes <- q:
	case <-conn.ended:
		return over
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-q.done:
		return err
	case <-conn.ended:
		return over
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// clientSubscriptions manages the resource subscriptions made by clients in one session.
type clientSubscriptions struct {
	conn *connection

	wanted  map[string]bool         // by URI; true once the server has agreed
	owners  map[string]map[any]bool // the owners that asked for each of them
	waiting []*subscriptionRequest  // requests to be handled by the next sync
	syncing []*subscriptionRequest  // requests handled by the running sync
}

// uris returns the sorted URIs that clients want to be subscribed to.
func (c *clientSubscriptions) uris() []string { return sortedKeys(c.wanted) }

// begin assigns the waiting requests to the sync that is about to start.
func (c *clientSubscriptions) begin() {
	c.syncing, c.waiting = append(c.syncing, c.waiting...), nil
}

// changeSubscription handles a client's request to subscribe or unsubscribe: it answers the request
// immediately, or leaves it to the next sync.
func (f *sessionFollower) changeSubscription(q *subscriptionRequest) {
	c, cov := &f.clients, &f.coverage
	if q.all {
		f.unsubscribeAll(q.owner)
		q.done <- nil
		return
	}
	agreed, known := c.wanted[q.uri]
	if q.subscribe {
		c.own(q.uri, q.owner)
	} else if c.disown(q.uri, q.owner); len(c.owners[q.uri]) > 0 {
		q.done <- nil
		return
	}
	switch {
	case q.subscribe && known && agreed, !q.subscribe && !known:
		q.done <- nil
		return
	case q.subscribe && has(cov.asked, q.uri) && !has(cov.missing, q.uri) && !f.syncs.running && f.syncs.pending.empty():
		c.wanted[q.uri] = true // the server already pushes updates of the resource
		c.announce()
		q.done <- nil
		return
	case q.subscribe:
		c.wanted[q.uri] = false
	default:
		delete(c.wanted, q.uri)
		if agreed {
			c.announce()
		}
		if contains(f.offered(), q.uri) { // the config selects the resource
			q.done <- nil
			return
		}
	}
	c.waiting = append(c.waiting, q)
	f.syncs.pending.merge(syncRequest{subscribe: true})
}

func (f *sessionFollower) unsubscribeAll(owner any) {
	c, changed := &f.clients, false
	for uri, agreed := range c.wanted {
		if c.disown(uri, owner); len(c.owners[uri]) > 0 {
			continue
		}
		delete(c.wanted, uri)
		changed = changed || agreed
		f.syncs.pending.merge(syncRequest{subscribe: true})
	}
	if changed {
		c.announce()
	}
}

// own records that an owner asked for a resource.
func (c *clientSubscriptions) own(uri string, owner any) {
	if c.owners[uri] == nil {
		c.owners[uri] = map[any]bool{}
	}
	c.owners[uri][owner] = true
}

// disown records that an owner does not ask for a resource any longer.
func (c *clientSubscriptions) disown(uri string, owner any) {
	if delete(c.owners[uri], owner); len(c.owners[uri]) == 0 {
		delete(c.owners, uri)
	}
}

// answer answers the requests handled by a finished sync. It reports whether another sync is needed
// to unsubscribe from resources that were refused.
func (c *clientSubscriptions) answer(r syncResult, cov *coverage) (again bool) {
	changed := false
	errs := make([]error, len(c.syncing))
	for i, q := range c.syncing {
		if !q.subscribe {
			continue // an unsubscribe request succeeds regardless of the server's response
		}
		agreed, known := c.wanted[q.uri]
		var err error
		switch {
		case !known:
			err = errors.New("unsubscribed meanwhile")
		case agreed:
		case isUnsupported(r.subscribe):
			err = &UnsupportedError{"resource subscriptions"}
		case r.subscribe != nil:
			err = r.subscribe
		case has(cov.missing, q.uri) && cov.mode == event.Push:
			err = errors.New("the server refuses to push updates of the resource")
		default:
			c.wanted[q.uri] = true
			changed = true
		}
		if err != nil {
			if _, unsupported := errors.AsType[*UnsupportedError](err); !unsupported {
				err = fmt.Errorf("subscribe to %q: %w", printable.Line(q.uri, 300), err)
			}
			if known {
				delete(c.wanted, q.uri)
				delete(c.owners, q.uri)
				again = true
			}
		}
		errs[i] = err
	}
	if changed {
		c.announce()
	}
	for i, q := range c.syncing {
		q.done <- errs[i]
	}
	c.syncing = nil
	return again
}

// announce publishes the URIs that clients are subscribed to.
func (c *clientSubscriptions) announce() {
	uris := make([]string, 0, len(c.wanted))
	for _, uri := range c.uris() {
		if c.wanted[uri] {
			uris = append(uris, uri)
		}
	}
	c.conn.subscriptions.Store(&uris)
	c.conn.t.store.publish(event.Event{ServerID: c.conn.server, Payload: event.SubscriptionsChanged{URIs: uris}})
}

// end ends all subscriptions because the session ends, and publishes this if there were any.
func (c *clientSubscriptions) end() {
	clear(c.wanted)
	clear(c.owners)
	if len(*c.conn.subscriptions.Load()) > 0 {
		c.announce()
	}
}
