package tracker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// syncRequest is what the next sync has to do. The zero value asks for nothing.
type syncRequest struct {
	lists     map[catalog.Kind]event.Cause // lists to request, each with the cause of its changes
	all       bool                         // request all wanted lists
	subscribe bool                         // subscribe even if the set of resources stays the same
	compare   bool                         // then read and compare all resources
}

// fullSync subscribes, lists and compares everything.
func fullSync() syncRequest { return syncRequest{all: true, subscribe: true, compare: true} }

func (r *syncRequest) empty() bool { return len(r.lists) == 0 && !r.all && !r.subscribe && !r.compare }

// list requests lists. A list whose change was already announced keeps that cause.
func (r *syncRequest) list(kinds []catalog.Kind, cause event.Cause) {
	if r.lists == nil {
		r.lists = map[catalog.Kind]event.Cause{}
	}
	for _, k := range kinds {
		if r.lists[k] != event.CauseNotify {
			r.lists[k] = cause
		}
	}
}

func (r *syncRequest) merge(o syncRequest) {
	for k, cause := range o.lists {
		r.list([]catalog.Kind{k}, cause)
	}
	r.all = r.all || o.all
	r.subscribe = r.subscribe || o.subscribe
	r.compare = r.compare || o.compare
}

// However often a server announces that a list changed, the syncs that this causes begin at
// least minSync apart, and at most two begin within syncSpan.
const (
	minSync  = 100 * time.Millisecond
	syncSpan = time.Second
)

// maxEarly bounds the signals that are held until the running sync ends; a session delivers
// only signals about URIs that it subscribed to.
const maxEarly = 20_000

// syncs schedules the syncs of one session. At most one runs at a time; requests that arrive
// meanwhile merge into one more.
type syncs struct {
	// results receives the result of every sync and is never closed. Capacity 1.
	results chan syncResult

	pending syncRequest
	next    time.Time // the next sync must not begin earlier
	last    time.Time // when the last sync began
	running bool
	aborted bool               // the running sync was cancelled: another one will do its work
	cancel  context.CancelFunc // of the running one
	retry   *backoff.Backoff   // waits after failed syncs; nil: the last one succeeded
	gaps    gaps
	early   map[string]session.Signal // signals about URIs that the running sync may add
}

// due reports whether a sync should begin now.
func (y *syncs) due(now time.Time) bool {
	return !y.running && !y.pending.empty() && !now.Before(y.next)
}

// wakeAt returns when the next sync is due, zero if none is planned.
func (y *syncs) wakeAt() time.Time {
	if y.running || y.pending.empty() {
		return time.Time{}
	}
	return y.next
}

// begin marks a sync as running and returns what it has to do.
func (y *syncs) begin(now time.Time, cancel context.CancelFunc) syncRequest {
	r := y.pending
	y.pending = syncRequest{}
	y.running, y.next, y.cancel = true, now.Add(minSync), cancel
	if again := y.last.Add(syncSpan); again.After(y.next) {
		y.next = again
	}
	y.last = now
	return r
}

// abort cancels the running sync, if there is one, and requests its work again.
func (y *syncs) abort() {
	if y.running {
		y.aborted = true
		y.cancel()
	}
}

// ended records the end of the running sync. It returns false if the sync was aborted: its
// result must be ignored, because its work was requested again.
func (y *syncs) ended(r syncResult) bool {
	y.running = false
	if !y.aborted {
		if r.made && r.subscribe == nil && !y.pending.compare { // no gap since
			y.gaps.subscribed = time.Now()
		}
		return true
	}
	y.aborted = false
	y.pending.merge(r.job.syncRequest)
	y.pending.merge(syncRequest{subscribe: true, compare: true}) // how much of it was done is unknown
	y.next = time.Time{}
	return false
}

// quiesce cancels the running sync, if there is one, and waits for it: two changes of one
// subscription must not overlap.
func (y *syncs) quiesce(ctx context.Context) {
	if !y.running {
		return
	}
	y.cancel()
	select {
	case <-y.results:
	case <-ctx.Done():
	}
}

