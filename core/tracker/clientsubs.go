package tracker

import (
	"errors"
	"fmt"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// clientSubscriptions are the subscriptions of clients to resources in one session.
type clientSubscriptions struct {
	conn    *connection
	publish func(event.Payload)

	wanted  map[string]bool        // by URI; true once the server has agreed
	waiting []*subscriptionRequest // for the next sync
	syncing []*subscriptionRequest // for the sync that is running
}

// uris returns the URIs that clients want to be subscribed to, sorted.
func (c *clientSubscriptions) uris() []string { return sortedKeys(c.wanted) }

// change handles a request. It reports whether a sync has to answer it. covered reports whether
// the server already pushes updates of a resource, and selected whether the config selects it.
func (c *clientSubscriptions) change(q *subscriptionRequest, covered, selected func(uri string) bool) (sync bool) {
	agreed, known := c.wanted[q.uri]
	switch {
	case q.subscribe && known && agreed, !q.subscribe && !known:
		q.done <- nil
		return false
	case q.subscribe && covered(q.uri):
		c.wanted[q.uri] = true
		c.announce()
		q.done <- nil
		return false
	case q.subscribe:
		c.wanted[q.uri] = false
	default:
		delete(c.wanted, q.uri)
		if agreed {
			c.announce()
		}
		if selected(q.uri) {
			q.done <- nil
			return false
		}
	}
	c.waiting = append(c.waiting, q)
	return true
}

// begin marks the waiting requests as those that the sync that now begins will answer.
func (c *clientSubscriptions) begin() {
	c.syncing, c.waiting = append(c.syncing, c.waiting...), nil
}

// answer answers the requests of a finished sync. It reports whether another sync has to
// unsubscribe from resources that were refused.
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
			err = &UnsupportedError{whatSubscriptions}
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
	c.publish(event.SubscriptionsChanged{URIs: uris})
}

// end ends all subscriptions with the session, and publishes that if there were any.
func (c *clientSubscriptions) end() {
	clear(c.wanted)
	if len(*c.conn.subscriptions.Load()) > 0 {
		c.announce()
	}
}
