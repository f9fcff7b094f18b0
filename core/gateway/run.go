package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
)

// When the catalog is merged after a change. A burst of changes uses only a fraction of one
// processor; a single change is visible almost immediately.
const (
	debounce        = 20 * time.Millisecond  // after the last change
	maxDelay        = 200 * time.Millisecond // after the first change
	costFactor      = 4                      // the pause after a merge, in multiples of its duration
	refreshInterval = 30 * time.Second       // between merges without a change, which also drop unused ad-hoc subscriptions
)

// Run keeps the served catalog equal to what the tracker knows, until ctx is done or the
// tracker ends. It returns the cause, or nil, once everything that it started has ended.
// It may be called only once.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{Gateway: g, ctx: ctx, away: map[string]time.Time{}, checked: map[string]map[catalog.Kind]checkedList{}}
	defer l.running.Wait()
	defer cancel()
	defer l.stopHTTPCatalogs()
	defer g.sessions.close()
	defer g.inputs.close()
	snap, sub := g.tracker.Subscribe(ctx)
	l.loadActiveAdhoc()
	l.merge(snap)
	return l.follow(sub)
}

// loop is the state of Run. Only Run's goroutine uses its fields, except ctx.
type loop struct {
	*Gateway
	ctx     context.Context // ends with Run
	running sync.WaitGroup

	ready   map[string]bool                         // the ids of connected servers
	away    map[string]time.Time                    // when each of the other servers was lost, by id
	checked map[string]map[catalog.Kind]checkedList // results of the last merge, see checkAs
	refused map[Refusal]struct{}                    // of the last merge
	broken  []config.Server                         // HTTP catalogs with an invalid entry, already logged

	stateChanged bool          // a server's state changed since the last merge
	first, last  time.Time     // times of the first and last change not merged yet; zero if none
	done         time.Time     // end of the last merge
	cost         time.Duration // duration of the last merge
	nextRefresh  time.Time     // when to merge even if nothing changes
}

// follow handles events, wake-ups and timers until the subscription ends, and returns its error.
func (l *loop) follow(sub *journal.Subscription) error {
	// The goroutine below sends to and closes batches; this loop receives until it is
	// closed. Unbuffered: the subscription is the queue.
	batches := make(chan []*event.Event)
	l.running.Go(func() {
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
		case <-l.kicks:
			l.changed()
		case <-l.adhocWake:
			l.syncAdhoc()
		case done := <-l.flushes:
			l.merge(l.tracker.Snapshot())
			close(done)
		case now := <-timer.C:
			if due := l.due(); now.Before(due) {
				continue
			}
			l.merge(l.tracker.Snapshot())
		}
	}
}

