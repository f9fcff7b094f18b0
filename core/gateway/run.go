package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/bus"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// When the catalog is merged again after a change. A storm costs no more than a
// part of one processor; a single change waits for its companions only.
const (
	quiet    = 20 * time.Millisecond  // after the last change
	most     = 200 * time.Millisecond // after the first
	costs    = 4                      // a merge begins no sooner than so many times its duration after the last
	lookOver = 30 * time.Second       // a look without a reason, and who is still subscribed
)

// Run keeps what is served equal to what the tracker knows until ctx ends or the
// tracker's events do. It returns the cause, or nil, when everything that it
// started has ended. It may be called once.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{g: g, ctx: ctx, away: map[string]time.Time{}, checked: map[string]map[catalog.Kind]checked{}, pins: map[target]catalog.Digest{}}
	defer l.tasks.Wait()
	defer cancel()
	defer l.stopAPIs()
	for {
		snap, sub := g.tracker.Subscribe(ctx)
		l.merge(snap)
		if err := l.follow(sub); !errors.Is(err, bus.ErrLagged) {
			return err
		}
		g.updatedAll() // nobody knows what of it
	}
}

// loop is the state of Run.
type loop struct {
	g     *Gateway
	ctx   context.Context
	tasks sync.WaitGroup

	ready   map[string]bool      // servers that are up
	away    map[string]time.Time // those that are not, since when
	checked map[string]map[catalog.Kind]checked
	refused map[Refusal]struct{} // of the last merge
	pins    map[target]catalog.Digest
	broken  []config.Server // HTTP catalogs that cannot be followed, told once

	restated    bool      // a server's state changed since
	first, last time.Time // changes that are not merged yet; zero: none
	done        time.Time // of the last merge
	cost        time.Duration
	nextLook    time.Time
}

// checked is a list after its items were checked.
type checked struct {
	list    []catalog.Item
	items   []item
	refused []Refusal
}

func (l *loop) follow(sub *bus.Subscription) error {
	// Sent to and closed by the goroutine below. No capacity: the subscription is
	// the queue. This loop receives until it is closed.
	batches := make(chan []*event.Event)
	l.tasks.Go(func() {
		defer close(batches)
		for batch := sub.Next(); batch != nil; batch = sub.Next() {
			batches <- batch
		}
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(l.due()))
		select {
		case batch, ok := <-batches:
			if !ok {
				return sub.Err()
			}
			for _, e := range batch {
				l.event(e)
			}
		case <-l.g.kicks:
			l.changed()
		case <-l.g.demands:
			l.followDemand()
		case done := <-l.g.flushes:
			l.merge(l.g.tracker.Snapshot())
			close(done)
		case now := <-timer.C:
			if due := l.due(); now.Before(due) {
				continue
			}
			l.merge(l.g.tracker.Snapshot())
		}
	}
}

// due is when to merge next.
func (l *loop) due() time.Time {
	due := l.nextLook
	for _, since := range l.away {
		if at := since.Add(l.g.opts.Grace); at.After(l.done) && at.Before(due) {
			due = at // it counts as down from then on
		}
	}
	if l.first.IsZero() {
		return due
	}
	at := l.last.Add(quiet)
	if latest := l.first.Add(most); latest.Before(at) {
		at = latest
	}
	if calm := l.done.Add(costs * l.cost); calm.After(at) {
		at = calm
	}
	if at.Before(due) {
		due = at
	}
	return due
}

// changed notes that the catalog may have to be another one.
func (l *loop) changed() {
	l.last = time.Now()
	if l.first.IsZero() {
		l.first = l.last
	}
}

// event takes in what the tracker tells. Updates are passed on at once.
func (l *loop) event(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.ResourceUpdated, event.ResourceRemoved, event.ResourceAdded:
		l.g.updated(target{e.ServerID, e.ResourceURI})
		l.tellChanged()
	case event.ServerState:
		l.g.stateChanged()
		l.restated = true
		l.changed()
	case event.SubscriptionsChanged:
		if l.g.demand.active(e.ServerID, p.URIs) {
			l.followDemand()
		}
	case event.SubscriptionActive, event.ListChanged:
		l.changed()
	}
}

// merge makes what is known now visible, in one step.
func (l *loop) merge(snap *tracker.Snapshot) {
	began := time.Now()
	l.first, l.last = time.Time{}, time.Time{}
	desired := l.g.wanted()
	l.reconcileAPIs(desired)
	sources := make([]source, 0, len(desired))
	refused := map[Refusal]struct{}{}
	up := map[string]bool{}
	lists := map[string]map[catalog.Kind]checked{}
	for _, srv := range desired {
		st, _ := snap.Server(srv.ID)
		var known map[catalog.Kind][]catalog.Item
		known, up[srv.ID] = l.known(srv.ID, st)
		s := source{id: srv.ID, lists: map[catalog.Kind][]item{}, subscribes: offersUpdates(srv, st.Info)}
		lists[srv.ID] = map[catalog.Kind]checked{}
		for k, list := range known {
			c := l.check(srv.ID, k, list)
			lists[srv.ID][k] = c
			s.lists[k] = c.items
			for _, r := range c.refused {
				refused[r] = struct{}{}
			}
		}
		sources = append(sources, s)
	}
	l.checked, l.ready = lists, up
	l.markAway(sources, up, began)
	v := newView(l.g.local, sources, l.g.filter, func(r Refusal) { refused[r] = struct{}{} })
	l.g.view.Store(v)
	changed := l.g.server.SetCatalog(v.catalog)
	if changed.Any() || l.restated {
		l.tellChanged()
	}
	l.restated = false
	l.tell(refused)
	l.followDemand()
	l.done = time.Now()
	l.cost = l.done.Sub(began)
	l.nextLook = l.done.Add(lookOver)
}

