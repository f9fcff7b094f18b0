package tracker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// worker keeps one server connected and tracked for as long as the server is in the config, and
// publishes and logs everything about it (publish.go). Its run goroutine owns every field below the
// channels and conn. The state of the server is kept from session to session.
type worker struct {
	t    *Tracker
	opts Options
	log  *slog.Logger
	id   string

	// offers holds the newest config entry that run has not yet received. It has a capacity of 1:
	// the reconcile loop replaces an entry that has not been received. Never closed.
	offers   chan config.Server
	cancel   context.CancelCauseFunc // owned by the reconcile loop, like the next two fields
	removing bool
	offered  config.Server // the newest entry offered to the worker

	// Requests from methods of Tracker, received by run.
	retrySoon wake.Channel // sent by Tracker.RetrySoon
	restarts  wake.Channel // sent by Tracker.Restart
	rechecks  wake.Channel // sent by Tracker.TakeOver
	touched   touched      // what Tracker.Touch reported

	conn atomic.Pointer[connection] // connection of the live session, used by clients; nil while not connected

	srv        config.Server
	eras       eras
	following  *sessionFollower // tracks the live session
	co         *coalesce.Coalescer
	retries    retries
	card       cardWatch
	login      loginWatch // login state at the last attempt to connect
	began      time.Time  // when the last attempt to connect started
	missed     int        // unannounced changes since the connection settings last changed
	unreliable bool       // polled because it failed to announce changes
	asleep     bool       // it was published that the server is asleep

	// State used for publishing and logging:
	state       event.State           // last published state
	waits       event.ServerState     // last published state, if it was Unapproved
	needs       string                // error of the last published NeedsAuth state
	unloaded    map[catalog.Kind]bool // lists of which it was published that they could not be loaded
	failures    uint64                // number of failed connections and list requests
	missedTotal uint64                // number of changes that the server failed to announce
	warned      map[string]bool       // subjects for which a warning was logged
	cursors     map[string]string     // positions from which to resume event subscriptions; replaced, never modified
}

func newWorker(t *Tracker, srv config.Server) *worker {
	w := &worker{
		t: t, opts: t.opts, id: srv.ID, srv: srv, offered: srv,
		log:       t.opts.Logger.With("server", printable.Line(srv.ID, 128)),
		offers:    make(chan config.Server, 1),
		retrySoon: wake.New(),
		restarts:  wake.New(),
		rechecks:  wake.New(),
		touched:   touched{wake: wake.New()},
		retries:   retries{maxWait: t.opts.MaxBackoff, delays: backoff.New(t.opts.Backoff, t.opts.MaxBackoff)},
		state:     event.Pending,
		warned:    map[string]bool{}, unloaded: map[catalog.Kind]bool{},
	}
	if cursors, ok := t.store.stored(w.id, journal.Cursors); ok {
		w.cursors = journal.CursorsOf(cursors)
	}
	w.co = coalesce.New(coalesce.Options{
		Window: w.opts.Window, Patience: w.opts.Patience, Digests: srv.Read != config.ReadNone,
		Baseline: w.baseline, Publish: w.updated, Learned: w.learned, Forgotten: w.forgotten,
		Replace: t.texts.replace,
	})
	return w
}

// offer passes a new config entry to the worker; the latest entry wins.
func (w *worker) offer(srv config.Server) {
	select {
	case <-w.offers:
	default:
	}
	w.offers <- srv
	w.offered = srv
}

// remove stops the worker because its server was removed from the config.
func (w *worker) remove() {
	w.removing = true
	w.cancel(errRemoved)
}

// run connects to the server and tracks it until ctx ends.
func (w *worker) run(ctx context.Context) {
	defer w.co.Reset(false) // releases the text budget; the published state is kept
	defer w.eras.forget()
	for ctx.Err() == nil {
		if st, ok := unconnected(&w.srv); ok {
			w.asleep = false
			w.setState(st)
			w.wait(ctx, 0)
			continue
		}
		if w.sleep(ctx) {
			continue
		}
		again, err := w.connectAndFollow(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, errIdle):
		case errors.Is(err, errSuperseded):
			w.retries.reset()
		default:
			w.wait(ctx, max(time.Until(again), time.Nanosecond))
		}
	}
	w.setState(event.ServerState{State: event.Stopping, Reason: reasonOf(context.Cause(ctx))})
}

// unconnected reports whether the config prevents connecting to a server, and returns the state to
// publish in that case.
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

// forgetResources stops tracking all resources. digests reports whether the content of resources
// tracked from now on is read.
func (w *worker) forgetResources(digests bool) {
	w.co.Reset(digests)
	w.t.store.update(w.id, (*record).forgetResources)
}

