package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
)

// The times at which the catalog is merged after a change. A storm of changes uses only
// a fraction of one processor; a single change is visible almost immediately.
const (
	debounce        = 20 * time.Millisecond  // after the last change
	maxDelay        = 200 * time.Millisecond // after the first
	costFactor      = 4                      // the pause after a merge, in multiples of its duration
	refreshInterval = 30 * time.Second       // between merges without a change, which also drop unused ad-hoc subscriptions
)

// Run keeps the served catalog equal to what the tracker knows, until ctx is done or the
// tracker ends. It returns the cause, or nil, once everything that it started has ended.
// It may be called only once.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{g: g, ctx: ctx, away: map[string]time.Time{}, checked: map[string]map[catalog.Kind]checked{}}
	defer l.tasks.Wait()
	defer cancel()
	defer l.stopAPIs()
	defer g.clients.close()
	defer g.rounds.close()
	snap, sub := g.tracker.Subscribe(ctx)
	l.adhocSubscriptions()
	l.merge(snap)
	return l.follow(sub)
}

// adhocSubscriptions takes over which ad-hoc subscriptions servers have.
func (l *loop) adhocSubscriptions() {
	for _, server := range l.g.adhoc.servers() {
		l.g.adhoc.setActive(server, l.g.tracker.Client(server).Subscriptions())
	}
}

// loop is the state of Run.
type loop struct {
	g     *Gateway
	ctx   context.Context
	tasks sync.WaitGroup

	ready   map[string]bool                     // the ids of servers that are connected
	away    map[string]time.Time                // when each of the others was lost, by id
	checked map[string]map[catalog.Kind]checked // results of the last merge, see checkAs
	refused map[Refusal]struct{}                // of the last merge
	broken  []config.Server                     // HTTP catalogs with an invalid entry, already logged

	stateChanged bool          // a server's state changed since the last merge
	first, last  time.Time     // times of the first and last change not merged yet; zero if none
	done         time.Time     // end of the last merge
	cost         time.Duration // duration of the last merge
	nextRefresh  time.Time     // when to merge even if nothing changes
}

// follow handles events, wakes and timers until the subscription ends, and returns its error.
func (l *loop) follow(sub *journal.Subscription) error {
	// Sent to and closed by the goroutine below. Unbuffered: the subscription is the
	// queue. This loop receives until it is closed.
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
		case <-l.g.adhocWake:
			l.syncAdhoc()
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

// due returns when to merge next.
func (l *loop) due() time.Time {
	due := l.nextRefresh
	for _, since := range l.away {
		if at := since.Add(l.g.opts.Grace); at.After(l.done) && at.Before(due) {
			due = at // the server counts as down from then on
		}
	}
	if l.first.IsZero() {
		return due
	}
	at := l.last.Add(debounce)
	if latest := l.first.Add(maxDelay); latest.Before(at) {
		at = latest
	}
	if earliest := l.done.Add(costFactor * l.cost); earliest.After(at) {
		at = earliest
	}
	if at.Before(due) {
		due = at
	}
	return due
}

// changed schedules a merge.
func (l *loop) changed() {
	l.last = time.Now()
	if l.first.IsZero() {
		l.first = l.last
	}
}

// event handles an event of the tracker. Clients that subscribed to a resource are notified
// of an update immediately; other changes schedule a merge.
func (l *loop) event(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.ResourceUpdated, event.ResourceRemoved, event.ResourceAdded:
		l.g.updated(target{e.ServerID, e.ResourceURI})
		l.notifyChanged()
	case event.ServerState:
		l.g.stateChanged()
		l.stateChanged = true
		l.changed()
	case event.SubscriptionsChanged:
		if l.g.adhoc.setActive(e.ServerID, p.URIs) {
			l.syncAdhoc()
		}
	case event.SubscriptionActive, event.ListChanged:
		l.changed()
	case event.Gap: // the missing events may have been about anything
		l.adhocSubscriptions()
		l.g.updatedAll()
		l.g.stateChanged()
		l.stateChanged = true
		l.changed()
	}
}

// merge builds the catalog from the snapshot and replaces the served one.
func (l *loop) merge(snap *status.Snapshot) {
	began := time.Now()
	l.first, l.last = time.Time{}, time.Time{}
	desired := l.g.wanted()
	l.reconcileAPIs(desired)
	l.g.clients.reconcile(desired)
	sources := make([]source, 0, len(desired))
	refused := map[Refusal]struct{}{}
	up := map[string]bool{}
	lists := map[string]map[catalog.Kind]checked{}
	for _, srv := range desired {
		st, _ := snap.Server(srv.ID)
		var known map[catalog.Kind][]catalog.Item
		known, up[srv.ID] = l.known(srv.ID, st)
		s := source{
			id: srv.ID, lists: map[catalog.Kind][]item{}, known: map[catalog.Kind]catalog.List{}, subscribes: offersUpdates(srv, st.Info), tracks: tracks(srv), about: aboutOf(st.Info),
			asks: up[srv.ID] && st.Info.Era == session.EraLegacy, modern: st.Info.Era == session.EraModern, other: l.g.clients.otherEra(srv, st.Info),
		}
		lists[srv.ID] = map[catalog.Kind]checked{}
		for k, list := range known {
			c := l.check(srv.ID, k, list)
			lists[srv.ID][k] = c
			s.lists[k] = c.items
			for _, r := range c.refused {
				refused[r] = struct{}{}
			}
		}
		for _, k := range []catalog.Kind{catalog.Resources, catalog.Templates} {
			s.known[k] = l.g.names.known(srv.ID, k)
		}
		sources = append(sources, s)
	}
	l.ready = up
	l.markAway(sources, up, began)
	v := newView(l.g.local, sources, l.g.filter, func(r Refusal) { refused[r] = struct{}{} })
	v.refused = refusedItems(refused)
	d := v.describe(l.g.opts.Serve.Instructions, sources)
	d.WatchTasks = l.g.tasks.watchAll
	v.variants = l.g.variants.merge(l, snap, sources, lists)
	l.checked = lists
	for key, other := range v.variants {
		if v.catalog.Variants == nil {
			v.catalog.Variants = map[string]mcpserver.Catalog{}
		}
		v.catalog.Variants[key] = other.catalog
	}
	l.g.view.Store(v)
	l.g.server.Describe(d)
	changed := l.g.server.SetCatalog(v.catalog)
	if changed.Any() || l.stateChanged {
		l.notifyChanged()
	}
	l.stateChanged = false
	l.report(refused)
	l.syncAdhoc()
	l.done = time.Now()
	l.cost = l.done.Sub(began)
	l.nextRefresh = l.done.Add(refreshInterval)
}

// known returns the lists of a server, or of an HTTP catalog, and whether it is connected.
func (l *loop) known(id string, st status.ServerStatus) (map[catalog.Kind][]catalog.Item, bool) {
	if a := l.g.api(id); a != nil {
		return map[catalog.Kind][]catalog.Item{catalog.Tools: a.up.Catalog().Tools}, a.up.Status().Up
	}
	lists := make(map[catalog.Kind][]catalog.Item, len(st.Lists))
	for k, list := range st.Lists {
		lists[k] = list
	}
	return lists, st.Connected()
}

// markAway sets the down and drop flags of the sources, and records when servers went
// away.
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

func (l *loop) notifyChanged() {
	if l.g.opts.Changed != nil {
		l.g.opts.Changed()
	}
}

// stateChanged wakes the calls that wait for a server to reconnect.
func (g *Gateway) stateChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.stateChange)
	g.stateChange = make(chan struct{})
}
