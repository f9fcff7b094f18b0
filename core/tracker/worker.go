package tracker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// worker keeps one server connected and tracked for as long as its id is wanted. Its run
// goroutine owns every field below the channels; what it knows of the server is kept from
// session to session.
type worker struct {
	t    *Tracker
	opts Options
	log  *slog.Logger
	id   string

	// offers holds the newest entry of the config that run has not seen.
	// Capacity 1: the reconcile loop replaces what is in it; never closed.
	offers   chan config.Server
	cancel   context.CancelCauseFunc // owned by the reconcile loop, as are:
	removing bool
	offered  config.Server // the newest entry

	// hasten has room for one: Tracker.Hasten sends, run receives; never closed.
	hasten chan struct{}
	// restarts has room for one: Tracker.Restart sends, run receives; never closed.
	restarts chan struct{}
	// rechecks has room for one: Tracker.Republish sends, run receives; never closed.
	rechecks chan struct{}

	conn atomic.Pointer[connection] // of the live session, for clients; nil while not connected

	srv        config.Server
	eras       eras
	lists      map[catalog.Kind]catalog.List
	following  *follower // of the live session
	co         *coalesce.Coalescer
	pub        *publisher
	retries    *retries
	login      loginWatch // as it was at the last attempt to connect
	missed     int        // changes that the server did not announce, since the last new connection of the config
	unreliable bool       // the server is polled because of missed changes
}

func newWorker(t *Tracker, srv config.Server) *worker {
	w := &worker{
		t: t, opts: t.opts, id: srv.ID, srv: srv, offered: srv,
		log:      t.opts.Logger.With("server", printable.Line(srv.ID, 128)),
		offers:   make(chan config.Server, 1),
		hasten:   make(chan struct{}, 1),
		restarts: make(chan struct{}, 1),
		rechecks: make(chan struct{}, 1),
		lists:    map[catalog.Kind]catalog.List{},
		retries:  newRetries(t.opts.Backoff, t.opts.MaxBackoff),
	}
	w.pub = &publisher{store: t.store, id: w.id, log: w.log, state: event.Pending, warned: map[string]bool{},
		transport: func() config.Transport { return w.srv.Transport },
		counts:    func() coalesce.Counts { return w.co.Counts() }}
	if w.opts.EventCursors != nil {
		w.pub.cursors = w.opts.EventCursors(w.id)
	}
	w.co = coalesce.New(coalesce.Options{
		Window: w.opts.Window, Patience: w.opts.Patience, Digests: srv.Read != config.ReadNone,
		Baseline: w.baseline, Publish: w.updated, Learned: w.pub.learned, Forgotten: w.pub.forgotten,
		Replace: t.texts.replace,
	})
	return w
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

// remove ends the worker because its server is no longer in the config.
func (w *worker) remove() {
	w.removing = true
	w.cancel(errRemoved)
}

// run works until ctx ends.
func (w *worker) run(ctx context.Context) {
	defer w.co.Reset(false) // frees the budget of texts; the published state stays
	defer w.eras.forget()
	for ctx.Err() == nil {
		if st, ok := unconnected(&w.srv); ok {
			w.pub.setState(st)
			w.wait(ctx, 0)
			continue
		}
		again, err := w.connectAndFollow(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errSuperseded):
			w.retries.reset()
		default:
			w.wait(ctx, max(time.Until(again), time.Nanosecond))
		}
	}
	w.pub.setState(event.ServerState{State: event.Stopping, Reason: reasonOf(context.Cause(ctx))})
}

// unconnected reports whether a server must not be connected to, and the state that it then
// has.
func unconnected(srv *config.Server) (event.ServerState, bool) {
	err := srv.Unusable()
	_, unapproved := errors.AsType[*config.UnapprovedError](err)
	switch {
	case !srv.Enabled:
		return event.ServerState{State: event.Disabled}, true
	case unapproved:
		return event.ServerState{State: event.Unapproved, Error: errorLine(err)}, true
	case err != nil:
		return event.ServerState{State: event.Unconfigured, Error: errorLine(err)}, true
	case srv.Transport == config.TransportCatalog:
		return event.ServerState{State: event.Disabled, Reason: "an HTTP catalog, which the gateway serves"}, true
	}
	return event.ServerState{}, false
}

func reasonOf(cause error) string {
	if errors.Is(cause, errRemoved) {
		return "removed"
	}
	return "shutdown"
}

// forgetResources forgets all resources. From now on their content is read if digests is set.
func (w *worker) forgetResources(digests bool) {
	w.co.Reset(digests)
	w.t.store.update(w.id, func(r *record) { clear(r.resources) })
}