// connectAndFollow runs one session from dialling until it ends. It returns the reason why the
// session ended, which is never nil, and when to retry. If the session failed, that has already
// been published.
func (w *worker) connectAndFollow(ctx context.Context) (again time.Time, err error) {
	if digests := w.srv.Read != config.ReadNone; w.co.Digests() != digests {
		w.forgetResources(digests)
	}
	if w.state != event.NeedsAuth || w.retries.attempt == 0 { // failed attempts are not published while NeedsAuth persists
		st := event.ServerState{State: event.Connecting, Attempt: w.retries.attempt}
		if w.opts.OnDemand && w.retries.attempt == 0 {
			st.Reason = event.Waking
		}
		w.setState(st)
	}
	w.asleep, w.began = false, time.Now()
	sctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opts := w.opts.Session
	opts.Era, opts.Logger = w.eras.use, w.log
	w.login = w.watchLogin()
	s, err := w.session(sctx, opts)
	if err == nil {
		select {
		case <-w.restarts: // discard a request made before this connection
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
	f := newSessionFollower(w, s)
	f.openToClients()
	err = f.run(sctx)
	f.closeToClients()
	if errors.Is(context.Cause(ctx), errRemoved) {
		w.forgetResources(w.co.Digests()) // stop publishing events about resources
	}
	w.co.Suspend()
	if time.Since(began) >= healthyAfter {
		w.retries.reset()
	}
	switch {
	case ctx.Err() != nil:
		w.t.demands.unretire(w.id)
		w.setState(event.ServerState{State: event.Stopping, Reason: reasonOf(context.Cause(ctx))})
	case errors.Is(err, errIdle):
		w.fallAsleep()
		w.t.demands.unretire(w.id)
	case !errors.Is(err, errSuperseded):
		if !f.ready {
			if k := w.eras.blame(&f.first, f.scope().kinds(), w.knows); k != "" {
				w.log.Warn("a list is left out from now on, because the server does not survive the request", "list", string(k), "err", errorLine(err))
			}
		}
		again = w.failed(err, "disconnected")
	}
	f.close() // after publishing the state, because closing may take seconds
	if s.Info().Era == session.EraModern && !f.ready && s.Info().Transport == config.TransportStdio && w.eras.use == session.EraModern {
		// Some servers hang after their first subscriptions/listen over stdio.
		w.eras.use, w.eras.other = session.EraLegacy, session.EraModern
	}
	return again, err
}

// knows reports whether a list of the server is known, also from an earlier run.
func (w *worker) knows(k catalog.Kind) bool {
	_, _, loaded, another, _ := w.t.store.versions(w.id, k)
	return loaded || another
}

// session returns the session to follow: the session opened by an era trial if there is one, and
// otherwise a new session.
func (w *worker) session(ctx context.Context, opts session.Options) (*session.Session, error) {
	if s := w.eras.next; s != nil {
		w.eras.next = nil
		return s, nil
	}
	s, err := w.dial(ctx, opts)
	if err != nil || !w.eras.learn(s.Info()) {
		return s, err
	}
	w.log.Debug("a different server responded; determining its era again")
	_ = s.Close()
	opts.Era = ""
	if s, err = w.dial(ctx, opts); err == nil {
		w.eras.learn(s.Info())
	}
	return s, err
}

// dial opens a session. It is cancelled immediately if a new config entry requires a different
// connection.
func (w *worker) dial(ctx context.Context, opts session.Options) (*session.Session, error) {
	type result struct {
		s   *session.Session
		err error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	srv := w.srv
	dialled := make(chan result, 1) // receives one value from the goroutine below
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
				if r := <-dialled; r.s != nil { // arrives soon, because Dial respects its context
					r.s.Close()
				}
				return nil, errSuperseded
			}
		}
	}
}

// adopt applies a new config entry and reports whether a new session is required.
func (w *worker) adopt(next config.Server) (reconnect bool) {
	old := w.srv
	w.srv = next
	if !next.SameConnection(old) {
		w.eras.forget()
		w.missed, w.unreliable = 0, false
		w.card = cardWatch{}
		clear(w.warned)
		w.storeCursors(nil)
		return true
	}
	return next.Read != old.Read // all resources are forgotten and tracked again from scratch
}

// failed publishes a failure and returns when to retry.
func (w *worker) failed(err error, reason string) time.Time {
	now := time.Now()
	st := w.retries.failed(err, reason, now)
	w.publishFailure(st)
	return now.Add(time.Duration(st.RetryIn))
}