// failed plans another attempt at the failed parts of a sync.
func (y *syncs) failed(again syncRequest, now time.Time, opts *Options) {
	if y.retry == nil {
		y.retry = backoff.New(opts.Backoff, opts.MaxBackoff)
	}
	y.pending.merge(again)
	y.next = now.Add(y.retry.Next())
}

// gap plans a full sync because notifications may have been lost, after the wait that gaps
// determines: none if eager is set and gaps are rare. A full sync that is already planned is
// never postponed, unless it came due while another one was running.
func (y *syncs) gap(now time.Time, eager bool, maxWait time.Duration) {
	if y.gaps.retry == nil {
		y.gaps.retry = backoff.New(time.Second, maxWait)
	}
	at := now.Add(y.gaps.next(now, eager))
	overdue := y.running && y.next.Before(now)
	if !y.pending.compare || overdue || at.Before(y.next) {
		y.next = at // never postponed: otherwise repeated gaps could put it off for ever
	}
	y.pending.merge(fullSync())
}

// compare requests an immediate full sync because a stream was silent. There is no backoff: a
// server that has nothing to report is silent again and again, which is no failure.
func (y *syncs) compare(now time.Time) {
	y.next = now
	y.pending.merge(fullSync())
}

// hold keeps a signal about a URI that is not tracked until the running sync, which may add it,
// ends. It returns false if no sync is running.
func (y *syncs) hold(uri string, sig session.Signal) bool {
	if !y.running || len(y.early) >= maxEarly {
		return false
	}
	if y.early == nil {
		y.early = map[string]session.Signal{}
	}
	if first, again := y.early[uri]; again {
		sig.First, sig.Count = first.First, first.Count+sig.Count
	}
	y.early[uri] = sig
	return true
}

// takeEarly returns the signals that were held.
func (y *syncs) takeEarly() map[string]session.Signal {
	early := y.early
	y.early = nil
	return early
}

// minStreamLife is how long a subscription must have lasted so that there is no wait after its
// end.
const minStreamLife = time.Second

// gaps determines how long to wait after a gap before subscribing again: not at all if the
// subscription lasted longer than the last wait, otherwise longer each time.
type gaps struct {
	retry      *backoff.Backoff // the waits, since the last minute without a gap
	last       time.Time        // when the last gap was
	wait       time.Duration    // the wait after the last gap
	subscribed time.Time        // when the subscription after the last gap was made; zero: not yet
}

// next returns how long to wait after a gap.
func (g *gaps) next(now time.Time, eager bool) time.Duration {
	lasted := !g.subscribed.IsZero() && now.Sub(g.subscribed) > max(g.wait, minStreamLife)
	if lasted || now.Sub(g.last) > healthyAfter {
		g.retry.Reset()
	}
	g.last, g.subscribed, g.wait = now, time.Time{}, 0
	if lasted {
		return 0
	}
	if wait := g.retry.Next(); !eager || g.retry.Failures() > 2 {
		g.wait = wait
	}
	return g.wait
}

// syncJob is one sync of a server's lists and subscriptions: a value that has all it needs and
// runs outside the worker's goroutine. It subscribes to the known resources, lists, and
// subscribes again if the lists changed the set. The order matters: no change falls between
// two steps.
type syncJob struct {
	syncRequest
	scope      scope
	known      map[catalog.Kind]catalog.List // the wanted lists before the sync
	clients    []string                      // resources that clients subscribe to
	filter     session.Filter                // the subscription to make before listing
	subscribed map[string]struct{}           // resources that the server was asked to push
	first      bool                          // whether it is the first sync of the session
}

