package tracker

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// synced applies the result of a sync, as one step for each list. An error means that the
// session must end.
func (f *follower) synced(r syncResult) error {
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
		f.announce()
	}
	f.coverage.warn(f.w.pub, f.w.srv.Read)
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
		f.jobs.start(func(ctx context.Context) { callAll(ctx, f.conn, calls, f.w.log) })
	}
	f.onConnect = true
	return nil
}

// pinged takes in the result of a ping. If the server is alive but did not answer the last
// request to subscribe, it is polled until a subscription succeeds.
func (f *follower) pinged(r pingResult) error {
	if err := f.liveness.ended(r); err != nil || r.err != nil || !f.unsubscribed {
		return err
	}
	f.unsubscribed = false
	f.coverage.poll()
	f.announce()
	f.planPolls(time.Now())
	return nil
}

// retry requests again whatever failed in a sync, or was left out.
func (f *follower) retry(r syncResult) {
	if r.err() == nil && r.unlisted {
		f.syncs.failed(fullSync(), time.Now(), &f.w.opts)
		return
	}
	if r.err() == nil {
		f.syncs.retry = nil
		return
	}
	f.w.pub.failures++
	var again syncRequest
	for _, k := range sortedKeys(r.listErrs) {
		f.w.pub.listFailed(k, r.listErrs[k])
		again.list([]catalog.Kind{k}, cmp.Or(r.job.lists[k], event.CauseResync))
	}
	if r.subscribe != nil {
		if !f.ready || !unanswered(r.subscribe) {
			f.w.pub.warnOnce("subscribe", "cannot subscribe to resources; polling for changes meanwhile", r.subscribe)
		}
		again.merge(syncRequest{subscribe: true, compare: true})
		again.list(f.scope().kinds(), event.CauseResync)
	}
	f.syncs.failed(again, time.Now(), &f.w.opts)
}

// track tracks the resources that the list and the config select now. before is the coverage
// before the sync, and unlisted are the resources that just left the list.
func (f *follower) track(r syncResult, before coverage, unlisted []string) {
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
			co.Recheck(uri, coalesce.Resync) // it was missing when it was read, and is back
		}
	}
	gone := setOf(unlisted)
	co.Retain(func(uri string) bool { return has(targets, uri) }, func(uri string) bool { return has(gone, uri) })
}

// becomeReady publishes the state that the server's capabilities allow: after the first
// sync, and when another entry of the config leads to another state. A server without
// resources is ready if other lists of it are tracked.
func (f *follower) becomeReady() {
	info := f.s.Info()
	if info.Other = f.w.eras.other; info.Other == info.Era {
		info.Other = ""
	}
	st := event.ServerState{ProtocolVersion: info.ProtocolVersion, Era: string(info.Era)}
	if info.Era == session.EraLegacy {
		st.Reason = f.w.eras.reason
	}
	state := event.Ready
	srv, caps := f.w.srv, info.Capabilities
	if srv.TrackResources && !caps.Resources && !(srv.TrackTools && caps.Tools) && !(srv.TrackPrompts && caps.Prompts) {
		state, st.Reason = event.Unsupported, "the server does not offer resources"
		f.w.pub.warnOnce("resources", st.Reason, nil)
	}
	if srv.Superseded {
		state, st.StillConnected, st.Reason, st.Error = event.Unapproved, true, "still connected, as approved before", errorLine(&config.UnapprovedError{Hint: srv.Unapproved})
	}
	if f.ready && state == f.w.pub.state && st.Error == f.w.pub.waits.Error {
		return
	}
	f.ready = true
	f.w.pub.connected(state, st, info)
	f.w.retries.attempt = 0
}

// announce publishes how changes of resources are noticed from now on, once in each session and
// whenever it changes.
func (f *follower) announce() {
	active := event.SubscriptionActive{
		Resources: event.ResourceSet{Count: len(f.offered())},
		Mode:      f.coverage.mode,
		Missing:   sortedKeys(f.coverage.missing),
	}
	if f.events.coverage.Resources {
		active.Mode = event.Push
	}
	if f.w.srv.Read == config.ReadNone && active.Mode == event.Poll {
		active.Mode = "" // polling would need reads
	}
	if last := f.lastActive; last != nil && active.Mode == last.Mode && active.Resources.Count == last.Resources.Count &&
		slices.Equal(active.Missing, last.Missing) {
		return
	}
	switch {
	case active.Mode == event.Poll && f.w.srv.Mode == config.ModePoll: // as the config says
	case active.Mode == event.Poll:
		f.w.pub.warnOnce("poll", "the server does not push changes of resources; polling for them every "+f.w.srv.PollInterval.String(), nil)
	case active.Mode == "":
		f.w.pub.warnOnce("unnoticed", `the server does not push changes of resources, and with "read": "none" they are not detected; set "read": "digest"`, nil)
	}
	f.lastActive = &active
	f.w.pub.subscribed(active)
}

// callAll makes the calls of the config's onConnect, one after the other.
func callAll(ctx context.Context, conn *connection, calls []config.ToolCall, log *slog.Logger) {
	for _, c := range calls {
		if err := callTool(ctx, conn, c); err != nil && ctx.Err() == nil {
			log.Warn("onConnect call failed", "tool", c.Tool, "err", errorLine(err))
		}
	}
}

// planPolls sets the time of the next poll, if anything tracked is not pushed.
func (f *follower) planPolls(now time.Time) {
	switch {
	case f.coverage.mode != event.Poll && len(f.coverage.missing) == 0 && len(f.scope().polledLists(f.coverage.lists)) == 0:
		f.nextPoll = time.Time{}
	case f.nextPoll.IsZero():
		f.nextPoll = now.Add(backoff.Spread(f.events.pollInterval()))
	}
}

// poll lists and reads whatever is not pushed.
func (f *follower) poll(now time.Time) {
	f.nextPoll = now.Add(backoff.Spread(f.events.pollInterval()))
	f.syncs.pending.list(f.scope().polledLists(f.coverage.lists), event.CausePoll)
	if f.coverage.mode == event.Poll {
		f.w.co.CheckAll(coalesce.Poll)
		return
	}
	for uri := range f.coverage.missing {
		f.w.co.Check(uri, coalesce.Poll)
	}
}

// countMissed counts changes that the server failed to announce. After maxMissed of them it is
// polled.
func (f *follower) countMissed(n int, now time.Time) {
	if n == 0 {
		return
	}
	f.w.pub.missedChanges(n)
	if f.doubtful() {
		f.tryLegacy(lacks{updates: true})
	}
	if f.w.missed += n; f.w.missed < maxMissed || f.coverage.mode != event.Push {
		return
	}
	f.w.unreliable = true
	f.tryLegacy(lacks{updates: true})
	f.coverage.poll()
	f.announce()
	f.planPolls(now)
}
