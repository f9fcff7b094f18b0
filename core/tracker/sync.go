package tracker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// syncRequest describes what the next sync must do. The zero value requests nothing.
type syncRequest struct {
	lists     map[catalog.Kind]event.Cause // lists to load, with the cause to publish for their changes
	all       bool                         // load all wanted lists
	subscribe bool                         // subscribe even if the set of resources is unchanged
	compare   bool                         // read and compare all resources after the sync
}

// fullSync returns a request to subscribe, load all lists and compare all resources.
func fullSync() syncRequest { return syncRequest{all: true, subscribe: true, compare: true} }

func (r *syncRequest) empty() bool { return len(r.lists) == 0 && !r.all && !r.subscribe && !r.compare }

// list requests that lists be loaded. If a change to a list was already announced, the original
// cause is kept. It is not inlined, because it would be 26 KB larger in its callers.
//
//go:noinline
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

// Rate limits for syncs caused by announced list changes: they start at least minSync apart, and at
// most two start within syncSpan.
const (
	minSync  = 100 * time.Millisecond
	syncSpan = time.Second
)

// maxEarly limits the number of signals that are held until the running sync ends. A session only
// delivers signals for URIs that it subscribed to.
const maxEarly = 20_000

// syncs schedules the syncs of one session. At most one sync runs at a time; requests that arrive
// in the meantime are merged into a single following sync.
type syncs struct {
	// results receives the result of every sync. It has a capacity of 1 and is never closed.
	results chan syncResult

	pending syncRequest
	next    time.Time // earliest start of the next sync
	last    time.Time // when the last sync started
	running bool
	aborted bool               // the running sync was cancelled; another sync will do its work
	cancel  context.CancelFunc // cancels the context of the running sync
	retry   *backoff.Backoff   // delays after failed syncs; nil if the last sync succeeded
	gaps    gaps
	early   map[string]session.Signal // signals for URIs that the running sync may start to track
}

func (y *syncs) due(now time.Time) bool {
	return !y.running && !y.pending.empty() && !now.Before(y.next)
}

// wakeAt returns when the next sync is due, or zero if none is scheduled.
func (y *syncs) wakeAt() time.Time {
	if y.running || y.pending.empty() {
		return time.Time{}
	}
	return y.next
}

// begin marks a sync as running and returns what it must do.
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

// abort cancels the running sync, if any, and requests its work again.
func (y *syncs) abort() {
	if y.running {
		y.aborted = true
		y.cancel()
	}
}

// ended records that the running sync has ended. It returns false if the sync was aborted: its
// result must then be ignored, because its work has been requested again.
func (y *syncs) ended(r syncResult) bool {
	y.running = false
	if !y.aborted {
		if r.made && r.subscribe == nil && !y.pending.compare { // no gap occurred in the meantime
			y.gaps.subscribed = time.Now()
		}
		return true
	}
	y.aborted = false
	y.pending.merge(r.job.syncRequest)
	y.pending.merge(syncRequest{subscribe: true, compare: true}) // it is unknown how much of its work was done
	y.next = time.Time{}
	return false
}

// quiesce cancels the running sync, if any, and waits until it has ended, because two changes to
// one subscription must not overlap.
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

// failed schedules another attempt at the failed parts of a sync.
func (y *syncs) failed(again syncRequest, now time.Time, opts *Options) {
	if y.retry == nil {
		y.retry = backoff.New(opts.Backoff, opts.MaxBackoff)
	}
	y.pending.merge(again)
	y.next = now.Add(y.retry.Next())
}

// gap schedules a full sync because notifications may have been lost. The delay is determined by
// gaps: there is none if eager is set and gaps are rare. A full sync that is already scheduled is
// never postponed, unless it came due while another sync was running.
func (y *syncs) gap(now time.Time, eager bool, maxWait time.Duration) {
	if y.gaps.retry == nil {
		y.gaps.retry = backoff.New(time.Second, maxWait)
	}
	at := now.Add(y.gaps.next(now, eager))
	overdue := y.running && y.next.Before(now)
	if !y.pending.compare || overdue || at.Before(y.next) {
		y.next = at // never postponed: otherwise repeated gaps could delay it indefinitely
	}
	y.pending.merge(fullSync())
}