// known are the lists of a server, and whether it can be reached.
func (l *loop) known(id string, st tracker.ServerStatus) (map[catalog.Kind][]catalog.Item, bool) {
	if a := l.g.api(id); a != nil {
		return map[catalog.Kind][]catalog.Item{catalog.Tools: a.up.Catalog().Tools}, a.up.Status().Up
	}
	lists := make(map[catalog.Kind][]catalog.Item, len(st.Lists))
	for k, list := range st.Lists {
		lists[k] = list
	}
	return lists, st.State == event.Ready || st.State == event.Unsupported
}

// check checks the items of a list, once for every list.
func (l *loop) check(server string, k catalog.Kind, list []catalog.Item) checked {
	was := l.checked[server][k]
	if len(was.list) == len(list) && (len(list) == 0 || &was.list[0] == &list[0]) {
		return was // lists are immutable
	}
	c := checked{list: list, items: make([]item, 0, len(list))}
	for _, it := range list {
		checked, err := newItem(k, it)
		if err == nil && l.g.opts.Pin && k == catalog.Tools {
			err = l.pin(target{server, it.Key}, it.Digest)
		}
		reason := checked.suspicion
		if err != nil {
			reason = err.Error()
		} else {
			c.items = append(c.items, checked)
		}
		if reason != "" {
			c.refused = append(c.refused, Refusal{Server: server, Kind: k, Key: it.Key, Reason: reason, Listed: err == nil})
		}
	}
	return c
}

var errChanged = errors.New("it is not what it was when it was first listed")

// pin holds a tool to what it was first.
func (l *loop) pin(t target, now catalog.Digest) error {
	first, seen := l.pins[t]
	if !seen && len(l.pins) < maxPins {
		l.pins[t] = now
	}
	if seen && first != now {
		return errChanged
	}
	return nil
}

// maxPins bounds the memory of a server that calls its tools by ever new names.
const maxPins = 100_000

// markAway says of each source whether it is down, and notes since when it is away.
func (l *loop) markAway(sources []source, up map[string]bool, now time.Time) {
	away := map[string]time.Time{}
	for i := range sources {
		s := &sources[i]
		if up[s.id] {
			continue
		}
		since, known := l.away[s.id]
		if !known {
			since = now
		}
		away[s.id] = since
		if down := now.Sub(since) >= l.g.opts.Grace; down {
			s.down, s.drop = true, l.g.opts.OnDown == Drop
		}
	}
	l.away = away
}

func (l *loop) tellChanged() {
	if l.g.opts.Changed != nil {
		l.g.opts.Changed()
	}
}

// maxLogged is how many refusals of one merge are logged one by one.
const maxLogged = 20

// tell tells of the refusals that are new.
func (l *loop) tell(refused map[Refusal]struct{}) {
	logged := 0
	for r := range refused {
		if _, told := l.refused[r]; told {
			continue
		}
		if l.g.opts.Refused != nil {
			l.g.opts.Refused(r)
		}
		if logged++; logged > maxLogged {
			continue
		}
		what := "an item is not listed"
		if r.Listed {
			what = "an item looks suspicious"
		}
		l.g.opts.Logger.Warn(what, "server", printable.Line(r.Server, 128), "list", string(r.Kind),
			"item", printable.Line(r.Key, 200), "reason", r.Reason)
	}
	if logged > maxLogged {
		l.g.opts.Logger.Warn("more items are not listed or look suspicious", "number", logged-maxLogged)
	}
	l.refused = refused
}

// updated tells those who subscribed to a resource that it changed: under the URI
// that is listed, and under the one that names its server. Somebody who subscribed
// to what it is below is told of that.
func (g *Gateway) updated(t target) {
	v := g.view.Load()
	if _, ours := v.servers[t.server]; !ours || t.key == "" {
		return
	}
	uris := append(g.demand.called(t), v.export(t), qualify(t.server, t.key))
	subs := g.server.Subscriptions()
	rest := t.key
	for range maxParents {
		i := strings.LastIndexAny(rest, "/?#")
		if i <= 0 {
			break
		}
		for _, parent := range []string{rest[:i+1], rest[:i]} { // either may be subscribed
			if parent == t.key {
				continue
			}
			if uri := qualify(t.server, parent); subs.Subscribed(uri) {
				uris = append(uris, uri)
			}
			if subs.Subscribed(parent) && v.export(target{t.server, parent}) == parent {
				uris = append(uris, parent)
			}
		}
		rest = rest[:i]
	}
	g.server.Updated(uris...)
}

// maxParents is how many levels above a resource are looked at for subscribers.
const maxParents = 64

// updatedAll tells everybody of every listed resource.
func (g *Gateway) updatedAll() {
	for uri := range g.view.Load().byKey[catalog.Resources] {
		g.server.Updated(uri)
	}
	g.server.Updated(g.demand.uris()...)
}

// stateChanged wakes the calls that wait for a server.
func (g *Gateway) stateChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.moved)
	g.moved = make(chan struct{})
}
