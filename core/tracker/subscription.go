package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Subscribe tracks a resource in addition to those that the config selects, until the session
// ends or Unsubscribe is called: its updates are published like those of the others, and its
// cached content is kept current. It returns once the server has agreed. If the resource is
// already subscribed to or tracked, no request is sent. If the server does not support
// subscriptions, the error is an [*UnsupportedError] and nothing is sent; a server that
// supports them but has no channel to push on is polled. If ctx ends before the server has
// answered, Subscribed reports the outcome.
func (c *Client) Subscribe(ctx context.Context, uri string) error {
	if uri == "" {
		return errors.New("subscribe: no URI")
	}
	return c.request(ctx, &subscriptionRequest{uri: uri, subscribe: true, done: make(chan error, 1)})
}

// Unsubscribe ends a subscription made by Subscribe; without one it does nothing. A resource
// that the config selects stays tracked.
func (c *Client) Unsubscribe(ctx context.Context, uri string) error {
	return c.request(ctx, &subscriptionRequest{uri: uri, done: make(chan error, 1)})
}

// Subscribed reports whether the resource is subscribed to in the live session, because
// of Subscribe.
func (c *Client) Subscribed(uri string) bool {
	_, ok := slices.BinarySearch(c.subscriptions(), uri)
	return ok
}

// Subscriptions returns the resources that are subscribed to in the live session because
// of Subscribe, sorted. Those that are tracked are in [status.Server.Resources].
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

func (c *Client) request(ctx context.Context, q *subscriptionRequest) error {
	conn, err := c.connection(ctx)
	if err != nil {
		return err
	}
	if caps := conn.s.Info().Capabilities; q.subscribe && !(caps.Resources && caps.ResourcesSubscribe) {
		return &UnsupportedError{whatSubscriptions}
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
