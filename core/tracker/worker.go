package tracker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// worker keeps one server connected and followed, for as long as its id is
// wanted. Its run goroutine owns every field below the channels; what it knows of
// the server outlives sessions.
type worker struct {
	t    *Tracker
	opts Options
	log  *slog.Logger
	id   string

	// offers holds the newest entry of the config that run has not seen.
	// Capacity 1: the reconcile loop replaces what is in it; never closed.
	offers   chan config.Server
	cancel   context.CancelCauseFunc // the reconcile loop's, and so are:
	removing bool
	offered  config.Server // the newest entry

	conn atomic.Pointer[connection] // for requests and clients; nil while not connected

	srv   config.Server
	era   session.Era
	lists map[catalog.Kind]catalog.List

	following *follower // of the live session
	co        *coalescer
	former    former
	state     event.State
	attempt   int
	deaths    []time.Time // of the last sessions, for crashloop
	delays    *backoff.ExponentialBackOff
	warned    map[string]bool // what was warned of once
	counts    Counts          // beyond what the coalescer counts
}

// Crash loops are named when so many sessions died within so long.
const (
	crashLoopDeaths = 5
	crashLoopWithin = time.Minute
	healthyAfter    = time.Minute // up for so long: the next wait is short again
)

func newWorker(t *Tracker, srv config.Server) *worker {
	w := &worker{
		t: t, opts: t.opts, id: srv.ID, srv: srv, offered: srv,
		log:    t.opts.Logger.With("server", printable.Line(srv.ID, 128)),
		offers: make(chan config.Server, 1),
		lists:  map[catalog.Kind]catalog.List{},
		former: former{},
		warned: map[string]bool{},
		state:  event.Pending,
		delays: backoff.NewExponentialBackOff(),
	}
	w.delays.InitialInterval, w.delays.MaxInterval = t.opts.Backoff, t.opts.MaxBackoff
	w.delays.Multiplier, w.delays.RandomizationFactor = 2, 0.2
	w.newCoalescer()
	return w
}

func (w *worker) newCoalescer() {
	w.co = newCoalescer(w.opts.Window, w.opts.Patience, w.srv.Read != config.ReadNone, w.tell)
	w.co.keep = w.t.texts.replace
}

// renewCoalescer begins anew with what is known of the resources, because they
// are read in another way. No read may be in flight. Counts go on.
func (w *worker) renewCoalescer() {
	w.unfollowAll()
	w.counts = w.co.counts.addTo(w.counts)
	w.newCoalescer()
}

// offer gives the worker a new entry; the latest wins.
func (w *worker) offer(srv config.Server) {
	select {
	case <-w.offers:
	default:
	}
	w.offers <- srv
	w.offered = srv
}

// remove ends the worker because its server is not wanted any more.
func (w *worker) remove() {
	w.removing = true
	w.cancel(errRemoved)
}

// run works until ctx ends.
func (w *worker) run(ctx context.Context) {
	defer func() { w.co.clear() }() // gives the texts back; what was known stays published
	for ctx.Err() == nil {
		if reason, ok := unconnected(&w.srv); ok {
			w.setState(event.Disabled, event.ServerState{Reason: reason})
			w.rest(ctx, 0)
			continue
		}
		again, err := w.connectAndFollow(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errSuperseded):
			w.attempt = 0
			w.delays.Reset()
		default:
			w.rest(ctx, max(time.Until(again), time.Nanosecond))
		}
	}
	w.setState(event.Stopping, event.ServerState{Reason: reasonOf(context.Cause(ctx))})
}

// unconnected reports whether the server is to be known but not connected, and why
// where its entry does not say that it is disabled.
func unconnected(srv *config.Server) (reason string, ok bool) {
	if srv.Enabled && srv.Transport == config.TransportCatalog {
		return "an HTTP catalog, which the gateway serves", true
	}
	return "", !srv.Enabled
}

func reasonOf(cause error) string {
	if errors.Is(cause, errRemoved) {
		return "removed"
	}
	return "shutdown"
}

// unfollowAll forgets all resources.
func (w *worker) unfollowAll() {
	w.co.clear()
	clear(w.former)
	w.t.store.update(w.id, func(r *record) { clear(r.resources) })
}