// compare requests an immediate full sync because a stream was silent. There is no backoff, because
// a server that has nothing to report is repeatedly silent without any failure.
func (y *syncs) compare(now time.Time) {
	y.next = now
	y.pending.merge(fullSync())
}

// hold stores a signal for an untracked URI until the running sync ends, because the sync may start
// to track the URI. It returns false if no sync is running.
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

// takeEarly returns the signals that were stored by hold, and clears them.
func (y *syncs) takeEarly() map[string]session.Signal {
	early := y.early
	y.early = nil
	return early
}

// minStreamLife is how long a subscription must last for the tracker to subscribe again without
// delay after it ends.
const minStreamLife = time.Second

// gaps determines how long to wait before subscribing again after a gap: there is no delay if the
// subscription lasted longer than the last delay; otherwise the delay increases each time.
type gaps struct {
	retry      *backoff.Backoff // delays; reset after a minute without a gap
	last       time.Time        // when the last gap occurred
	wait       time.Duration    // delay after the last gap
	subscribed time.Time        // when the subscription after the last gap was made; zero if it has not been
}

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

// syncJob is one sync of a server's lists and subscriptions. It is a self-contained value that runs
// outside the worker's goroutine. It subscribes to the known resources, loads the lists, and
// subscribes again if the lists changed the set of resources. The order ensures that no change
// between two steps is missed.
type syncJob struct {
	syncRequest
	scope      scope
	known      map[catalog.Kind]catalog.List // wanted lists as they were before the sync
	clients    []string                      // resources that clients subscribe to
	filter     session.Filter                // subscription to make before loading the lists
	subscribed map[string]struct{}           // resources whose updates the server was asked to push
	first      *firstLists                   // of the session, in its first sync; otherwise nil
	careful    bool                          // request one list after the other
}

func (f *sessionFollower) startSync(now time.Time) {
	ctx, cancel := context.WithCancel(f.jobs.ctx)
	sc := f.scope()
	job := syncJob{
		syncRequest: f.syncs.begin(now, cancel), scope: sc, known: map[catalog.Kind]catalog.List{}, clients: f.clients.uris(),
		subscribed: f.coverage.asked, careful: f.w.eras.careful && !f.ready,
	}
	if !f.ready {
		job.first = &f.first
	}
	for _, k := range sc.kinds() {
		if job.all {
			job.list([]catalog.Kind{k}, event.CauseResync)
		}
		job.known[k] = f.w.list(k)
	}
	maps.DeleteFunc(job.lists, func(k catalog.Kind, _ event.Cause) bool {
		return !has(job.known, k) || !f.ready && f.w.eras.late[k]
	})
	job.filter = sc.filter(job.resources(f.w.list(catalog.Resources)))
	f.clients.begin()
	f.jobs.start(func(context.Context) {
		defer cancel()
		f.syncs.results <- job.run(ctx, f.s)
	})
}

// resources returns the URIs to track: resources selected from the list, resources that the config
// includes by their full URI, and resources that clients subscribed to.
func (j *syncJob) resources(list catalog.List) []string { return j.scope.resources(list, j.clients) }

func (j syncJob) run(ctx context.Context, s *session.Session) syncResult {
	r := syncResult{job: j, lists: map[catalog.Kind]catalog.List{}, listErrs: map[catalog.Kind]error{}}
	r.run(ctx, s)
	if j.first != nil && (len(r.lists) == 0 && (len(r.listErrs) > 0 || r.subscribe != nil) || r.unanswered()) {
		// A server that refuses the request or sends an invalid response stays connected.
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		r.unresponsive = s.Ping(ctx) != nil
	}
	return r
}

// syncResult holds the outcome of a syncJob.
type syncResult struct {
	job      syncJob
	lists    map[catalog.Kind]catalog.List
	listErrs map[catalog.Kind]error
	skills   session.Skills // the list of skills, if lists has it

	// asked is the last subscription that was made, or that would have been made if the server
	// supported subscriptions; ack is the server's response to it. Both are zero if made is false.
	asked     session.Filter
	ack       session.Ack
	made      bool
	subscribe error // error of the subscription request, if it failed

	interrupted  bool // there was temporarily no subscription
	unlisted     bool // the subscription was last interrupted after the lists were loaded
	unresponsive bool // no request was answered
}