// startSync starts the requested sync in a job.
func (f *sessionFollower) startSync(now time.Time) {
	ctx, cancel := context.WithCancel(f.jobs.ctx)
	sc, lists := f.scope(), f.w.lists
	job := syncJob{
		syncRequest: f.syncs.begin(now, cancel), scope: sc, known: map[catalog.Kind]catalog.List{}, clients: f.clients.uris(),
		subscribed: f.coverage.asked, first: !f.ready,
	}
	for _, k := range sc.kinds() {
		if job.all {
			job.list([]catalog.Kind{k}, event.CauseResync)
		}
		job.known[k] = lists[k]
	}
	maps.DeleteFunc(job.lists, func(k catalog.Kind, _ event.Cause) bool { return !has(job.known, k) })
	job.filter = sc.filter(job.resources(lists[catalog.Resources]))
	f.clients.begin()
	f.jobs.start(func(context.Context) {
		defer cancel()
		f.syncs.results <- job.run(ctx, f.s)
	})
}

// resources returns the URIs to track: those selected from the list, those that the
// config includes by their full URI, and those that clients subscribed to.
func (j *syncJob) resources(list catalog.List) []string { return j.scope.resources(list, j.clients) }

// run does the job.
func (j syncJob) run(ctx context.Context, s *session.Session) syncResult {
	r := syncResult{job: j, lists: map[catalog.Kind]catalog.List{}, listErrs: map[catalog.Kind]error{}}
	r.run(ctx, s)
	if j.first && len(r.lists) == 0 && (len(r.listErrs) > 0 || r.subscribe != nil) {
		// A server that refuses, or answers nonsense, stays connected.
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		r.unresponsive = s.Ping(ctx) != nil
	}
	return r
}

// syncResult is the result of a syncJob.
type syncResult struct {
	job      syncJob
	lists    map[catalog.Kind]catalog.List
	listErrs map[catalog.Kind]error

	// asked is the last subscription that was made, or would have been if the server supported
	// subscriptions; ack is the answer to it. Both are zero if made is false.
	asked     session.Filter
	ack       session.Ack
	made      bool
	subscribe error // why the subscription failed

	interrupted  bool // for a moment there was no subscription
	unlisted     bool // the last such moment was after the lists were loaded
	unresponsive bool // no request was answered
}

// maxInterruptions bounds how often one sync subscribes again because the set of resources
// changes whenever it is listed; the next sync, after a wait, continues.
const maxInterruptions = 3

func (r *syncResult) run(ctx context.Context, s *session.Session) {
	subscribed := r.job.subscribed
	if r.job.subscribe {
		r.subscribeTo(ctx, s, r.job.filter)
		if r.subscribe != nil && !isUnsupported(r.subscribe) {
			return
		}
		subscribed = setOf(r.job.filter.URIs)
		if r.interrupted {
			r.job.list(slices.Collect(maps.Keys(r.job.known)), event.CauseResync)
		}
	}
	r.listAll(ctx, s, slices.Collect(maps.Keys(r.job.lists)))
	for again := 0; ; again++ {
		resources, ok := r.lists[catalog.Resources]
		if !ok {
			return
		}
		filter := r.job.filter
		if r.job.scope.subscribes() {
			filter.URIs = r.job.resources(resources)
		}
		if isUnsupported(r.subscribe) {
			r.asked.URIs = filter.URIs // the server has no subscriptions: these URIs are polled
		}
		if r.subscribe != nil || sameSet(filter.URIs, subscribed) && (!r.job.subscribe || r.made) {
			return
		}
		r.subscribeTo(ctx, s, filter)
		subscribed = setOf(filter.URIs)
		if r.subscribe != nil || !r.ack.Interrupted {
			return
		}
		if again == maxInterruptions {
			r.unlisted = true
			return
		}
		// There was a moment without a subscription: list everything again.
		r.listAll(ctx, s, slices.Collect(maps.Keys(r.job.known)))
	}
}

func (r *syncResult) subscribeTo(ctx context.Context, s *session.Session, f session.Filter) {
	r.asked, r.made = f, true
	r.ack, r.subscribe = s.Subscribe(ctx, f)
	if r.ack.Interrupted && (r.subscribe == nil || isUnsupported(r.subscribe)) {
		r.interrupted = true
	}
}

