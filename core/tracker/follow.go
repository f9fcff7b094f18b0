package tracker

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// sessionFollower tracks one session. Its event loop runs in the worker's goroutine and owns all
// fields; jobs run in other goroutines and send their results to the loop.
type sessionFollower struct {
	w    *worker
	s    *session.Session
	conn *connection // the part of the session used by clients: cache, requests, subscriptions
	jobs jobs

	// Results of jobs, received by run. Each channel has enough capacity for the results of all
	// concurrent jobs of its kind, so that no job blocks on the worker. The channels are never
	// closed.
	reads  chan readResult // capacity: the maximum number of concurrent reads
	trials chan eraTrial   // sent by tryLegacy, which is called once; dropTrial may also receive
	cards  chan cardResult // capacity 1: sent by dueCard

	reloads  cacheReloads
	syncs    syncs
	coverage coverage
	clients  clientSubscriptions
	liveness liveness
	events   serverEvents
	skills   skillSchedule
	first    firstLists

	background  background
	unannounced missedChanges

	ready        bool                      // the first sync of the session is done
	reason       string                    // reason in the state that was published last
	redescribed  time.Time                 // when the server's capabilities or instructions were last replaced
	renewed      bool                      // they were replaced since the state was published last
	onConnect    bool                      // the tool calls in the config's onConnect were started
	pushed       bool                      // at least one resource update was announced
	unsubscribed bool                      // a resubscription was not answered; the next ping decides whether the server is dead
	files        bool                      // a tracked resource is a file
	lastActive   *event.SubscriptionActive // last published value; nil if none

	nextPoll, nextResync time.Time
	clock                clock
}

func newSessionFollower(w *worker, s *session.Session) *sessionFollower {
	conn := newConnection(w.t, w.id, s)
	f := &sessionFollower{
		w: w, s: s, conn: conn,
		reads:    make(chan readResult, w.opts.Reads),
		trials:   make(chan eraTrial, 1),
		cards:    make(chan cardResult, 1),
		reloads:  cacheReloads{queue: map[string]event.Cause{}, done: make(chan struct{}, 1)},
		syncs:    syncs{results: make(chan syncResult, 1)},
		clients:  clientSubscriptions{conn: conn, wanted: map[string]bool{}, owners: map[string]map[any]bool{}},
		liveness: liveness{results: make(chan pingResult, 1)},
	}
	f.jobs.ctx, f.jobs.cancel = context.WithCancel(context.Background())
	return f
}

// jobs manages the short-lived goroutines of one session: syncs, reads, pings and calls. While the
// worker drains, they continue to run although the worker's context has ended.
type jobs struct {
	ctx    context.Context // cancelled before the session is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (j *jobs) start(job func(context.Context)) { j.wg.Go(func() { job(j.ctx) }) }

// run tracks the session until ctx or the session ends. It returns the reason, which is never nil.
func (f *sessionFollower) run(ctx context.Context) error {
	f.s.SetRequestTimeout(f.w.srv.RequestTimeout) // the config may have changed while dialling
	now := time.Now()
	f.liveness.next = now.Add(f.w.opts.Liveness)
	f.nextResync = now.Add(backoff.Spread(f.w.opts.Resync))
	f.syncs.pending = fullSync()
	f.startEvents()
	f.startCards(now)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now = time.Now()
		if f.clock.jumped(now) {
			f.gap("this machine or process was suspended", now)
			f.liveness.pingNow(now)
		}
		sleepsAt, demand := f.w.sleepsAt()
		if !sleepsAt.IsZero() && !now.Before(sleepsAt) && f.w.t.demands.retire(f.w.id, idle(&f.w.srv)) {
			f.drain(errIdle)
			return errIdle
		}
		f.due(now)
		f.startReads()
		timer.Reset(time.Until(f.clock.expect(earliest(f.wakeAt(), sleepsAt))))
		select {
		case <-demand:
		case <-ctx.Done():
			f.drain(context.Cause(ctx))
			return context.Cause(ctx)
		case <-f.s.Done():
			return f.s.Err()
		case <-f.s.Signals().C():
			f.signals(f.s.Signals().Take())
			runtime.Gosched() // who reads the events runs before this loop looks for what is due
		case r := <-f.reads:
			f.answered(r)
		case r := <-f.syncs.results:
			if err := f.synced(r); err != nil {
				return err
			}
		case q := <-f.conn.changes:
			f.changeSubscription(q)
		case <-f.events.wake():
			f.takeEvents(time.Now())
		case <-f.reloads.done:
			f.reloads.busy = false
			f.startReload()
		case r := <-f.cards:
			f.cardFetched(r)
		case r := <-f.liveness.results:
			if err := f.pinged(r); err != nil {
				return err
			}
		case r := <-f.trials:
			if err := f.trialEnded(r); err != nil {
				return err
			}
		case next := <-f.w.offers:
			if f.w.adopt(next) {
				return errSuperseded
			}
			f.retarget()
		case <-f.w.restarts:
			f.w.eras.left, f.w.eras.late = nil, nil
			return errSuperseded
		case <-f.w.rechecks:
			f.syncs.pending.list(f.scope().kinds(), event.CauseResync)
			f.w.co.CheckAll(coalesce.Resync)
		case <-f.w.touched.wake: // due handles it
		case <-timer.C:
		}
	}
}

