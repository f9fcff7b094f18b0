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

// serverEvents manages the events that a server sends (MCP Events). They are a third way to detect
// changes, besides notifications and polling. An event only marks a resource to be read and
// compared: a wrong event costs one read, and a change that is also announced by a notification is
// published once.
type serverEvents struct {
	want       config.Events
	subscriber *eventsource.Subscriber // nil if events are not followed
	cancel     context.CancelFunc      // cancels the context of subscriber
	ended      chan struct{}           // closed by the job that runs subscriber

	coverage eventsource.Coverage // which changes are reported by events
	gap      string               // why everything must be compared; empty if not necessary
	compared time.Time            // when the last such comparison started
	unlisted event.Cause          // why the list of resources may be outdated; empty if it is not
	listed   time.Time            // when the list was last requested for this reason
}

const (
	// minCompare is the minimum time between two comparisons caused by missing events, and between
	// two list requests caused by unknown resources or by touches.
	minCompare = 5 * time.Second
	// coveredPolls is the factor by which the poll interval is lengthened while events report the
	// changes.
	coveredPolls = 10
)

// startEvents starts a job that follows the events selected by the config.
func (f *sessionFollower) startEvents() {
	e := &f.events
	e.want = f.w.srv.Events
	if e.want.Off || !f.s.Info().Capabilities.Events {
		return
	}
	subscriber := eventsource.New(eventsource.Options{
		Session: f.s, Want: e.want, Cursors: f.w.cursors, Timeout: cmp.Or(f.w.srv.RequestTimeout, config.DefaultRequestTimeout),
		Poll: f.w.srv.PollInterval, MaxBackoff: f.w.opts.MaxBackoff, Logger: f.w.log,
		Webhooks: f.w.opts.Webhooks, Server: f.w.id,
	})
	ctx, cancel := context.WithCancel(f.jobs.ctx)
	ended := make(chan struct{})
	e.subscriber, e.cancel, e.ended = subscriber, cancel, ended
	f.jobs.start(func(context.Context) {
		defer close(ended)
		subscriber.Run(ctx)
	})
}

// end starts to end the subscriptions while the session is still open. Events that have arrived but
// were not taken are discarded; because their cursors are not stored either, they will be delivered
// again.
func (e *serverEvents) end() {
	if e.subscriber != nil {
		e.cancel()
	}
}

// wait waits until the subscriptions have ended, or until ctx ends.
func (e *serverEvents) wait(ctx context.Context) {
	if e.subscriber == nil {
		return
	}
	select {
	case <-e.ended:
	case <-ctx.Done():
	}
}

// retargetEvents applies a changed "events" setting in the config.
func (f *sessionFollower) retargetEvents() {
	e, now := &f.events, f.w.srv.Events
	if (config.Server{Tracking: config.Tracking{Events: now}}).Equal(config.Server{Tracking: config.Tracking{Events: e.want}}) {
		return
	}
	if e.subscriber != nil {
		f.takeEvents(time.Now())
		e.cancel()
		e.subscriber, e.coverage = nil, eventsource.Coverage{}
	}
	f.startEvents()
}

// wake returns the channel that receives when takeEvents has work to do, or nil if no events are
// followed.
func (e *serverEvents) wake() <-chan struct{} {
	if e.subscriber == nil {
		return nil
	}
	return e.subscriber.C()
}

func (f *sessionFollower) takeEvents(now time.Time) {
	e := &f.events
	b := e.subscriber.Take()
	for uri, first := range b.URIs {
		f.eventAbout(uri, first, now)
	}
	sc := f.scope()
	for _, k := range sortedKeys(b.Lists) {
		if sc.wants(k) {
			f.syncs.pending.list(sc.kindsOf(k), event.CauseEvent)
		}
	}
	for _, o := range b.Events {
		f.w.t.store.publish(event.Event{ServerID: f.w.id, Cause: event.CauseEvent,
			Payload: event.ServerEvent{Name: f.s.Redact(o.Name), EventID: f.s.Redact(o.ID), Size: o.Size}})
	}
	for _, name := range b.Forbidden {
		f.w.publishState(event.ServerState{State: f.w.state, Reason: "the server denies access to events of type " + f.s.Redact(printable.Line(name, 100))}, nil)
	}
	switch {
	case !f.ready: // the first sync reads everything anyway
	case b.Gap != "":
		e.gap = cmp.Or(e.gap, b.Gap)
	case b.Began && !sc.pushes() && f.w.co.Digests():
		e.gap = cmp.Or(e.gap, "events are followed from here on") // earlier changes were not covered by any event
	}
	if len(b.Cursors) > 0 {
		f.w.storeCursors(b.Merge(f.w.cursors))
	}
	if b.Coverage != e.coverage {
		e.coverage = b.Coverage
		f.eventsCover(now)
	}
}

// eventAbout marks a resource named in an event to be read. An unknown resource may be new, so the
// list is requested again to find it.
func (f *sessionFollower) eventAbout(uri string, first, now time.Time) {
	f.conn.cache.Updated(uri)
	if _, known := f.w.co.Lookup(uri); !known {
		if f.scope().selects(uri) {
			f.events.unlisted = event.CauseEvent // so that dueEvents requests the list
		}
		return
	}
	f.unannounced.announced(uri)
	if f.w.co.Digests() {
		f.w.co.Recheck(uri, coalesce.Event)
		return
	}
	f.w.co.Signal(uri, coalesce.Signal{N: 1, Received: first, Cause: event.CauseEvent}, now)
}

// eventsCover adjusts the poll interval after events have started or stopped reporting some of the
// changes.
func (f *sessionFollower) eventsCover(now time.Time) {
	if at := now.Add(f.w.srv.PollInterval); !f.events.coverage.Resources && at.Before(f.nextPoll) {
		f.nextPoll = time.Time{} // the next poll may move forward, but never back
	}
	if !f.ready {
		return
	}
	f.announceActive()
	f.planPolls(now)
}

// wakeAt returns when dueEvents must next be called, or zero if never. ready reports whether the
// first sync is done.
func (e *serverEvents) wakeAt(ready bool) (at time.Time) {
	if e.gap != "" && ready {
		at = e.compared.Add(minCompare)
	}
	if e.unlisted != "" {
		at = earliest(at, e.listed.Add(minCompare))
	}
	return at
}

// dueEvents requests the list of resources if it may be outdated, because an event named an unknown
// resource or resources were touched, and compares
// everything if events are missing. It does not compare before the first sync, because that sync
// reads everything.
func (f *sessionFollower) dueEvents(now time.Time) {
	e := &f.events
	if e.unlisted != "" && now.Sub(e.listed) >= minCompare {
		f.syncs.pending.list(f.scope().kindsOf(catalog.Resources), e.unlisted)
		e.unlisted, e.listed = "", now
	}
	if e.gap == "" || !f.ready || now.Sub(e.compared) < minCompare {
		return
	}
	f.w.log.Debug("compare", "reason", e.gap)
	e.gap, e.compared = "", now
	f.syncs.pending.list(f.scope().kinds(), event.CauseResync)
	f.w.co.CompareAll()
}
