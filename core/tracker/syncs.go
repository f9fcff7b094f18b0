package tracker

import (
	"context"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// syncRequest is what the next sync has to do. The zero value asks for nothing.
type syncRequest struct {
	lists     map[catalog.Kind]event.Cause // to be listed, each with the cause of its changes
	all       bool                         // list everything that is wanted
	subscribe bool                         // also if the set of resources stays the same
	compare   bool                         // read everything afterwards
}

// fullSync subscribes, lists and compares everything.
func fullSync() syncRequest { return syncRequest{all: true, subscribe: true, compare: true} }

func (r *syncRequest) empty() bool { return len(r.lists) == 0 && !r.all && !r.subscribe && !r.compare }

// list asks for lists. One whose change was announced keeps that cause.
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

// Announced changes of lists begin a sync at least minSync after the last one, and at most
// two syncs within syncSpan, however often a server announces them.
const (
	minSync  = 100 * time.Millisecond
	syncSpan = time.Second
)

// maxEarly bounds the signals that wait for the end of a sync; a session delivers
// none about URIs that it did not subscribe to.
const maxEarly = 20_000

// syncs schedules the syncs of one session. At most one runs at a time; what is
// requested meanwhile merges into one more.
type syncs struct {
	// results receives the result of every sync and is never closed. Capacity 1.
	results chan syncResult

	pending syncRequest
	next    time.Time // the next sync does not begin before
	last    time.Time // when the last sync began
	running bool
	aborted bool               // the running one was cancelled: another one does its work
	cancel  context.CancelFunc // of the running one
	retry   *backoff.Backoff   // of failed syncs; nil: the last one succeeded
	gaps    gaps
	early   map[string]session.Signal // about URIs that the running sync may add
}

// due reports whether a sync is to begin at the time given.
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

// begin returns what the sync that begins now has to do.
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

// abort cancels the running sync, if there is one. Another one does its work.
func (y *syncs) abort() {
	if y.running {
		y.aborted = true
		y.cancel()
	}
}

// ended notes that the running sync ended. It returns false if it was aborted: its
// result is of no use, and its work was requested again.
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
	y.pending.merge(syncRequest{subscribe: true, compare: true}) // nobody knows how far it came
	y.next = time.Time{}
	return false
}

// quiesce ends the running sync, if there is one, without another: two changes of one
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

// failed plans another attempt at what failed in a sync.
func (y *syncs) failed(again syncRequest, now time.Time, opts *Options) {
	if y.retry == nil {
		y.retry = backoff.New(opts.Backoff, opts.MaxBackoff)
	}
	y.pending.merge(again)
	y.next = now.Add(y.retry.Next())
}

// gap plans a full sync because notifications may have been lost. gaps says after which wait:
// with eager none, as long as gaps are rare. A full sync that is planned already is never put
// off, unless its time came while another one was running.
func (y *syncs) gap(now time.Time, eager bool, maxWait time.Duration) {
	if y.gaps.retry == nil {
		y.gaps.retry = backoff.New(time.Second, maxWait)
	}
	at := now.Add(y.gaps.next(now, eager))
	overdue := y.running && y.next.Before(now) // what was planned came due during a sync
	if !y.pending.compare || overdue || at.Before(y.next) {
		y.next = at // what is planned is not put off: a gap may follow every gap
	}
	y.pending.merge(fullSync())
}

// compare requests everything again at once, because a stream was silent: it happens
// as long as a server has nothing to say, so that it is not a failure to be spaced out.
func (y *syncs) compare(now time.Time) {
	y.next = now
	y.pending.merge(fullSync())
}

// minStreamLife is how long a subscription must have stood for its end to be no reason to
// wait.
const minStreamLife = time.Second

// gaps decides how long to wait after a gap before subscribing again: not at all if the
// subscription stood longer than the last wait, else ever longer.
type gaps struct {
	retry      *backoff.Backoff // of short-lived subscriptions, since the last quiet minute
	last       time.Time        // the last gap
	wait       time.Duration    // after the last gap
	subscribed time.Time        // since the last gap; zero: not subscribed again yet
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

// hold keeps a signal about a URI that is not tracked until the running sync ends. It
// reports false if no sync is running.
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
