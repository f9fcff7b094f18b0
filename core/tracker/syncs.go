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
// signals only about URIs that it subscribed to.
const maxEarly = 20_000

// syncs schedules the syncs of one session. At most one runs at a time; what is
// requested meanwhile merges into one more.
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
// result must be ignored, as its work was requested again.
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
// determines: none if eager is set and gaps are rare. A full sync that is planned already is
// never postponed, unless its time came while another one was running.
func (y *syncs) gap(now time.Time, eager bool, maxWait time.Duration) {
	if y.gaps.retry == nil {
		y.gaps.retry = backoff.New(time.Second, maxWait)
	}
	at := now.Add(y.gaps.next(now, eager))
	overdue := y.running && y.next.Before(now) // the planned sync came due while another one was running
	if !y.pending.compare || overdue || at.Before(y.next) {
		y.next = at // never postponed: otherwise repeated gaps could put it off for ever
	}
	y.pending.merge(fullSync())
}

// compare requests a full sync at once because a stream was silent. There is no backoff: a
// server that has nothing to say is silent again and again, which is no failure.
func (y *syncs) compare(now time.Time) {
	y.next = now
	y.pending.merge(fullSync())
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
