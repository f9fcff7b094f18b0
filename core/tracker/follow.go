package tracker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// follower follows one session: a loop of the worker's goroutine that owns all
// fields, and short-lived jobs (list walks, reads, pings, calls) that answer on
// channels. The jobs are children of ctx and waited for by close.
type follower struct {
	w *worker
	s *session.Session

	ctx    context.Context // of the jobs; ends before the session is closed
	cancel context.CancelFunc
	jobs   sync.WaitGroup

	// The jobs send to these and nobody closes them. Their capacity is the number
	// of jobs of the kind at a time, so that no job waits for the loop.
	reads chan readAnswer
	syncs chan syncAnswer
	pings chan pingAnswer

	// conn is what clients have of the session; wanted is what they subscribe to,
	// true once the server has agreed; asks wait for the next walk.
	conn   *connection
	wanted map[string]bool
	asks   []*ask
	// unread is what is to be read again for what is kept of it; reread is sent to by
	// the one job that does, and never closed. Capacity 1: it never waits.
	unread    map[string]event.Cause
	rereading bool
	reread    chan struct{}

	todo     demand
	syncing  bool // a walk is out
	stopWalk context.CancelFunc
	stopped  bool // it was told to stop: another one does what it was to do
	ready    bool // the first one is done
	calls    bool // OnConnect was begun
	failures int  // walks that failed in a row
	gaps     int  // gaps since the last quiet minute
	lastGap  time.Time

	followed map[string]struct{} // URIs that the server was asked to push
	missing  map[string]struct{} // those among them that it does not
	unpushed []catalog.Kind      // lists whose changes it was asked to push and does not
	mode     event.Mode
	told     event.SubscriptionActive
	early    map[string]session.Signal // about URIs that a walk under way may add

	nextWalk, nextPoll, nextResync, nextPing time.Time
	pingSince                                time.Time
	clock                                    clock
}

// minWalk is the least time between the beginnings of two walks.
const minWalk = 100 * time.Millisecond

func newFollower(w *worker, s *session.Session) *follower {
	f := &follower{
		w: w, s: s,
		reads:    make(chan readAnswer, w.opts.Reads),
		syncs:    make(chan syncAnswer, 1),
		pings:    make(chan pingAnswer, 1),
		followed: map[string]struct{}{},
		missing:  map[string]struct{}{},
		conn:     newConnection(w.t.kept, w.id, s),
		wanted:   map[string]bool{},
		reread:   make(chan struct{}, 1),
	}
	// Jobs outlive the loop's context for the time of a drain.
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// run follows until ctx ends or the session does. It returns why, never nil.
func (f *follower) run(ctx context.Context) error {
	f.s.SetRequestTimeout(f.w.srv.RequestTimeout) // of an entry that came while it was dialled
	now := time.Now()
	f.nextPing = now.Add(f.w.opts.Liveness)
	f.nextResync = now.Add(jitter(f.w.opts.Resync))
	f.todo = everything(event.CauseResync)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now = time.Now()
		if f.clock.jumped(now) {
			f.gap("this machine or process was suspended", now)
			f.pingSince, f.nextPing = time.Time{}, now
		}
		f.due(now)
		f.startReads()
		timer.Reset(time.Until(f.clock.expect(f.wakeAt())))
		select {
		case <-ctx.Done():
			f.drain(context.Cause(ctx))
			return context.Cause(ctx)
		case <-f.s.Done():
			return f.s.Err()
		case <-f.s.Signals().C():
			f.signals(f.s.Signals().Take())
		case a := <-f.reads:
			f.answered(a)
		case a := <-f.syncs:
			if err := f.synced(a); err != nil {
				return err
			}
		case q := <-f.conn.asks:
			f.asked(q)
		case <-f.reread:
			f.rereading = false
			f.startReload()
		case a := <-f.pings:
			if err := f.pinged(a); err != nil {
				return err
			}
		case next := <-f.w.offers:
			if f.w.adopt(next) {
				return errSuperseded
			}
			f.retarget()
		case <-timer.C:
		}
	}
}

// due begins whatever the time has come for.
func (f *follower) due(now time.Time) {
	f.w.co.advance(now)
	if f.ready && !f.nextResync.IsZero() && !now.Before(f.nextResync) {
		f.nextResync = now.Add(jitter(f.w.opts.Resync))
		f.todo.add(f.kinds(), event.CauseResync)
		f.w.co.checkAll(roleResync)
	}
	if f.ready && !f.nextPoll.IsZero() && !now.Before(f.nextPoll) {
		f.poll(now)
	}
	if !now.Before(f.nextPing) && f.pingSince.IsZero() {
		f.ping(now)
	}
	if !f.syncing && !f.todo.empty() && !now.Before(f.nextWalk) {
		f.walk(now)
	}
}

// wakeAt is when due has something to do next.
func (f *follower) wakeAt() time.Time {
	at := f.w.co.next()
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if f.ready {
		sooner(f.nextResync)
		sooner(f.nextPoll)
	}
	if f.pingSince.IsZero() {
		sooner(f.nextPing)
	}
	if !f.syncing && !f.todo.empty() {
		sooner(f.nextWalk)
	}
	return at
}