func (f *sessionFollower) due(now time.Time) {
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
	if f.ready && f.skills.due(now) {
		f.listSkills(event.CausePoll)
	}
	f.dueTouches(now)
	f.dueEvents(now)
	f.dueCard(now)
	if f.liveness.due(now) {
		f.signals(f.s.Signals().Take()) // if all notifications were dropped, the session does not wake this loop
		f.ping(now)
	}
	if f.syncs.due(now) {
		f.startSync(now)
	}
}

// wakeAt returns when due must next be called.
func (f *sessionFollower) wakeAt() time.Time {
	at := earliest(f.w.co.Next(), f.liveness.wakeAt(), f.syncs.wakeAt(), f.background.wakeAt(), f.unannounced.wakeAt(), f.events.wakeAt(f.ready), f.touchesAt())
	if f.ready {
		at = earliest(at, f.nextResync, f.nextPoll, f.skills.next, f.w.card.next)
	}
	return at
}

// earliest returns the earliest of the non-zero times, or zero if there are none.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// signals handles the notifications collected by the session.
func (f *sessionFollower) signals(b session.Dirty) {
	now := time.Now()
	f.w.addDropped(b.Dropped)
	if b.Dropped[session.DroppedUndecodable] > 0 {
		f.w.warnOnce("undecodable", "the server sends messages that cannot be decoded; mcptrack compares everything again after each of them, at most every 5s", nil)
	}
	if b.Unknown != "" {
		f.w.log.Info("the server announced an update of a resource that is not tracked; further ones are only counted", "uri", printable.Line(b.Unknown, 300))
	}
	if n := b.Dropped[session.DroppedItems]; n > 0 {
		f.w.warnOnce("items", "the server's lists contain items that mcptrack ignores, because their URI or name is missing or longer than 8 KiB", nil, "items", n)
	}
	for uri, sig := range b.URIs { // mark all resources before reading the first of them
		f.conn.cache.Updated(uri)
		if sig.Parent != "" {
			f.conn.cache.Updated(sig.Parent)
		}
	}
	for uri, sig := range b.URIs {
		f.signal(uri, sig, now)
	}
	for k := range b.Lists {
		f.syncs.pending.list([]catalog.Kind{k}, event.CauseNotify)
	}
	if len(b.Lists) > 0 || f.concernSkills(b.URIs) {
		f.listSkills(event.CauseNotify)
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

func (f *sessionFollower) signal(uri string, sig session.Signal, now time.Time) {
	if _, known := f.w.co.Lookup(uri); !known && f.syncs.hold(uri, sig) {
		return
	}
	f.unannounced.announced(uri)
	f.pushed = true
	f.w.co.Signal(uri, coalesce.Signal{Parent: sig.Parent, N: sig.Count, Received: sig.First}, now)
}

func (f *sessionFollower) gap(reason string, now time.Time) {
	f.w.log.Debug("resync", "reason", reason)
	f.unannounced.reset()
	f.w.co.Suspend()
	f.syncs.gap(now, f.s.Info().Era != session.EraModern, f.w.opts.MaxBackoff)
}

// retarget adjusts tracking after the server's config entry changed. Nothing is published about
// resources that are no longer selected, even if the server still pushes updates.
func (f *sessionFollower) retarget() {
	f.s.SetRequestTimeout(f.w.srv.RequestTimeout)
	offered := f.offered()
	f.w.co.Retain(func(uri string) bool { return contains(offered, uri) })
	f.syncs.pending.merge(syncRequest{subscribe: true})
	f.syncs.pending.list(f.scope().kinds(), event.CauseResync)
	f.syncs.next = time.Time{}
	f.nextPoll = time.Time{}
	f.syncs.abort()
	f.retargetEvents()
	if !f.w.srv.TrackResources {
		f.w.clearMode()
		f.lastActive = nil
	}
}

// drain publishes outstanding changes before the session is closed. If the server was removed from
// the config, they are discarded instead.
func (f *sessionFollower) drain(cause error) {
	if errors.Is(cause, errRemoved) {
		return
	}
	over := time.NewTimer(f.w.opts.Drain)
	defer over.Stop()
	f.signals(f.s.Signals().Take())
	f.w.co.EndWindows(time.Now())
	for f.startReads(); f.w.co.Busy(); f.startReads() {
		select {
		case r := <-f.reads:
			f.answered(r)
		case <-f.s.Done():
			return
		case <-over.C:
			return
		}
		f.w.co.EndWindows(time.Now())
	}
}

// openToClients makes the session available to clients.
func (f *sessionFollower) openToClients() {
	f.w.following = f
	f.w.conn.Store(f.conn)
}

// closeToClients ends the clients' access to the session, and clears the session's cache and
// subscriptions.
func (f *sessionFollower) closeToClients() {
	f.w.following = nil
	f.w.conn.Store(nil)
	close(f.conn.ended)
	f.conn.publishing.Lock()
	defer f.conn.publishing.Unlock()
	f.conn.cache.Close()
	f.clients.end()
}

// close stops all jobs, closes the session, and waits for both. In an orderly shutdown it first
// unsubscribes, which takes at most a second.
func (f *sessionFollower) close() {
	if f.s.Err() == nil {
		ctx, cancel := context.WithTimeout(f.jobs.ctx, time.Second)
		f.events.end() // run concurrently with the next steps, because each may take a full second
		f.syncs.quiesce(ctx)
		_, _ = f.s.Subscribe(ctx, session.Filter{})
		f.events.wait(ctx)
		cancel()
	}
	f.jobs.cancel()
	f.s.Close()
	f.w.addDropped(f.s.Signals().Take().Dropped)
	f.jobs.wg.Wait()
	f.dropTrial()
	f.w.co.Abandon()
}

// clockTolerance is how late a timer may fire before the process or the machine is considered to
// have been suspended.
const clockTolerance = 5 * time.Second

// clock detects that this process was suspended: a timer fired far too late (SIGSTOP), or wall time
// advanced further than the monotonic clock, which stops while a machine sleeps.
type clock struct {
	last     time.Time // when jumped was last called
	expected time.Time // latest time at which jumped is expected to be called next
}

// expect records when the caller will wake up, and returns that time. If at is zero (never), it is
// one hour from now.
func (c *clock) expect(at time.Time) time.Time {
	if at.IsZero() {
		at = c.last.Add(time.Hour)
	}
	c.expected = at
	return at
}

// jumped reports whether the process was suspended after the last call.
func (c *clock) jumped(now time.Time) bool {
	last, expected := c.last, c.expected
	c.last = now
	if last.IsZero() {
		return false
	}
	late := now.Sub(expected) > clockTolerance
	asleep := now.Round(0).Sub(last.Round(0))-now.Sub(last) > clockTolerance
	return late || asleep
}