// listAll loads lists concurrently.
func (r *syncResult) listAll(ctx context.Context, s *session.Session, kinds []catalog.Kind) {
	var (
		mu    sync.Mutex // guards the maps of r
		lists sync.WaitGroup
	)
	for _, k := range kinds {
		lists.Go(func() {
			list, err := loadList(ctx, s, k, len(r.job.known[k]) > 0)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.listErrs[k] = err
			} else {
				r.lists[k] = list
				delete(r.listErrs, k)
			}
		})
	}
	lists.Wait()
}

// confirmEmpty is the time after which a list that became empty is requested once more: some
// servers replace a list by clearing it first.
const confirmEmpty = 250 * time.Millisecond

func loadList(ctx context.Context, s *session.Session, k catalog.Kind, had bool) (catalog.List, error) {
	list, err := s.List(ctx, k)
	if isUnsupported(err) {
		return nil, nil // the capability covers it, but the server has no such list
	}
	if err != nil || len(list) > 0 || !had {
		return list, err
	}
	backoff.Sleep(ctx, confirmEmpty)
	return s.List(ctx, k)
}

// err returns what failed in the sync, nil if nothing did.
func (r *syncResult) err() error {
	errs := slices.Collect(maps.Values(r.listErrs))
	if r.subscribe != nil && !isUnsupported(r.subscribe) {
		errs = append(errs, r.subscribe)
	}
	return errors.Join(errs...)
}

// unanswered reports whether any request of the sync was not answered.
func (r *syncResult) unanswered() bool {
	for _, err := range r.listErrs {
		if unanswered(err) {
			return true
		}
	}
	return unanswered(r.subscribe)
}

// isUnsupported reports whether the server lacks what was requested.
func isUnsupported(err error) bool { return errors.Is(err, session.ErrUnsupported) }

// synced applies the result of a sync, each list in one step. An error means that the
// session must end.
func (f *sessionFollower) synced(r syncResult) error {
	if !f.syncs.ended(r) {
		return nil
	}
	if r.unresponsive {
		return r.err()
	}
	sc := f.scope()
	var delta catalog.Delta // of the resources
	for _, k := range sortedKeys(r.lists) {
		if !sc.wants(k) {
			continue // the list is no longer tracked
		}
		d := f.w.setList(k, r.lists[k], cmp.Or(r.job.lists[k], event.CauseResync))
		if k == catalog.Resources {
			delta = d
		}
	}
	f.retry(r)
	now := time.Now()
	if f.ready && r.unanswered() {
		f.liveness.pingSoon(now) // the server may be dead
	}
	if r.interrupted {
		r.job.compare = true
		if !sameSet(r.asked.URIs, setOf(r.job.resources(f.w.lists[catalog.Resources]))) {
			f.syncs.pending.merge(fullSync())
		}
	}
	before := f.coverage
	if f.unsubscribed = f.ready && unanswered(r.subscribe); !f.unsubscribed {
		f.coverage.update(r, sc)
	}
	if before.mode == event.Poll && f.coverage.mode == event.Push {
		r.job.compare = true // no change since the last poll was announced
	}
	f.track(r, before, delta.Removed)
	for _, uri := range delta.Changed {
		f.w.co.Recheck(uri, coalesce.Resync) // a new size or type may mean new content
	}
	if f.clients.answer(r, &f.coverage) {
		f.syncs.pending.merge(syncRequest{subscribe: true})
	}
	f.becomeReady()
	if f.w.srv.TrackResources && f.s.Info().Capabilities.Resources {
		f.announceMode()
	}
	f.coverage.warn(f.w)
	f.tryLegacy(f.lacks())
	if r.job.compare {
		f.w.co.CompareAll()
	}
	for uri, sig := range f.syncs.takeEarly() {
		f.signal(uri, sig, now)
	}
	if r.lists[catalog.Resources] != nil && r.job.lists[catalog.Resources] == event.CauseNotify {
		f.background.sweep(now)
	}
	f.planPolls(now)
	if calls := f.w.srv.OnConnect; !f.onConnect && len(calls) > 0 {
		f.jobs.start(func(ctx context.Context) { f.conn.callAll(ctx, calls, f.w.log) })
	}
	f.onConnect = true
	return nil
}

