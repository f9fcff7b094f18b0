package tracker

import (
	"errors"
	"fmt"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// clientSubscriptions are the resources that clients subscribe to in one session.
type clientSubscriptions struct {
	conn    *connection
	publish func(event.Payload)

	wanted  map[string]bool        // true once the server has agreed
	waiting []*subscriptionRequest // for the next sync
	syncing []*subscriptionRequest // for the sync that is running
}

// uris returns what is wanted, sorted.
func (c *clientSubscriptions) uris() []string { return sortedKeys(c.wanted) }

// change takes in a request. It reports whether a sync has to answer it. covered
// reports whether the server pushes updates of the resource already, and selected
// whether the config selects it.
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

// begin notes that a sync begins, which will answer the requests so far.
func (c *clientSubscriptions) begin() {
	c.syncing, c.waiting = append(c.syncing, c.waiting...), nil
}

// answer answers the requests of a sync. It reports whether another sync has to
// unsubscribe from what was refused.
func (c *clientSubscriptions) answer(r syncResult, cov *coverage) (again bool) {
	changed := false
	errs := make([]error, len(c.syncing))
	for i, q := range c.syncing {
		if !q.subscribe {
			continue // its events have ended, whatever the server does
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
			err = errors.New("the server refuses to push its updates")
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

// announce publishes what clients are subscribed to.
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

// end forgets everything because the session ended, and publishes that nothing is
// subscribed to any more, if anything was.
func (c *clientSubscriptions) end() {
	clear(c.wanted)
	if len(*c.conn.subscriptions.Load()) > 0 {
		c.announce()
	}
}
