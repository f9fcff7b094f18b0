package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Subscribe tracks a resource in addition to the ones that the config selects, until the session
// ends or Unsubscribe is called: its updates are published like all others, and its
// cached content is kept current. It returns once the server has agreed. If the resource is
// already subscribed to or tracked, no request is sent. If the server does not support
// subscriptions, the error is an [*UnsupportedError] and nothing is sent; a server that
// supports them but has no channel to push on is polled. If ctx ends before the server has
// answered, Subscribed reports the outcome.
func (c *Client) Subscribe(ctx context.Context, uri string) error {
	if uri == "" {
		return errors.New("subscribe: no URI")
	}
	return c.changeSubscription(ctx, &subscriptionRequest{uri: uri, subscribe: true, done: make(chan error, 1)})
}

// Unsubscribe ends a subscription made by Subscribe; without one it does nothing. A resource
// that the config selects stays tracked.
func (c *Client) Unsubscribe(ctx context.Context, uri string) error {
	return c.changeSubscription(ctx, &subscriptionRequest{uri: uri, done: make(chan error, 1)})
}

// Subscribed reports whether the resource is subscribed to in the live session, because
// of Subscribe.
func (c *Client) Subscribed(uri string) bool {
	_, ok := slices.BinarySearch(c.subscriptions(), uri)
	return ok
}

// Subscriptions returns the resources that are subscribed to in the live session because
// of Subscribe, sorted. [status.ServerStatus.Resources] has the tracked resources.
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
	subscribe bool
	done      chan error // receives one answer; capacity 1, so that the worker never waits
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

// clientSubscriptions are the subscriptions of clients to resources in one session.
type clientSubscriptions struct {
	conn *connection

	wanted  map[string]bool        // by URI; true once the server has agreed
	waiting []*subscriptionRequest // for the next sync
	syncing []*subscriptionRequest // for the sync that is running
}

// uris returns the URIs that clients want to be subscribed to, sorted.
func (c *clientSubscriptions) uris() []string { return sortedKeys(c.wanted) }

// begin hands the waiting requests to the sync that begins now.
func (c *clientSubscriptions) begin() {
	c.syncing, c.waiting = append(c.syncing, c.waiting...), nil
}

// changeSubscription handles the request of a client to subscribe or unsubscribe: it answers it, or
// leaves that to the next sync.
func (f *sessionFollower) changeSubscription(q *subscriptionRequest) {
	c, cov := &f.clients, &f.coverage
	agreed, known := c.wanted[q.uri]
	switch {
	case q.subscribe && known && agreed, !q.subscribe && !known:
		q.done <- nil
		return
	case q.subscribe && has(cov.asked, q.uri) && !has(cov.missing, q.uri) && !f.syncs.running && f.syncs.pending.empty():
		c.wanted[q.uri] = true // the server already pushes its updates
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
		if contains(f.offered(), q.uri) { // the config selects it
			q.done <- nil
			return
		}
	}
	c.waiting = append(c.waiting, q)
	f.syncs.pending.merge(syncRequest{subscribe: true})
}

// answer answers the requests of a finished sync. It reports whether another sync has to
// unsubscribe from refused resources.
func (c *clientSubscriptions) answer(r syncResult, cov *coverage) (again bool) {
	changed := false
	errs := make([]error, len(c.syncing))
	for i, q := range c.syncing {
		if !q.subscribe {
			continue // the client has unsubscribed, whatever the server did
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

// end ends all subscriptions with the session, and publishes that if there were any.
func (c *clientSubscriptions) end() {
	clear(c.wanted)
	if len(*c.conn.subscriptions.Load()) > 0 {
		c.announce()
	}
}