// maxInterruptions limits how often one sync subscribes again because the set of resources changes
// each time it is listed. The next sync continues after a delay.
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
			r.asked.URIs = filter.URIs // the server does not support subscriptions: these URIs are polled
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
		// There was temporarily no subscription: load all lists again.
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

// listAll loads the given lists concurrently and stores the results in r.
func (r *syncResult) listAll(ctx context.Context, s *session.Session, kinds []catalog.Kind) {
	var (
		mu    sync.Mutex // guards the maps in r
		lists sync.WaitGroup
	)
	var broken error // of the first list that was not answered, if they are requested one after the other
	for _, k := range inOrder(kinds) {
		if broken != nil {
			r.listErrs[k] = broken
			continue
		}
		if r.job.first != nil {
			r.job.first.begin(k)
		}
		lists.Go(func() {
			var skills session.Skills
			list, err := loadList(ctx, k, len(r.job.known[k]) > 0, func(ctx context.Context) (catalog.List, error) {
				if k != catalog.Skills {
					return s.List(ctx, k)
				}
				var err error
				skills, err = s.ListSkills(ctx)
				return skills.List, err
			})
			if r.job.first != nil {
				r.job.first.end(k, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if k == catalog.Skills {
				r.skills = skills
			}
			if err != nil {
				r.listErrs[k] = err
			} else {
				r.lists[k] = list
				delete(r.listErrs, k)
			}
		})
		if r.job.careful {
			if lists.Wait(); unanswered(r.listErrs[k]) {
				broken = r.listErrs[k]
			}
		}
	}
	lists.Wait()
}

// confirmEmpty is the delay after which a list that became empty is requested again, because some
// servers clear a list before they refill it.
const confirmEmpty = 250 * time.Millisecond

func loadList(ctx context.Context, k catalog.Kind, had bool, load func(context.Context) (catalog.List, error)) (catalog.List, error) {
	list, err := load(ctx)
	if isUnsupported(err) && k != catalog.Skills && !had {
		return nil, nil // the capability covers this list, but the server does not implement it
	}
	if err != nil || len(list) > 0 || !had {
		return list, err
	}
	backoff.Sleep(ctx, confirmEmpty)
	return load(ctx)
}

// err returns the joined errors of all failed parts of the sync, or nil if nothing failed.
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

// isUnsupported reports whether err means that the server does not support the request.
func isUnsupported(err error) bool { return errors.Is(err, session.ErrUnsupported) }

// synced applies the result of a sync, replacing each list atomically. If it returns an error, the
// session must end.
func (f *sessionFollower) synced(r syncResult) error {
	if !f.syncs.ended(r) {
		return nil
	}
	if r.unresponsive {
		return r.err()
	}
	sc := f.scope()
	var delta catalog.Delta // changes to the list of resources
	for _, k := range sortedKeys(r.lists) {
		if !sc.wants(k) {
			continue // the list is no longer tracked
		}
		delete(f.w.unloaded, k)
		delete(f.w.eras.late, k)
		d := f.w.setList(k, r.lists[k], cmp.Or(r.job.lists[k], event.CauseResync))
		if k == catalog.Resources {
			delta = d
		}
	}
	f.retry(r)
	now := time.Now()
	f.skillsListed(r, now)
	if f.ready && r.unanswered() {
		f.liveness.pingSoon(now) // the server may be dead
	}
	if r.interrupted {
		r.job.compare = true
		if !sameSet(r.asked.URIs, setOf(r.job.resources(f.w.list(catalog.Resources)))) {
			f.syncs.pending.merge(fullSync())
		}
	}
	before := f.coverage
	if f.unsubscribed = f.ready && unanswered(r.subscribe); !f.unsubscribed {
		f.coverage.update(r, sc)
	}
	if before.mode == event.Poll && f.coverage.mode == event.Push {
		r.job.compare = true // changes since the last poll were not announced
	}
	f.track(r, before)
	for _, uri := range delta.Changed {
		f.w.co.Recheck(uri, coalesce.Resync) // a new size or type may indicate new content
	}
	if f.clients.answer(r, &f.coverage) {
		f.syncs.pending.merge(syncRequest{subscribe: true})
	}
	f.firstSynced()
	f.becomeReady()
	f.announceActive()
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

// retry schedules another attempt at everything that failed in a sync or was left out.
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
		if k == catalog.Skills && isUnsupported(r.listErrs[k]) {
			continue // see skillsListed
		}
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

// firstSynced ends the first sync. The lists that the server did not answer, although it lives, are not part of
// the first sync of the next sessions, because they would delay it; they are requested after it.
func (f *sessionFollower) firstSynced() {
	if f.ready {
		return
	}
	e := &f.w.eras
	f.syncs.pending.list(slices.Collect(maps.Keys(e.late)), event.CauseResync)
	if silent, answered := f.first.result(); answered {
		for _, k := range silent {
			if e.late == nil {
				e.late = map[catalog.Kind]bool{}
			}
			e.late[k] = true
		}
	}
	e.careful = e.careful && len(e.left) > 0
}

// track starts to track the resources that the list and the config now select. before is the
// coverage before the sync.
func (f *sessionFollower) track(r syncResult, before coverage) {
	co := f.w.co
	targets := f.targets()
	subscribes := f.scope().subscribes()
	f.files = false
	for uri, desc := range targets {
		f.files = f.files || strings.HasPrefix(uri, "file:")
		was, known := co.Lookup(uri)
		if !known && subscribes && !has(f.coverage.asked, uri) {
			continue // selected during the sync: the next sync must subscribe to it first
		}
		co.Add(uri, desc)
		switch _, listed := r.lists[catalog.Resources].Get(uri); {
		case r.job.compare: // all resources will be read anyway
		case !known:
			co.FirstLook(uri)
		case f.coverage.pushes(uri) && !before.pushes(uri):
			co.Compare(uri) // changes in the meantime were not announced
		case was.Gone && listed:
			co.Recheck(uri, coalesce.Resync) // the resource was missing when it was last read, and is now listed again
		}
	}
	co.Retain(func(uri string) bool { return has(targets, uri) })
}

// becomeReady publishes the state that the server's capabilities allow. It is called after the
// first sync, when a new config entry results in a different state, and when the server describes
// itself differently. A server without resources
// is Ready if any of its other lists is tracked; if the user asked for its resources, the reason of
// the state says that there are none. If nothing that it offers is tracked, a warning says so once.
func (f *sessionFollower) becomeReady() {
	info := f.s.Info()
	if info.Other = f.w.eras.other; info.Other == info.Era {
		info.Other = ""
	}
	st := event.ServerState{State: event.Ready, ProtocolVersion: info.ProtocolVersion, Era: string(info.Era)}
	st.Instructions, st.InstructionsDigest = catalog.Text(info.Instructions)
	if info.Era == session.EraLegacy {
		st.Reason = f.w.eras.reason
	}
	srv, caps := f.w.srv, info.Capabilities
	if srv.TrackResources && !caps.Resources {
		if !(srv.TrackTools && caps.Tools) && !(srv.TrackPrompts && caps.Prompts) && !(srv.TrackSkills && caps.Skills) {
			st.State, st.Reason = event.Unsupported, event.NoResources
		}
		if !srv.Unasked {
			st.Reason = event.NoResources
		}
		if !srv.Unasked && st.State == event.Unsupported {
			f.w.warnOnce("resources", event.NoResources, nil, "hint", `set "trackTools", "trackPrompts" or "trackSkills" instead of "trackResources"`)
		}
	}
	if srv.Superseded {
		st.State, st.StillConnected, st.Reason, st.Error = event.Unapproved, true, "still connected, as approved before", errorLine(&config.UnapprovedError{Hint: srv.Unapproved})
	}
	if f.ready && !f.renewed && st.State == f.w.state && st.Error == f.w.waits.Error && st.Reason == f.reason {
		return
	}
	if !f.ready && st.State == event.Ready {
		st.ConnectedIn = event.Milliseconds(time.Since(f.w.began))
	}
	f.ready, f.renewed, f.reason = true, false, st.Reason
	f.w.publishConnected(st, info)
	f.w.retries.attempt = 0
}