// signals takes in what the server announced.
func (f *follower) signals(b session.Batch) {
	now := time.Now()
	f.w.dropped(b.Dropped)
	f.outdated(b.URIs)
	for uri, sig := range b.URIs {
		f.signal(uri, sig, now)
	}
	for k := range b.Lists {
		if f.ignores(k) {
			continue
		}
		f.todo.add([]catalog.Kind{k}, event.CauseNotify)
	}
	if b.Gap != "" {
		f.gap(b.Gap, now)
	}
}

func (f *follower) signal(uri string, sig session.Signal, now time.Time) {
	co := f.w.co
	k, known := co.keys[uri]
	switch {
	case !known && f.syncing && len(f.early) < maxEarly:
		if f.early == nil {
			f.early = map[string]session.Signal{}
		}
		if first, again := f.early[uri]; again {
			sig.First, sig.Count = first.First, first.Count+sig.Count
		}
		f.early[uri] = sig
		return
	case !known && sig.Parent != "":
		f.below(uri, sig, now)
		return
	}
	co.signal(uri, sig.Count, sig.First, now)
	if !known {
		return
	}
	if parent := cmp.Or(k.parent, co.keys[sig.Parent]); parent != nil {
		co.recheck(parent, roleResync)
	}
}

// maxEarly bounds what is kept of signals about URIs that are not known yet; a
// session delivers none that it did not subscribe to.
const maxEarly = 20_000

// below takes in a signal about a sub-resource of a followed one: it is told
// under its own URI, and its parent is compared, whose content it may be part of.
func (f *follower) below(uri string, sig session.Signal, now time.Time) {
	co := f.w.co
	parent, ok := co.keys[sig.Parent]
	if !ok {
		co.signal(uri, sig.Count, sig.First, now) // counted as unknown
		return
	}
	if parent.children >= maxChildren {
		f.makeRoom(parent, now)
	}
	if parent.children >= maxChildren {
		co.signal(sig.Parent, sig.Count, sig.First, now)
		return
	}
	parent.children++
	k := co.add(uri, content{})
	k.parent, k.seen = parent, true
	co.signal(uri, sig.Count, sig.First, now)
	co.recheck(parent, roleResync)
}

// maxChildren bounds the sub-resources of one resource that are followed because
// the server announced them.
const maxChildren = 1000

// makeRoom forgets the quiet ones among the sub-resources, at most once in a
// window: what they were is not known when they are announced again.
func (f *follower) makeRoom(parent *key, now time.Time) {
	if now.Sub(parent.swept) < f.w.opts.Window {
		return
	}
	parent.swept = now
	for uri, k := range f.w.co.keys {
		if k.parent == parent && !k.open && k.role == roleNone && !k.flying {
			f.w.forget(uri)
		}
	}
}

// gap tells that pushes may have been lost: everything is subscribed, listed and
// compared again, at once the first time and more slowly if it keeps happening, but
// never later than planned.
func (f *follower) gap(reason string, now time.Time) {
	f.w.log.Debug("resync", "reason", reason)
	if now.Sub(f.lastGap) > healthyAfter {
		f.gaps = 0
	}
	f.lastGap = now
	f.gaps++
	wait := time.Duration(0)
	if f.s.Info().Era == session.EraModern || f.gaps > 2 {
		// A listen that the server ended is not asked for again at once.
		wait = min(time.Second<<min(f.gaps-1, 5), f.w.opts.MaxBackoff)
		wait = min(wait+rand.N(wait/4+1), f.w.opts.MaxBackoff)
	}
	at := now.Add(wait)
	over := f.syncing && f.nextWalk.Before(now) // what was planned came due during a walk
	if !f.todo.compare || over || at.Before(f.nextWalk) {
		f.nextWalk = at // what is planned is not put off: a gap may follow every gap
	}
	f.w.co.suspend()
	f.todo.merge(everything(event.CauseResync))
}

// retarget follows what the changed entry of the config says. What is no longer
// wanted is silent from here on, also if the server goes on to push it.
func (f *follower) retarget() {
	f.s.SetRequestTimeout(f.w.srv.RequestTimeout)
	target := f.target()
	for uri, k := range f.w.co.keys {
		if _, ok := target[uri]; !ok && k.parent == nil {
			f.w.forget(uri)
		}
	}
	f.todo.merge(demand{subscribe: true})
	f.todo.add(f.kinds(), event.CauseResync)
	f.nextWalk = time.Time{}
	f.nextPoll = time.Time{}
	if f.syncing {
		f.stopped = true
		f.stopWalk()
	}
	if !f.w.srv.TrackResources {
		f.w.unfollow()
	}
}

// kinds are the lists that are wanted and that the server has.
func (f *follower) kinds() []catalog.Kind {
	caps := f.s.Info().Capabilities
	var kinds []catalog.Kind
	for _, k := range catalog.Kinds() {
		if f.w.wants(k) && caps.Has(k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// ignores reports whether changes of the list are not to be followed.
func (f *follower) ignores(k catalog.Kind) bool {
	if k == catalog.Templates {
		k = catalog.Resources
	}
	return slices.Contains(f.w.opts.IgnoreListChanges, k)
}

// wants reports whether lists of the kind are to be followed.
func (w *worker) wants(k catalog.Kind) bool {
	switch {
	case w.opts.AllLists:
		return true
	case k == catalog.Tools:
		return w.srv.TrackTools
	case k == catalog.Prompts:
		return w.srv.TrackPrompts
	default:
		return w.srv.TrackResources
	}
}

// jitter spreads a period by 20 % either way.
func jitter(d time.Duration) time.Duration {
	return d*8/10 + rand.N(d*4/10+1)
}
