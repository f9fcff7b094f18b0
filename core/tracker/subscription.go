package tracker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Subscribe follows a resource beside those that the config names, until the
// session ends or Unsubscribe is called: its updates are told as those of the others
// are, and what is kept of it is read again. It returns once the server has agreed.
// What is subscribed to already, or followed by the config, costs no request. A
// server without subscriptions gives an [*UnsupportedError], and nothing is sent; one
// that could agree but has no channel to push on is polled. When ctx ends before the
// server has answered, Subscribed tells what became of it.
func (c *Client) Subscribe(ctx context.Context, uri string) error {
	if uri == "" {
		return errors.New("subscribe: no URI")
	}
	return c.ask(ctx, &ask{uri: uri, subscribe: true, done: make(chan error, 1)})
}

// Unsubscribe ends what Subscribe began, and is fine with there being nothing to
// end. What the config follows is followed on.
func (c *Client) Unsubscribe(ctx context.Context, uri string) error {
	return c.ask(ctx, &ask{uri: uri, done: make(chan error, 1)})
}

// Subscribed reports whether Subscribe has subscribed to the resource in the live
// session.
func (c *Client) Subscribed(uri string) bool {
	_, ok := slices.BinarySearch(c.subscriptions(), uri)
	return ok
}

// Subscriptions returns what Subscribe has subscribed to in the live session,
// sorted. What the config follows is in [ServerStatus.Resources].
func (c *Client) Subscriptions() []string { return slices.Clone(c.subscriptions()) }

func (c *Client) subscriptions() []string {
	conn, err := c.connection()
	if err != nil {
		return nil
	}
	return *conn.subscriptions.Load()
}

// ask is what a client wants to be changed of the subscriptions.
type ask struct {
	uri       string
	subscribe bool
	done      chan error // the follower sends one answer; capacity 1, so that it never waits
}

func (c *Client) ask(ctx context.Context, q *ask) error {
	conn, err := c.connection()
	if err != nil {
		return err
	}
	if caps := conn.s.Info().Capabilities; q.subscribe && !(caps.Resources && caps.ResourcesSubscribe) {
		return &UnsupportedError{whatSubscriptions}
	}
	over := fmt.Errorf("%w: %s", ErrNotConnected, printable.Line(c.server, 128))
	select {
	case conn.asks <- q:
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

// asked takes in what a client wants. What needs the server waits for the next walk.
func (f *follower) asked(q *ask) {
	granted, known := f.wanted[q.uri]
	_, pushed := f.followed[q.uri]
	_, missing := f.missing[q.uri]
	switch {
	case q.subscribe && known && granted, !q.subscribe && !known:
		q.done <- nil
		return
	case q.subscribe && pushed && !missing && !f.syncing && f.todo.empty():
		f.wanted[q.uri] = true // the config follows it already
		f.tellSubscriptions()
		q.done <- nil
		return
	case q.subscribe:
		f.wanted[q.uri] = false
	default:
		delete(f.wanted, q.uri)
		if granted {
			f.tellSubscriptions()
		}
		if _, followed := f.target()[q.uri]; followed {
			q.done <- nil // by the config
			return
		}
	}
	f.asks = append(f.asks, q)
	f.todo.merge(demand{subscribe: true})
}

// answer tells who asked what the walk has come to, after everybody else.
func (f *follower) answer(a syncAnswer) {
	changed := false
	errs := make([]error, len(a.job.asks))
	for i, q := range a.job.asks {
		if !q.subscribe {
			continue // from here on it is silent, whatever the server does
		}
		granted, known := f.wanted[q.uri]
		_, missing := f.missing[q.uri]
		var err error
		switch {
		case !known:
			err = errors.New("unsubscribed meanwhile")
		case granted:
		case isUnsupported(a.subscribe):
			err = &UnsupportedError{whatSubscriptions}
		case a.subscribe != nil:
			err = a.subscribe
		case missing && f.mode == event.Push:
			err = errors.New("the server refuses to push its updates")
		default:
			f.wanted[q.uri] = true
			changed = true
		}
		if err != nil {
			if _, unsupported := errors.AsType[*UnsupportedError](err); !unsupported {
				err = fmt.Errorf("subscribe to %q: %w", printable.Line(q.uri, 300), err)
			}
			if known {
				delete(f.wanted, q.uri)
				f.todo.merge(demand{subscribe: true})
			}
		}
		errs[i] = err
	}
	if changed {
		f.tellSubscriptions()
	}
	for i, q := range a.job.asks {
		q.done <- errs[i]
	}
}

// tellSubscriptions publishes what clients are subscribed to.
func (f *follower) tellSubscriptions() {
	uris := make([]string, 0, len(f.wanted))
	for uri, granted := range f.wanted {
		if granted {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	f.conn.subscriptions.Store(&uris)
	f.w.t.store.publish(event.Event{ServerID: f.w.id, Payload: event.SubscriptionsChanged{URIs: uris}})
}

// withWanted adds what clients want to what the config names. Both are sorted, and
// so is the result.
func withWanted(uris []string, wanted map[string]bool) []string {
	if len(wanted) == 0 {
		return uris
	}
	uris = slices.AppendSeq(slices.Clone(uris), maps.Keys(wanted))
	slices.Sort(uris)
	return slices.Compact(uris)
}

// connect opens the session to clients.
func (f *follower) connect() {
	f.w.following = f
	f.w.conn.Store(f.conn)
}

// disconnect ends what clients have of the session: what is kept is forgotten, and
// that nothing is subscribed to any more is told, if anything was.
func (f *follower) disconnect() {
	f.w.following = nil
	f.w.conn.Store(nil)
	close(f.conn.ended)
	f.conn.telling.Lock()
	defer f.conn.telling.Unlock()
	f.conn.shelf.Close()
	clear(f.wanted)
	if len(*f.conn.subscriptions.Load()) > 0 {
		f.tellSubscriptions()
	}
}
