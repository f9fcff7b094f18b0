package tracker

import (
	"context"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// follower tracks one session: an event loop in the worker's goroutine that owns all
// fields, and jobs whose results it receives.
type follower struct {
	w    *worker
	s    *session.Session
	conn *connection // the part of the session that clients use: cache, requests, subscriptions
	jobs *jobs

	reader   reader
	syncs    syncs
	coverage coverage
	clients  clientSubscriptions
	cached   *refresher
	liveness liveness
	events   eventFollower
	// trials receives the result of tryLegacy, which is called once. Capacity 1: the job does not
	// wait; received by run or dropTrial, never closed.
	trials chan eraTrial

	background  background
	unannounced missedChanges

	ready        bool                      // the first sync is done
	onConnect    bool                      // the calls of the config's onConnect were started
	pushed       bool                      // an update of a resource was announced
	unsubscribed bool                      // a resubscription was not answered; the next ping decides whether the server is dead
	lastActive   *event.SubscriptionActive // as last published; nil: not yet

	nextPoll, nextResync time.Time
	clock                clock
}

func newFollower(w *worker, s *session.Session) *follower {
	conn, jobs := newConnection(w.t.caches, w.id, s), newJobs()
	cached := &refresher{conn: conn, jobs: jobs, done: make(chan struct{}, 1), publish: func(cause event.Cause, was, now cache.Resource) {
		w.t.publishContent(w.id, cause, &was, now)
	}}
	f := &follower{
		w: w, s: s, conn: conn, jobs: jobs, cached: cached,
		reader: reader{conn: conn, jobs: jobs, cached: cached, texts: w.opts.Texts, results: make(chan readResult, w.opts.Reads)},
		syncs:  syncs{results: make(chan syncResult, 1)},
		clients: clientSubscriptions{conn: conn, wanted: map[string]bool{}, publish: func(p event.Payload) {
			w.t.store.publish(event.Event{ServerID: w.id, Payload: p})
		}},
		liveness: liveness{conn: conn, jobs: jobs, log: w.log, every: w.opts.Liveness, results: make(chan pingResult, 1)},
		trials:   make(chan eraTrial, 1),
	}
	f.events.f = f
	return f
}

// run tracks until ctx ends or the session does. It returns why, never nil.
func (f *follower) run(ctx context.Context) error {
	f.s.SetRequestTimeout(f.w.srv.RequestTimeout) // the config may have changed during dialling
	now := time.Now()
	f.liveness.next = now.Add(f.w.opts.Liveness)
	f.nextResync = now.Add(backoff.Spread(f.w.opts.Resync))
	f.syncs.pending = fullSync()
	f.events.start()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now = time.Now()
		if f.clock.jumped(now) {
			f.gap("this machine or process was suspended", now)
			f.liveness.pingNow(now)
		}
		f.due(now)
		f.reader.start(f.w.co)
		timer.Reset(time.Until(f.clock.expect(f.wakeAt())))
		select {
		case <-ctx.Done():
			f.drain(context.Cause(ctx))
			return context.Cause(ctx)
		case <-f.s.Done():
			return f.s.Err()
		case <-f.s.Signals().C():
			f.signals(f.s.Signals().Take())
		case r := <-f.reader.results:
			f.answered(r)
		case r := <-f.syncs.results:
			if err := f.synced(r); err != nil {
				return err
			}
		case q := <-f.conn.changes:
			f.changeSubscription(q)
		case <-f.events.wake():
			f.events.take(time.Now())
		case <-f.cached.done:
			f.cached.ended()
		case r := <-f.liveness.results:
			if err := f.pinged(r); err != nil {
				return err
			}
		case r := <-f.trials:
			if err := f.compared(r); err != nil {
				return err
			}
		case next := <-f.w.offers:
			if f.w.adopt(next) {
				return errSuperseded
			}
			f.retarget()
		case <-f.w.restarts:
			return errSuperseded
		case <-f.w.rechecks:
			f.syncs.pending.list(f.scope().kinds(), event.CauseResync)
			f.w.co.CheckAll(coalesce.Resync)
		case <-timer.C:
		}
	}
}

// due starts all work whose time has come.
func (f *follower) due(now time.Time) {
	f.w.co.Advance(now)
	f.background.advance(now, f.safetyInterval(), f.w.co)
	f.countMissed(f.unannounced.expired(now), now)
	if f.ready && !now.Before(f.nextResync) {
		f.nextResync = now.Add(backoff.Spread(f.w.opts.Resync))
		f.syncs.pending.list(f.scope().kinds(), event.CauseResync)
		f.syncs.pending.subscribe = f.syncs.pending.subscribe || f.coverage.partial(f.scope())
	}
	if f.ready && !f.nextPoll.IsZero() && !now.Before(f.nextPoll) {
		f.poll(now)
	}
	f.events.due(now)
	if f.liveness.due(now) {
		f.signals(f.s.Signals().Take()) // when only notifications were dropped, the session does not wake this loop
		f.liveness.ping(now, f.w.srv.RequestTimeout)
	}
	if f.syncs.due(now) {
		f.startSync(now)
	}
}

