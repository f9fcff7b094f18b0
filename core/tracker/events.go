package tracker

import (
	"cmp"
	"context"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
	"github.com/mcptrack/mcptrack/core/tracker/internal/eventsource"
)

// eventFollower passes the events that a server sends (MCP Events) to its follower: the third
// source of changes beside notifications and polls. An event only marks a resource, which is
// then read and compared: a wrong event costs one read, and a change that is also notified is
// published once. It is part of its follower.
type eventFollower struct {
	f      *follower
	want   config.Events
	source *eventsource.Source // nil: events are not followed
	cancel context.CancelFunc  // of source
	ended  chan struct{}       // closed by the job that runs source

	coverage eventsource.Coverage // which changes are reported by events
	gap      string               // why everything has to be compared; "": it has not
	compared time.Time            // when the last such comparison began
	unlisted bool                 // an unknown resource was named since listed
	listed   time.Time            // when an unknown resource last caused a list
}

const (
	// minCompare is the least time between two comparisons because of missing events, and
	// between two lists because of unknown resources.
	minCompare = 5 * time.Second
	// coveredPolls is the factor by which polls become rarer while events report the changes.
	coveredPolls = 10
)

// start follows the events that the config asks for, in a job.
func (e *eventFollower) start() {
	f := e.f
	e.want = f.w.srv.Events
	if e.want.Off || !f.s.Info().Capabilities.Events {
		return
	}
	e.source = eventsource.New(eventsource.Options{
		Session: f.s, Want: e.want, Cursors: f.w.pub.cursors, Timeout: cmp.Or(f.w.srv.RequestTimeout, config.DefaultRequestTimeout),
		Poll: f.w.srv.PollInterval, MaxBackoff: f.w.opts.MaxBackoff, Logger: f.w.log,
		Webhooks: f.w.t.opts.Webhooks, Server: f.w.id,
	})
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(f.jobs.ctx)
	source, ended := e.source, make(chan struct{})
	e.ended = ended
	f.jobs.start(func(context.Context) {
		defer close(ended)
		source.Run(ctx)
	})
}

// end begins to end the subscriptions, while the session still lasts. Events that have arrived
// are not taken, and neither are their cursors, so nothing is lost.
func (e *eventFollower) end() {
	if e.source != nil {
		e.cancel()
	}
}

// wait waits until the subscriptions have ended, or ctx has.
func (e *eventFollower) wait(ctx context.Context) {
	if e.source == nil {
		return
	}
	select {
	case <-e.ended:
	case <-ctx.Done():
	}
}

// retarget applies a changed "events" key of the config.
func (e *eventFollower) retarget() {
	now := e.f.w.srv.Events
	if (config.Server{Tracking: config.Tracking{Events: now}}).Equal(config.Server{Tracking: config.Tracking{Events: e.want}}) {
		return
	}
	if e.source != nil {
		e.take(time.Now())
		e.cancel()
		e.source, e.coverage = nil, eventsource.Coverage{}
	}
	e.start()
}

// wake returns the channel that receives when take has work to do; nil if nothing is followed.
func (e *eventFollower) wake() <-chan struct{} {
	if e.source == nil {
		return nil
	}
	return e.source.C()
}

// take handles the events that have arrived.
func (e *eventFollower) take(now time.Time) {
	f, b := e.f, e.source.Take()
	for uri, first := range b.URIs {
		e.announced(uri, first, now)
	}
	sc := f.scope()
	for _, k := range sortedKeys(b.Lists) {
		if sc.wants(k) && !sc.ignores(k) {
			f.syncs.pending.list(sc.kindsOf(k), event.CauseEvent)
		}
	}
	for _, o := range b.Events {
		f.w.t.store.publish(event.Event{ServerID: f.w.id, Cause: event.CauseEvent,
			Payload: event.ServerEvent{Name: f.s.Redact(o.Name), EventID: f.s.Redact(o.ID), Size: o.Size}})
	}
	for _, name := range b.Forbidden {
		f.w.pub.publishState(event.ServerState{State: f.w.pub.state, Reason: "the server denies access to events of type " + f.s.Redact(printable.Line(name, 100))}, nil)
	}
	switch {
	case !f.ready: // the first sync reads everything anyway
	case b.Gap != "":
		e.gap = cmp.Or(e.gap, b.Gap)
	case b.Began && !f.scope().pushes() && f.w.co.Digests():
		e.gap = cmp.Or(e.gap, "events are followed from here on") // no event reported changes before this
	}
	if len(b.Cursors) > 0 {
		f.w.pub.followed(b.Merge(f.w.pub.cursors))
	}
	if b.Coverage != e.coverage {
		e.coverage = b.Coverage
		e.covered(now)
	}
}

// announced marks a resource named by an event. If it is unknown, it may be new, and is looked
// for in the list.
func (e *eventFollower) announced(uri string, first, now time.Time) {
	f := e.f
	f.conn.cache.Updated(uri)
	if _, known := f.w.co.Lookup(uri); !known {
		e.unlisted = e.unlisted || f.scope().selects(uri) // see due
		return
	}
	f.unannounced.announced(uri)
	if f.w.co.Digests() {
		f.w.co.Recheck(uri, coalesce.Event)
		return
	}
	f.w.co.Signal(uri, coalesce.Signal{N: 1, Received: first, Cause: event.CauseEvent}, now)
}

// covered handles that the set of changes that events report is another than before.
func (e *eventFollower) covered(now time.Time) {
	f := e.f
	if at := now.Add(f.w.srv.PollInterval); !e.coverage.Resources && at.Before(f.nextPoll) {
		f.nextPoll = time.Time{} // poll sooner than planned, but never later
	}
	if !f.ready {
		return
	}
	if f.w.srv.TrackResources && f.s.Info().Capabilities.Resources {
		f.announce()
	}
	f.planPolls(now)
}

// pollInterval returns how often the server is polled.
func (e *eventFollower) pollInterval() time.Duration {
	if e.coverage.Resources {
		return coveredPolls * e.f.w.srv.PollInterval
	}
	return e.f.w.srv.PollInterval
}

// wakeAt returns when due has something to do, zero if never.
func (e *eventFollower) wakeAt() (at time.Time) {
	if e.gap != "" && e.f.ready {
		at = e.compared.Add(minCompare)
	}
	if list := e.listed.Add(minCompare); e.unlisted && (at.IsZero() || list.Before(at)) {
		at = list
	}
	return at
}

// due lists the resources if an event named an unknown one, and compares everything if events
// are missing. Before the first sync it does not compare, as that sync reads everything.
func (e *eventFollower) due(now time.Time) {
	if e.unlisted && now.Sub(e.listed) >= minCompare {
		e.unlisted, e.listed = false, now
		e.f.syncs.pending.list(e.f.scope().kindsOf(catalog.Resources), event.CauseEvent)
	}
	if e.gap == "" || !e.f.ready || now.Sub(e.compared) < minCompare {
		return
	}
	f := e.f
	f.w.log.Debug("compare", "reason", e.gap)
	e.gap, e.compared = "", now
	f.syncs.pending.list(f.scope().kinds(), event.CauseResync)
	f.w.co.CompareAll()
}