// connectAndFollow is one session from dialling to its end; the error says why
// it ended and is never nil. A failure has been told, and is tried again at the
// time returned.
func (w *worker) connectAndFollow(ctx context.Context) (again time.Time, err error) {
	if digests := w.srv.Read != config.ReadNone; w.co.digests != digests {
		w.renewCoalescer()
	}
	w.setState(event.Connecting, event.ServerState{Attempt: w.attempt})
	sctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opts := w.opts.Session
	opts.Era, opts.Logger = w.era, w.log
	s, err := w.dial(sctx, opts)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, errSuperseded)):
		return time.Time{}, err
	case err != nil:
		return w.failed(err, ""), err
	}
	w.era = s.Info().Era
	began := time.Now()
	f := newFollower(w, s)
	f.connect()
	err = f.run(sctx)
	f.disconnect()
	if errors.Is(context.Cause(ctx), errRemoved) {
		w.unfollowAll() // nothing is told of it from here on
	}
	w.co.suspend()
	if time.Since(began) >= healthyAfter {
		w.attempt = 0
		w.delays.Reset()
	}
	if ctx.Err() != nil {
		w.setState(event.Stopping, event.ServerState{Reason: reasonOf(context.Cause(ctx))})
	} else if !errors.Is(err, errSuperseded) {
		again = w.failed(err, "disconnected")
	}
	f.close() // after the state: closing may take seconds
	return again, err
}

// dial connects, and gives up at once when the config offers something else.
func (w *worker) dial(ctx context.Context, opts session.Options) (*session.Session, error) {
	type result struct {
		s   *session.Session
		err error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	srv := w.srv
	dialled := make(chan result, 1) // sent to once, by the goroutine below
	go func() {
		s, err := w.opts.Dial(ctx, srv, opts)
		dialled <- result{s, err}
	}()
	for {
		select {
		case r := <-dialled:
			return r.s, r.err
		case next := <-w.offers:
			if w.adopt(next) {
				cancel(errSuperseded)
				if r := <-dialled; r.s != nil { // Dial obeys its context, so this is soon
					r.s.Close()
				}
				return nil, errSuperseded
			}
		}
	}
}

// adopt takes in a new entry and reports whether the session has to be a new one.
func (w *worker) adopt(next config.Server) (reconnect bool) {
	old := w.srv
	w.srv = next
	if !next.SameConnection(old) {
		w.era = ""
		w.warned = map[string]bool{}
		return true
	}
	return next.Read != old.Read // every key starts anew
}

// failed tells a failure, once, and returns when to try again.
func (w *worker) failed(err error, reason string) time.Time {
	now := time.Now()
	w.attempt++
	wait := min(w.delays.NextBackOff(), w.opts.MaxBackoff)
	st := event.ServerState{Reason: reason, Error: errorLine(err), Attempt: w.attempt}
	state := event.Backoff
	if ra, ok := errors.AsType[*session.RetryAfter](err); ok {
		wait = min(max(wait, ra.Wait), w.opts.MaxBackoff)
		st.Reason = "server asked to wait"
	}
	if errors.Is(err, session.ErrAuth) {
		state, wait = event.NeedsAuth, w.opts.MaxBackoff*9/10+rand.N(w.opts.MaxBackoff/10)
	}
	w.deaths = append(w.deaths, now)
	if over := len(w.deaths) - crashLoopDeaths; over > 0 {
		w.deaths = w.deaths[over:]
	}
	if _, died := errors.AsType[*session.EndError](err); died && len(w.deaths) == crashLoopDeaths && now.Sub(w.deaths[0]) < crashLoopWithin {
		st.Reason = "crashloop"
	}
	st.RetryIn = event.Milliseconds(wait)
	w.failure(state, st)
	return now.Add(wait)
}

// rest waits for the time given, or for ever when it is 0, but not beyond a new
// entry of the config or the end of ctx. Windows still end meanwhile.
func (w *worker) rest(ctx context.Context, wait time.Duration) {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case next := <-w.offers:
			if w.adopt(next) {
				w.attempt = 0
				w.delays.Reset()
				return
			}
		}
	}
}

// errorLine is the error as one printable line.
func errorLine(err error) string {
	if err == nil {
		return ""
	}
	return printable.Line(err.Error(), 1000)
}