// retry requests again whatever failed in a sync, or was left out.
func (f *sessionFollower) retry(r syncResult) {
	if r.err() == nil && r.unlisted {
		f.syncs.failed(fullSync(), time.Now(), &f.w.opts)
		return
	}
	if r.err() == nil {
		f.syncs.retry = nil
		return
	}
	f.w.failures++
	var again syncRequest
	for _, k := range sortedKeys(r.listErrs) {
		f.w.listFailed(k, r.listErrs[k])
		again.list([]catalog.Kind{k}, cmp.Or(r.job.lists[k], event.CauseResync))
	}
	if r.subscribe != nil {
		if !f.ready || !unanswered(r.subscribe) {
			f.w.warnOnce("subscribe", "cannot subscribe to resources; polling for changes meanwhile", r.subscribe)
		}
		again.merge(syncRequest{subscribe: true, compare: true})
		again.list(f.scope().kinds(), event.CauseResync)
	}
	f.syncs.failed(again, time.Now(), &f.w.opts)
}

// track tracks the resources that the list and the config select now. before is the coverage
// before the sync, and unlisted are the resources that just left the list.
func (f *sessionFollower) track(r syncResult, before coverage, unlisted []string) {
	co := f.w.co
	targets := f.targets()
	subscribes := f.scope().subscribes()
	for uri, desc := range targets {
		was, known := co.Lookup(uri)
		if !known && subscribes && !has(f.coverage.asked, uri) {
			continue // selected during the sync: the next sync subscribes to it first
		}
		co.Add(uri, desc)
		switch _, listed := r.lists[catalog.Resources].Get(uri); {
		case r.job.compare: // everything is read anyway
		case !known:
			co.FirstLook(uri)
		case f.coverage.pushes(uri) && !before.pushes(uri):
			co.Compare(uri) // changes in the meantime were not announced
		case was.Gone && listed:
			co.Recheck(uri, coalesce.Resync) // it was missing when it was read, and has returned
		}
	}
	gone := setOf(unlisted)
	co.Retain(func(uri string) bool { return has(targets, uri) }, func(uri string) bool { return has(gone, uri) })
}

// becomeReady publishes the state that the server's capabilities allow: after the first
// sync, and when another entry of the config leads to another state. A server without
// resources is ready if other lists of it are tracked.
func (f *sessionFollower) becomeReady() {
	info := f.s.Info()
	if info.Other = f.w.eras.other; info.Other == info.Era {
		info.Other = ""
	}
	st := event.ServerState{State: event.Ready, ProtocolVersion: info.ProtocolVersion, Era: string(info.Era)}
	if info.Era == session.EraLegacy {
		st.Reason = f.w.eras.reason
	}
	srv, caps := f.w.srv, info.Capabilities
	if srv.TrackResources && !caps.Resources && !(srv.TrackTools && caps.Tools) && !(srv.TrackPrompts && caps.Prompts) {
		st.State, st.Reason = event.Unsupported, "the server does not offer resources"
		f.w.warnOnce("resources", st.Reason, nil)
	}
	if srv.Superseded {
		st.State, st.StillConnected, st.Reason, st.Error = event.Unapproved, true, "still connected, as approved before", errorLine(&config.UnapprovedError{Hint: srv.Unapproved})
	}
	if f.ready && st.State == f.w.state && st.Error == f.w.waits.Error {
		return
	}
	f.ready = true
	f.w.publishConnected(st, info)
	f.w.retries.attempt = 0
}