// connectAndFollow runs one session from dialling to its end; the error says why it ended and
// is never nil. A failure has been published; again is when to try again.
func (w *worker) connectAndFollow(ctx context.Context) (again time.Time, err error) {
	if digests := w.srv.Read != config.ReadNone; w.co.Digests() != digests {
		w.forgetResources(digests)
	}
	if w.pub.state != event.NeedsAuth || w.retries.attempt == 0 { // while NeedsAuth persists, the failed attempts are not published
		w.pub.setState(event.ServerState{State: event.Connecting, Attempt: w.retries.attempt})
	}
	sctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opts := w.opts.Session
	opts.Era, opts.Logger = w.eras.use, w.log
	w.login = w.watchLogin()
	s, err := w.session(sctx, opts)
	if err == nil {
		select {
		case <-w.restarts: // it was requested before this connection was made
		default:
		}
	}
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, errSuperseded)):
		return time.Time{}, err
	case err != nil:
		return w.failed(err, ""), err
	}
	began := time.Now()
	f := newFollower(w, s)
	f.open()
	err = f.run(sctx)
	f.shut()
	if errors.Is(context.Cause(ctx), errRemoved) {
		w.forgetResources(w.co.Digests()) // nothing is published about them from now on
	}
	w.co.Suspend()
	if time.Since(began) >= healthyAfter {
		w.retries.reset()
	}
	if ctx.Err() != nil {
		w.pub.setState(event.ServerState{State: event.Stopping, Reason: reasonOf(context.Cause(ctx))})
	} else if !errors.Is(err, errSuperseded) {
		again = w.failed(err, "disconnected")
	}
	f.close() // after the state is published: closing may take seconds
	if s.Info().Era == session.EraModern && !f.ready && s.Info().Transport == config.TransportStdio && w.eras.use == session.EraModern {
		// Some servers hang after their first subscriptions/listen over stdio.
		w.eras.use, w.eras.other = session.EraLegacy, session.EraModern
	}
	return again, err
}

// session returns the session to follow: the one that a trial of the eras left, or a new one.
func (w *worker) session(ctx context.Context, opts session.Options) (*session.Session, error) {
	if s := w.eras.next; s != nil {
		w.eras.next = nil
		return s, nil
	}
	s, err := w.dial(ctx, opts)
	if err != nil || !w.eras.learn(s.Info()) {
		return s, err
	}
	w.log.Debug("another server: its era is determined again")
	_ = s.Close()
	opts.Era = ""
	if s, err = w.dial(ctx, opts); err == nil {
		w.eras.learn(s.Info())
	}
	return s, err
}

// dial connects, and gives up at once if a new config requires another connection.
func (w *worker) dial(ctx context.Context, opts session.Options) (*session.Session, error) {
	type result struct {
		s   *session.Session
		err error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	srv := w.srv
	dialled := make(chan result, 1) // receives one value, from the goroutine below
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
				if r := <-dialled; r.s != nil { // soon, because Dial obeys its context
					r.s.Close()
				}
				return nil, errSuperseded
			}
		}
	}
}

// adopt applies a new entry and reports whether it needs a new session.
func (w *worker) adopt(next config.Server) (reconnect bool) {
	old := w.srv
	w.srv = next
	if !next.SameConnection(old) {
		w.eras.forget()
		w.missed, w.unreliable = 0, false
		clear(w.pub.warned)
		w.pub.followed(nil)
		return true
	}
	return next.Read != old.Read // all resources are forgotten and tracked anew
}

// failed publishes a failure and returns when to try again.
func (w *worker) failed(err error, reason string) time.Time {
	now := time.Now()
	st := w.retries.failed(err, reason, now)
	w.pub.failure(st)
	return now.Add(time.Duration(st.RetryIn))
}

// wait waits for d, or for ever if d is 0, but returns when ctx ends or a new entry of the
// config needs another connection.
func (w *worker) wait(ctx context.Context, d time.Duration) {
	var over <-chan time.Time
	var hasten <-chan struct{}
	began, timer := time.Now(), time.NewTimer(d)
	defer timer.Stop()
	if d > 0 {
		over, hasten = timer.C, w.hasten
	}
	tick, stop := w.login.ticker(w.pub.state)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-hasten:
			if sooner := time.Until(began.Add(hurryAfter)); w.pub.state == event.Backoff && w.retries.hurry.allow(time.Now()) {
				timer.Reset(min(max(sooner, time.Nanosecond), time.Until(began.Add(d))))
				hasten = nil
			}
		case <-w.restarts:
			w.retries.reset()
			return
		case <-tick:
			if w.login.changed() {
				w.retries.reset()
				return
			}
		case next := <-w.offers:
			if w.adopt(next) {
				w.retries.reset()
				return
			}
		}
	}
}

// errorLine returns the error as one printable line.
func errorLine(err error) string { return printable.Reason(err, 1000) }