// wait waits for d, or indefinitely if d is 0. It returns early if ctx ends, if a new config entry
// requires a different connection, or if something else triggers an early attempt.
func (w *worker) wait(ctx context.Context, d time.Duration) {
	var over <-chan time.Time
	var early <-chan struct{}
	began, timer := time.Now(), time.NewTimer(d)
	defer timer.Stop()
	if d > 0 {
		over, early = timer.C, w.retrySoon
	}
	tick, stop := w.login.ticker(w.state)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-early:
			if sooner := time.Until(began.Add(hurryAfter)); w.state == event.Backoff && w.retries.mayHurry(time.Now()) {
				timer.Reset(min(max(sooner, time.Nanosecond), time.Until(began.Add(d))))
				early = nil
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

func errorLine(err error) string { return printable.Reason(err, 1000) }

const (
	// crashLoopDeaths is the number of sessions that must die within crashLoopWithin for the server
	// to be considered in a crash loop.
	crashLoopDeaths = 5
	crashLoopWithin = time.Minute
	// healthyAfter is how long a session must last before the retry delay is reset.
	healthyAfter = time.Minute
	// hurryAfter is the minimum time between a failure and an early attempt to connect, made
	// because a request is waiting for the server.
	hurryAfter = 250 * time.Millisecond
	// maxHurried limits the number of early attempts per minute, so that a server that exits at
	// every request is not restarted continually.
	maxHurried = 10
)

// retries tracks the failures of one server and determines the delay after each of them.
type retries struct {
	maxWait time.Duration
	delays  *backoff.Backoff
	attempt int         // number of consecutive failures
	deaths  []time.Time // times at which sessions died; at most crashLoopDeaths entries
	until   time.Time   // when the next attempt is scheduled; zero if none is
	asked   bool        // the server requested this delay
	hurried []time.Time // times of the early attempts within the last minute
}

// reset sets the next delay back to its initial value.
func (r *retries) reset() {
	r.attempt = 0
	r.delays.Reset()
	r.until = time.Time{}
}

// failed records a failure and returns the resulting server state to publish.
func (r *retries) failed(err error, reason string, now time.Time) event.ServerState {
	r.attempt++
	st := event.ServerState{State: event.Backoff, Reason: reason, Error: errorLine(err), Attempt: r.attempt}
	var least time.Duration
	if ra, ok := errors.AsType[*session.RetryAfter](err); ok {
		least, st.Reason = ra.Wait, "the server asked clients to wait"
	}
	wait := r.until.Sub(now)
	if wait <= 0 || least > 0 { // otherwise this was an early attempt, which does not change the schedule
		wait = r.delays.NextAfter(least)
	}
	r.until, r.asked = now.Add(wait), least > 0
	if errors.Is(err, session.ErrAuth) {
		st.State, wait = event.NeedsAuth, min(backoff.Spread(r.maxWait), r.maxWait)
	}
	r.deaths = append(r.deaths, now)
	if over := len(r.deaths) - crashLoopDeaths; over > 0 {
		r.deaths = r.deaths[over:]
	}
	if _, died := errors.AsType[*session.EndError](err); died && len(r.deaths) == crashLoopDeaths && now.Sub(r.deaths[0]) < crashLoopWithin {
		st.Reason = "crashloop"
	}
	st.RetryIn = event.Milliseconds(wait)
	return st
}

// mayHurry reports whether an early attempt is allowed now, and if so counts it.
func (r *retries) mayHurry(now time.Time) bool {
	for len(r.hurried) > 0 && now.Sub(r.hurried[0]) >= time.Minute {
		r.hurried = r.hurried[1:]
	}
	if r.asked || len(r.hurried) >= maxHurried {
		return false
	}
	r.hurried = append(r.hurried, now)
	return true
}

// loginPoll is how often the tracker checks whether the user has logged in to a server that
// requires it. The login file is polled rather than watched, because polling works on every file
// system and also with a keyring.
const loginPoll = 500 * time.Millisecond

// loginWatch detects when the user logs in to a server or logs out.
type loginWatch struct {
	logins *login.Store // nil if logins are not stored
	target login.Target
	stamp  login.Stamp
	since  time.Time // when the user logged in; zero if there is no login
}

// watchLogin records the current login for a server before the login is used.
func (w *worker) watchLogin() loginWatch {
	target := login.TargetOf(w.srv)
	if w.opts.Session.Logins == nil || target.URL == "" {
		return loginWatch{}
	}
	l := loginWatch{logins: w.opts.Session.Logins, target: target}
	l.stamp = l.logins.Stamp(target)
	l.since = l.logins.Since(target)
	return l
}

// ticker returns a channel that receives whenever changed is due to be called, and a function that
// stops the ticker.
func (l *loginWatch) ticker(state event.State) (tick <-chan time.Time, stop func()) {
	if l.logins == nil || state != event.NeedsAuth {
		return nil, func() {}
	}
	t := time.NewTicker(loginPoll)
	return t.C, t.Stop
}

// changed reports whether the user has logged in again or logged out. It ignores tokens that were
// merely renewed, by any process.
func (l *loginWatch) changed() bool {
	stamp := l.logins.Stamp(l.target)
	if stamp.Same(l.stamp) {
		return false
	}
	l.stamp = stamp
	return !l.logins.Since(l.target).Equal(l.since)
}