// wakeAt returns when due has something to do next.
func (f *follower) wakeAt() time.Time {
	at := f.w.co.Next()
	times := []time.Time{f.liveness.wakeAt(), f.syncs.wakeAt(), f.background.wakeAt(), f.unannounced.wakeAt(), f.events.wakeAt()}
	if f.ready {
		times = append(times, f.nextResync, f.nextPoll)
	}
	for _, t := range times {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// scope returns what to track now.
func (f *follower) scope() scope { return scope{f.w.srv, &f.w.opts, f.s.Info(), f.w.unreliable} }

// targets returns the resources to track now.
func (f *follower) targets() map[string]event.Descriptor {
	return f.scope().targets(f.w.lists[catalog.Resources], f.clients.uris())
}

// offered returns the URIs of targets, sorted, without the cost of the descriptors.
func (f *follower) offered() []string {
	return f.scope().offered(f.w.lists[catalog.Resources], f.clients.uris())
}

// signals handles the notifications that a session collected.
func (f *follower) signals(b session.Dirty) {
	now := time.Now()
	f.w.pub.dropped(b.Dropped)
	if b.Dropped[session.DroppedUndecodable] > 0 {
		f.w.pub.warnOnce("undecodable", "the server sends messages that cannot be decoded; mcptrack checks everything again after them, at most every 5s", nil)
	}
	if n := b.Dropped[session.DroppedItems]; n > 0 {
		f.w.pub.warnOnce("items", "items of the server's lists are left out, as they have no URI or name, or one of more than 8 KiB", nil, "items", n)
	}
	f.cached.outdated(b.URIs)
	for uri, sig := range b.URIs {
		f.signal(uri, sig, now)
	}
	sc := f.scope()
	for k := range b.Lists {
		if !sc.ignores(k) {
			f.syncs.pending.list([]catalog.Kind{k}, event.CauseNotify)
		}
	}
	switch {
	case b.Silent:
		f.w.log.Debug("compare", "reason", b.Gap)
		f.unannounced.silent(now)
		f.w.co.Suspend()
		f.syncs.compare(now)
	case b.Gap != "":
		f.gap(b.Gap, now)
	}
}

func (f *follower) signal(uri string, sig session.Signal, now time.Time) {
	if _, known := f.w.co.Lookup(uri); !known && f.syncs.hold(uri, sig) {
		return
	}
	f.unannounced.announced(uri)
	f.pushed = true
	f.w.co.Signal(uri, coalesce.Signal{Parent: sig.Parent, N: sig.Count, Received: sig.First}, now)
}

// gap handles a possible loss of notifications.
func (f *follower) gap(reason string, now time.Time) {
	f.w.log.Debug("resync", "reason", reason)
	f.unannounced.reset()
	f.w.co.Suspend()
	f.syncs.gap(now, f.s.Info().Era != session.EraModern, f.w.opts.MaxBackoff)
}

// startSync starts the requested sync in a job.
func (f *follower) startSync(now time.Time) {
	ctx, cancel := context.WithCancel(f.jobs.ctx)
	job := newSyncJob(f.syncs.begin(now, cancel), f.scope(), f.w.lists, f.clients.uris())
	job.subscribed, job.first = f.coverage.asked, !f.ready
	f.clients.begin()
	f.jobs.start(func(context.Context) {
		defer cancel()
		f.syncs.results <- job.run(ctx, f.s)
	})
}

// retarget tracks what the changed entry of the config selects. Resources that
// are no longer selected publish nothing, even if the server still pushes updates.
func (f *follower) retarget() {
	f.s.SetRequestTimeout(f.w.srv.RequestTimeout)
	offered := f.offered()
	f.w.co.Retain(func(uri string) bool { return contains(offered, uri) }, nil)
	f.syncs.pending.merge(syncRequest{subscribe: true})
	f.syncs.pending.list(f.scope().kinds(), event.CauseResync)
	f.syncs.next = time.Time{}
	f.nextPoll = time.Time{}
	f.syncs.abort()
	f.events.retarget()
	if !f.w.srv.TrackResources {
		f.w.pub.unfollow()
		f.lastActive = nil
	}
}

// changeSubscription handles the request of a client to subscribe or unsubscribe.
func (f *follower) changeSubscription(q *subscriptionRequest) {
	covered := func(uri string) bool {
		return has(f.coverage.asked, uri) && !has(f.coverage.missing, uri) && !f.syncs.running && f.syncs.pending.empty()
	}
	selected := func(uri string) bool { return contains(f.offered(), uri) }
	if f.clients.change(q, covered, selected) {
		f.syncs.pending.merge(syncRequest{subscribe: true})
	}
}
