package gateway

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
)

// Timing of merges after a change. A burst of changes uses only a fraction of one processor; a
// single change becomes visible almost immediately.
const (
	debounce        = 20 * time.Millisecond  // delay after the last change
	maxDelay        = 200 * time.Millisecond // maximum delay after the first change
	costFactor      = 4                      // minimum pause after a merge, as a multiple of its duration
	refreshInterval = 30 * time.Second       // interval of merges without a change, which also remove unused ad-hoc subscriptions
)

// Run keeps the served catalog in sync with the state of the tracker until ctx is done or the
// tracker stops. Once everything that it started has stopped, it returns the cause, or nil. It may
// be called only once.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{Gateway: g, ctx: ctx, away: map[string]time.Time{}, checked: map[string]map[catalog.Kind]checkedList{}}
	defer l.endAdhoc()
	defer g.tasks.close()
	defer l.running.Wait()
	defer cancel()
	defer g.wg.Wait()
	defer g.stop()
	defer g.inputs.close()
	defer g.tracker.OnMessage(g.forwardNotification)()
	snap, sub := g.tracker.Subscribe(ctx)
	l.lockRead = g.opts.Guard.Changes()
	l.merge(snap)
	return l.follow(sub)
}

// loop holds the state of Run. Only the goroutine of Run uses its fields, except for ctx.
type loop struct {
	*Gateway
	ctx     context.Context // cancelled when Run returns
	running sync.WaitGroup

	ready   map[string]bool                         // ids of the connected servers
	away    map[string]time.Time                    // when the connection to each of the other servers was lost, by id
	checked map[string]map[catalog.Kind]checkedList // validation results of the last merge, see check
	locks   lockResults                             // results of the last merges, see compare
	// lockRead is closed when the lock was read after a merge that it concerns.
	lockRead <-chan struct{}
	refused  map[Refusal]struct{}    // refusals found by the last merge
	merging  *filter                 // of the last merge
	shown    map[string]presentation // of the servers whose tools the config changes
	broken   []config.Server         // HTTP catalogs with an invalid config entry that was already logged

	stateChanged bool          // the state of a server has changed since the last merge
	first, last  time.Time     // times of the first and last change that is not merged yet; zero if none
	done         time.Time     // when the last merge completed
	cost         time.Duration // duration of the last merge
	nextRefresh  time.Time     // when to merge next even if nothing changes
}

