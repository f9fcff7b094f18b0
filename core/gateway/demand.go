package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// demand is what clients subscribed to that the config does not follow: resources
// of templates, and those of servers whose resources are not tracked. The tracker is
// asked to follow them in its live sessions, again in every new one.
type demand struct {
	// limit is how many resources there may be, which is set once: those that were
	// left are kept for a while, so clients that come and go could add ever more.
	limit int

	mu    sync.Mutex
	wants map[target]*want
}

// want is one resource that somebody subscribed to. One task at a time asks the
// tracker about it, so that what was asked last is what holds.
type want struct {
	uris    map[string]struct{} // as clients call it
	since   time.Time           // when it was asked for last
	active  bool                // the live session follows it
	failed  int                 // how often in a row that was refused
	next    time.Time           // when to ask again after that
	asking  bool                // a task is asking for that
	leaving bool                // a task is giving it up
}

// settling is how long a want may be without a subscriber: it is noted just before
// the client becomes one.
const settling = 10 * time.Second

// Bounds of asking a server to follow.
const (
	askTimeout = 30 * time.Second
	askAtOnce  = 64
	maxRest    = 10 * time.Minute // between two questions that are refused
)

// subscribable is asked for every URI that a client wants to subscribe to.
func (g *Gateway) subscribable(uri string) bool {
	v := g.view.Load()
	t, ok := v.resource(uri)
	if !ok || g.api(t.server) != nil {
		return false
	}
	if t.server == "" || g.tracked(v, t) {
		return true
	}
	if _, ok := v.subscribes[t.server]; !ok {
		return false // nothing would ever come
	}
	if !g.demand.add(t, uri) {
		return false
	}
	g.lookAtDemand()
	return true
}

func (g *Gateway) lookAtDemand() {
	select {
	case g.demands <- struct{}{}:
	default:
	}
}

// tracked reports whether the config follows the resource.
func (g *Gateway) tracked(v *view, t target) bool {
	if _, listed := v.byKey[catalog.Resources][v.export(t)]; !listed {
		return false
	}
	for _, srv := range g.wanted() {
		if srv.ID == t.server {
			return srv.TrackResources && srv.Selects(t.key)
		}
	}
	return false
}

// add reports whether there was room.
func (d *demand) add(t target, uri string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wants == nil {
		d.wants = map[target]*want{}
	}
	w, ok := d.wants[t]
	if !ok {
		if len(d.wants) >= d.limit {
			return false
		}
		w = &want{uris: map[string]struct{}{}}
		d.wants[t] = w
	}
	w.uris[uri] = struct{}{}
	w.since = time.Now()
	return true
}

// uris are all that somebody wants.
func (d *demand) uris() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, w := range d.wants {
		all = slices.AppendSeq(all, maps.Keys(w.uris))
	}
	return all
}

// called is what clients call a resource.
func (d *demand) called(t target) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.wants[t]
	if !ok {
		return nil
	}
	return slices.Collect(maps.Keys(w.uris))
}

// active notes what the live session with a server follows for clients: nothing
// once it has ended. uris are sorted. It reports whether something of it is lost.
func (d *demand) active(server string, uris []string) (lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for t, w := range d.wants {
		if t.server == server {
			was := w.active
			_, w.active = slices.BinarySearch(uris, t.key)
			lost = lost || was && !w.active
		}
	}
	return lost
}

// sweep returns what nobody is subscribed to any more, for a task to give up.
func (d *demand) sweep(now time.Time, subscribed func(uri string) bool) (gone []target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for t, w := range d.wants {
		if now.Sub(w.since) < settling || w.asking || w.leaving {
			continue
		}
		for uri := range w.uris {
			if !subscribed(uri) {
				delete(w.uris, uri)
			}
		}
		if len(w.uris) == 0 {
			w.leaving = true
			gone = append(gone, t)
		}
	}
	return gone
}

// left notes that a task has given up the resource, and forgets it. It reports
// whether somebody came back meanwhile, for whom it is to be asked for again.
func (d *demand) left(t target) (back bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.wants[t]
	w.leaving, w.active = false, false
	if len(w.uris) == 0 {
		delete(d.wants, t)
		return false
	}
	return true
}

// open takes what is not followed yet, for a task to ask for.
func (d *demand) open(now time.Time, ready func(server string) bool) (todo map[string][]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	todo = map[string][]string{}
	for t, w := range d.wants {
		if !w.active && !w.asking && !w.leaving && !now.Before(w.next) && ready(t.server) {
			w.asking = true
			todo[t.server] = append(todo[t.server], t.key)
		}
	}
	return todo
}

// asked notes that a task has asked. That the resource is followed is told by an
// event; a refusal is not asked for again too soon. It reports the first refusal.
func (d *demand) asked(t target, refused bool) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.wants[t]
	w.asking = false
	if !refused {
		w.failed, w.next = 0, time.Time{}
		return false
	}
	w.next = time.Now().Add(min(lookOver<<min(w.failed, 10), maxRest))
	w.failed++
	return w.failed == 1
}

// followDemand has the tracker follow what clients want, and no more.
func (l *loop) followDemand() {
	g := l.g
	for _, t := range g.demand.sweep(time.Now(), g.server.Subscriptions().Subscribed) {
		l.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(l.ctx, askTimeout)
			defer cancel()
			_ = g.tracker.Client(t.server).Unsubscribe(ctx, t.key) // else it ends with the session
			if g.demand.left(t) {
				g.lookAtDemand()
			}
		})
	}
	for server, uris := range g.demand.open(time.Now(), func(server string) bool { return l.ready[server] }) {
		l.tasks.Go(func() { l.ask(server, uris) })
	}
}

// ask asks for all at once: the tracker makes one walk of them.
func (l *loop) ask(server string, uris []string) {
	ctx, cancel := context.WithTimeout(l.ctx, askTimeout)
	defer cancel()
	var (
		asking sync.WaitGroup
		slots  = make(chan struct{}, askAtOnce)
		told   sync.Once
	)
	defer asking.Wait()
	for _, uri := range uris {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			t := target{server, uri}
			err := l.g.tracker.Client(server).Subscribe(ctx, uri)
			lost := ctx.Err() != nil || errors.Is(err, tracker.ErrNotConnected) || errors.Is(err, session.ErrClosed)
			first := l.g.demand.asked(t, err != nil && !lost)
			if err == nil {
				l.g.updated(t) // what changed before nobody was told of
				return
			}
			if first {
				told.Do(func() {
					l.g.opts.Logger.Warn("cannot follow what a client subscribed to", "server", printable.Line(server, 128),
						"uri", printable.Line(uri, 300), "err", printable.Line(err.Error(), 500))
				})
			}
		})
	}
}

// offersUpdates reports whether a server is asked for updates of resources that the
// config does not follow.
func offersUpdates(srv config.Server, info session.Info) bool {
	return srv.Transport != config.TransportCatalog && info.Capabilities.Resources && info.Capabilities.ResourcesSubscribe
}