// due returns when to merge next.
func (l *loop) due() time.Time {
	due := l.nextRefresh
	for _, since := range l.away {
		if at := since.Add(l.opts.Grace); at.After(l.done) && at.Before(due) {
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

// event handles an event of the tracker. Subscribers of a resource are notified of an
// update immediately; other changes schedule a merge.
func (l *loop) event(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.ResourceUpdated, event.ResourceRemoved, event.ResourceAdded:
		l.updated(target{e.ServerID, e.ResourceURI})
		l.notifyChanged()
	case event.ServerState:
		l.serverStateChanged()
	case event.SubscriptionsChanged:
		if l.adhoc.setActive(e.ServerID, p.URIs) {
			l.syncAdhoc()
		}
	case event.SubscriptionActive, event.ListChanged:
		l.changed()
	case event.Gap: // the missing events may have been about anything
		l.loadActiveAdhoc()
		l.updatedAll()
		l.serverStateChanged()
	}
}

// serverStateChanged wakes the calls that wait for a server to reconnect, and schedules a merge.
func (l *loop) serverStateChanged() {
	l.mu.Lock()
	close(l.stateChange)
	l.stateChange = make(chan struct{})
	l.mu.Unlock()
	l.stateChanged = true
	l.changed()
}

// merge builds the catalog from the snapshot and replaces the served catalog.
func (l *loop) merge(snap *status.Snapshot) {
	began := time.Now()
	l.first, l.last = time.Time{}, time.Time{}
	enabled := l.servers()
	l.reconcileHTTPCatalogs(enabled)
	l.sessions.reconcile(enabled)
	parts := make([]contribution, 0, len(enabled))
	refused := map[Refusal]struct{}{}
	up := map[string]bool{}
	lists := map[string]map[catalog.Kind]checkedList{}
	for _, srv := range enabled {
		st, _ := snap.Server(srv.ID)
		var known map[catalog.Kind][]catalog.Item
		known, up[srv.ID] = l.known(srv.ID, st)
		c := contribution{
			id: srv.ID, lists: map[catalog.Kind][]item{}, known: map[catalog.Kind]catalog.List{}, info: serverInfoOf(st.Info),
			serverState: serverState{tracks: tracks(srv), subscribes: offersUpdates(srv, st.Info), other: l.sessions.otherEra(srv, st.Info),
				asks: up[srv.ID] && st.Info.Era == session.EraLegacy, modern: st.Info.Era == session.EraModern},
		}
		lists[srv.ID] = map[catalog.Kind]checkedList{}
		for k, list := range known {
			checked := l.checkAs(srv.ID, srv.ID, k, list)
			lists[srv.ID][k] = checked
			c.lists[k] = checked.items
			for _, r := range checked.refused {
				refused[r] = struct{}{}
			}
		}
		for _, k := range []catalog.Kind{catalog.Resources, catalog.Templates} {
			c.known[k] = l.names.known(srv.ID, k)
		}
		parts = append(parts, c)
	}
	l.ready = up
	l.markAway(parts, up, began)
	v := newView(l.local, parts, l.filter, func(r Refusal) { refused[r] = struct{}{} })
	v.refused = unlisted(refused)
	d := v.describe(l.opts.Serve.Instructions, parts)
	d.WatchTasks = l.watchTasks
	v.variants = l.mergeVariants(snap, parts, lists)
	l.checked = lists
	for key, other := range v.variants {
		if v.catalog.Variants == nil {
			v.catalog.Variants = map[string]mcpserver.Catalog{}
		}
		v.catalog.Variants[key] = other.catalog
	}
	l.view.Store(v)
	l.server.Describe(d)
	changed := l.server.SetCatalog(v.catalog)
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
func (l *loop) known(id string, st status.Server) (map[catalog.Kind][]catalog.Item, bool) {
	if a := l.httpCatalog(id); a != nil {
		return map[catalog.Kind][]catalog.Item{catalog.Tools: a.up.Catalog().Tools}, a.up.Status().Up
	}
	lists := make(map[catalog.Kind][]catalog.Item, len(st.Lists))
	for k, list := range st.Lists {
		lists[k] = list
	}
	return lists, st.Connected()
}

// markAway sets the down and drop flags of the contributions, and records when servers
// were lost.
func (l *loop) markAway(parts []contribution, up map[string]bool, now time.Time) {
	away := map[string]time.Time{}
	for i := range parts {
		c := &parts[i]
		if up[c.id] {
			continue
		}
		since, known := l.away[c.id]
		if !known {
			since = now
		}
		away[c.id] = since
		if down := now.Sub(since) >= l.opts.Grace; down {
			c.down, c.drop = true, l.opts.OnDown == Drop
		}
	}
	l.away = away
}

func (l *loop) notifyChanged() {
	if l.opts.Changed != nil {
		l.opts.Changed()
	}
}

// checkedList is the result of checking the items of a list.
type checkedList struct {
	list    []catalog.Item // the list that was checked
	pins    int            // the version of the server's pins that was used
	items   []item         // the items that can be listed
	refused []Refusal      // the items that cannot be listed, or are suspicious
}

// checkAs checks the items of a server's list. The result is reused until the list changes.
// id is the key of the last result in l.checked: the server, or one of its variants (see
// mergeVariants).
func (l *loop) checkAs(id, server string, k catalog.Kind, list []catalog.Item) checkedList {
	was := l.checked[id][k]
	pins := l.pins(server, k)
	if len(was.list) == len(list) && (len(list) == 0 || &was.list[0] == &list[0]) && was.pins == pins.current() {
		return was // lists are immutable
	}
	c := checkedList{list: list, items: make([]item, 0, len(list))}
	refuse := func(key string, err error) {
		c.refused = append(c.refused, Refusal{Server: server, Kind: k, Key: key, Reason: err.Error()})
	}
	known := make(map[string]item, len(was.items))
	for _, it := range was.items {
		known[it.key] = it
	}
	for _, it := range list {
		// An item that differs only in the order of its members keeps its former bytes:
		// clients cache prompts by the bytes of lists.
		checked, again := known[it.Key]
		var err error
		if !again || checked.digest != it.Digest {
			checked, err = newItem(k, it)
		}
		if err != nil {
			refuse(it.Key, err)
		} else {
			c.items = append(c.items, checked)
		}
	}
	if pins != nil {
		pins.pin(l.ctx, c.items, l.opts.Logger)
		c.pins = pins.version
		c.items = slices.DeleteFunc(c.items, func(it item) bool {
			err := pins.refuse(it)
			if err != nil {
				refuse(it.key, err)
			}
			return err != nil
		})
	}
	for _, it := range c.items {
		if it.suspicion != "" {
			c.refused = append(c.refused, Refusal{Server: server, Kind: k, Key: it.key, Reason: it.suspicion, Listed: true})
		}
	}
	return c
}

// pins returns the pins that apply to a server's list; nil if none do.
func (l *loop) pins(server string, k catalog.Kind) *serverPins {
	if l.opts.Pins == nil || k != catalog.Tools {
		return nil
	}
	return l.opts.Pins.of(server)
}

// Refusal is an item of a server that is not listed, or that is suspicious.
type Refusal struct {
	Server string
	Kind   catalog.Kind
	Key    string // the server's name or URI of the item; not sanitized
	Reason string // one line for users
	Listed bool   // the item is listed, but suspicious
}

// unlisted returns the items that are not listed.
func unlisted(refused map[Refusal]struct{}) map[itemID]bool {
	out := map[itemID]bool{}
	for r := range refused {
		if !r.Listed {
			out[itemID{r.Kind, target{r.Server, r.Key}}] = true
		}
	}
	return out
}

// maxLogged is how many new refusals of one merge are logged individually.
const maxLogged = 20

// report logs the refusals that are new and passes them to Options.Refused.
func (l *loop) report(refused map[Refusal]struct{}) {
	logged := 0
	for r := range refused {
		if _, known := l.refused[r]; known {
			continue
		}
		if l.opts.Refused != nil {
			l.opts.Refused(r)
		}
		if logged++; logged > maxLogged {
			continue
		}
		what := "the gateway does not list an item of a server"
		if r.Listed {
			what = "an item of a server looks suspicious"
		}
		l.opts.Logger.Warn(what, "server", printable.Line(r.Server, 128), "list", string(r.Kind),
			"item", printable.Line(r.Key, 200), "reason", r.Reason)
	}
	if logged > maxLogged {
		l.opts.Logger.Warn("more items are not listed or look suspicious", "number", logged-maxLogged)
	}
	l.refused = refused
}