// follow processes events, wake-ups and timers until the subscription ends, and returns the
// subscription's error.
func (l *loop) follow(sub *journal.Subscription) error {
	// batches carries the events. The goroutine below sends to it and closes it; this loop receives
	// until it is closed. Unbuffered, because the subscription itself is the queue.
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
		case <-l.lockRead:
			l.lockRead = l.opts.Guard.Changes()
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

func (l *loop) due() time.Time {
	due := l.nextRefresh
	for _, since := range l.away {
		if at := since.Add(l.opts.Grace); at.After(l.done) && at.Before(due) {
			due = at // the server is considered down from that time on
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

func (l *loop) changed() {
	l.last = time.Now()
	if l.first.IsZero() {
		l.first = l.last
	}
}

// event processes an event from the tracker. It notifies the subscribers of an updated resource
// immediately; other changes schedule a merge.
func (l *loop) event(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.ResourceUpdated, event.ResourceRemoved, event.ResourceAdded:
		l.updated(target{e.ServerID, e.ResourceURI})
		l.notifyChanged()
	case event.ServerState:
		l.serverStateChanged()
	case event.SubscriptionsChanged:
		if l.adhoc.keepActive(e.ServerID, p.URIs) {
			l.syncAdhoc()
		}
	case event.SubscriptionActive, event.ListChanged:
		l.changed()
	case event.Gap: // the lost events may have been of any kind
		l.adhoc.lost()
		l.updatedAll()
		l.serverStateChanged()
	}
}

// serverStateChanged wakes all calls that wait for a server to reconnect, and schedules a merge.
func (l *loop) serverStateChanged() {
	l.stateChange.Happened()
	l.stateChanged = true
	l.changed()
}

// merge builds a new catalog from the snapshot and replaces the served catalog with it.
func (l *loop) merge(snap *status.Snapshot) {
	began := time.Now()
	l.first, l.last = time.Time{}, time.Time{}
	l.locks.begin(l.enabled.Load(), l.opts.Guard.Version())
	if f := l.filter.Load(); f != l.merging {
		l.merging, l.checked = f, map[string]map[catalog.Kind]checkedList{} // because skills know whether it admits them
	}
	enabled := l.servers()
	l.shown = map[string]presentation{}
	for _, srv := range enabled {
		if len(srv.Tools) > 0 || srv.MaxResult > 0 {
			l.shown[srv.ID] = presentation{srv.Tools, srv.MaxResult > 0}
		}
	}
	l.large.expire(began)
	l.reconcileHTTPCatalogs(enabled)
	l.sessions.reconcile()
	l.demands.reconcile(enabled)
	l.tasks.reconcile(time.Now())
	parts := make([]contribution, 0, len(enabled))
	refused := map[Refusal]struct{}{}
	up := map[string]bool{} // servers that are connected, or that a request can wake
	ready := map[string]bool{}
	lists := map[string]map[catalog.Kind]checkedList{}
	for _, srv := range enabled {
		st, _ := snap.Server(srv.ID)
		var known map[catalog.Kind][]catalog.Item
		known, up[srv.ID] = l.known(srv.ID, st)
		ready[srv.ID] = st.Connected()
		result := l.compare(srv, st, known)
		unapproved(srv.ID, result.verdict, refused)
		if result.api == nil && st.Info.Era != "" || result.api != nil && result.listed != nil {
			l.locks.verdicts[srv.ID] = result.verdict
		}
		info := st.Info
		info.Instructions = result.verdict.Instructions(info.Instructions)
		if result.verdict.Blocked() != nil {
			info = session.Info{Era: info.Era}
		}
		c := contribution{
			id: srv.ID, lists: map[catalog.Kind][]item{}, known: map[catalog.Kind]catalog.List{}, info: serverInfoOf(info), tools: srv.Tools,
			serverState: serverState{subscribes: offersUpdates(srv, st.Info), other: st.Info.Other,
				asks: up[srv.ID] && st.Info.Era == session.EraLegacy, modern: st.Info.Era == session.EraModern, compared: result},
		}
		lists[srv.ID] = map[catalog.Kind]checkedList{}
		for k, list := range result.approved {
			checked := l.check(srv.ID, k, list)
			lists[srv.ID][k] = checked
			c.lists[k] = checked.items
			for _, r := range checked.refused {
				refused[r] = struct{}{}
			}
		}
		for _, k := range []catalog.Kind{catalog.Resources, catalog.Templates, catalog.Skills} {
			if l.opts.Names == nil {
				l.names.record(srv.ID, k, st.Lists[k])
			}
			c.known[k] = l.names.known(srv.ID, k)
		}
		parts = append(parts, c)
	}
	l.ready = ready
	l.markAway(parts, up, began)
	v := l.newExports(parts, func(r Refusal) { refused[r] = struct{}{} })
	v.refused = unlisted(refused)
	d := v.describe(l.opts.Serve.Instructions, parts)
	if l.opts.Transparent && v.only != "" {
		only, _ := snap.Server(v.only)
		describeAs(&d, only.Info, v.servers[v.only].verdict.Enforced())
		if d.Offers != nil && v.servers[v.only].entry.MaxResult > 0 {
			d.Offers.Resources = true // which large results are
		}
	}
	d.WatchTasks = l.watchTasks
	l.checked = lists
	l.locks.end()
	l.exports.Store(v)
	l.server.Describe(d)
	changed := l.server.SetCatalog(v.catalog)
	if changed.Any() || l.stateChanged {
		l.notifyChanged()
	}
	l.stateChanged = false
	l.report(refused)
	if l.opts.Guard != nil && l.opts.Verdicts != nil {
		l.opts.Verdicts(l.locks.verdicts)
	}
	l.syncAdhoc()
	l.done = time.Now()
	l.cost = l.done.Sub(began)
	l.nextRefresh = l.done.Add(refreshInterval)
}

// known returns the most recent lists of a server or HTTP catalog, and whether it is connected,
// asleep or waking.
func (l *loop) known(id string, st status.ServerStatus) (map[catalog.Kind][]catalog.Item, bool) {
	if a := l.httpCatalog(id); a != nil {
		return map[catalog.Kind][]catalog.Item{catalog.Tools: a.up.Catalog().Tools}, a.up.Status().Up
	}
	lists := make(map[catalog.Kind][]catalog.Item, len(st.Lists))
	for k, list := range st.Lists {
		lists[k] = list
	}
	return lists, st.Connected() || st.Dormant() || l.tracker.OnDemand() && st.State == event.Pending
}

// markAway sets the down and drop flags of the contributions, and records when the connection to
// each server was lost.
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

// checkedList is the result of validating the items in a list.
type checkedList struct {
	list    []catalog.Item // the list that was validated
	as      presentation   // of the server's tools
	items   []item         // items that can be listed
	refused []Refusal      // items that cannot be listed or are suspicious
}

// check validates the items in a server's list. The result is reused until the list changes.
func (l *loop) check(server string, k catalog.Kind, list []catalog.Item) checkedList {
	was, as := l.checked[server][k], presentation{}
	if k == catalog.Tools {
		as = l.shown[server]
	}
	if !as.equal(was.as) {
		was = checkedList{}
	} else if sameItems(was.list, list) {
		return was
	}
	c := checkedList{list: list, as: as, items: make([]item, 0, len(list))}
	refuse := func(key string, err error) {
		c.refused = append(c.refused, Refusal{Server: server, Kind: k, Key: key, Reason: err.Error()})
	}
	known := make(map[string]item, len(was.items))
	for _, it := range was.items {
		known[it.key] = it
	}
	for _, it := range list {
		// An item in which only the order of the members has changed keeps its previous bytes,
		// because clients use the bytes of lists as keys for prompt caching.
		checked, again := known[it.Key]
		var err error
		if !again || checked.digest != it.Digest {
			if checked, err = newItem(k, it); err == nil && k == catalog.Tools {
				checked = as.of(checked)
			}
		}
		if err != nil {
			refuse(it.Key, err)
		} else {
			c.items = append(c.items, checked)
		}
	}
	if k == catalog.Skills {
		c.items = limitSkills(c.items, refuse)
	}
	for _, it := range c.items {
		if it.suspicion != "" {
			c.refused = append(c.refused, Refusal{Server: server, Kind: k, Key: it.key, Reason: it.suspicion, Listed: true})
		}
	}
	return c
}

// sameItems reports whether two lists are the same slice. Lists are immutable.
func sameItems(a, b []catalog.Item) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Refusal describes a server's item that is not listed or is suspicious.
type Refusal struct {
	Server string // exported id, except within the gateway
	Kind   catalog.Kind
	Key    string // name or URI that the server uses for the item; not sanitized
	Reason string // user-readable, on one line
	Listed bool   // the item is listed nevertheless
	// Unapproved means that the item differs from the lock. Its Kind may also be another section of the
	// lock, and is empty if nothing of the server can be approved.
	Unapproved bool
}

// unlisted returns the refused items that are not listed, and whether they are invalid.
func unlisted(refused map[Refusal]struct{}) map[itemID]bool {
	out := map[itemID]bool{}
	for r := range refused {
		if !r.Listed {
			id := itemID{r.Kind, target{r.Server, r.Key}}
			out[id] = out[id] || !r.Unapproved
		}
	}
	return out
}

// maxLogged is the maximum number of new refusals that one merge logs individually.
const maxLogged = 20

// report logs new refusals and passes them to Options.Refused.
func (l *loop) report(refused map[Refusal]struct{}) {
	logged := 0
	for r := range refused {
		if _, known := l.refused[r]; known {
			continue
		}
		if r.Server = l.alias().of(r.Server); l.opts.Refused != nil {
			l.opts.Refused(r)
		}
		if logged++; logged > maxLogged {
			continue
		}
		what := "the gateway does not list an item of a server"
		if r.Listed {
			what = "an item of a server is not listed as it is"
		}
		if r.Unapproved {
			what = "a server differs from the lock"
		}
		l.opts.Logger.Warn(what, "server", printable.Line(r.Server, 128), "list", string(r.Kind),
			"item", printable.Line(r.Key, 200), "reason", r.Reason)
	}
	if logged > maxLogged {
		l.opts.Logger.Warn("more items are not listed, or not as they are", "number", logged-maxLogged)
	}
	l.refused = refused
}

// sameList reports whether a and b contain the same items.
func sameList(a, b catalog.List) bool {
	if sameItems(a, b) {
		return true
	}
	return slices.EqualFunc(a, b, equalItems)
}

func equalItems(a, b catalog.Item) bool {
	return a.Key == b.Key && (a.Digest == b.Digest || bytes.Equal(a.Raw, b.Raw))
}
