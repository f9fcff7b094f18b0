package tracker

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
)

// errIdle ends the session with a server that nobody has needed for its idle time.
var errIdle = errors.New("no client needs the server")

// demands counts the users of each server of a tracker that connects on demand. It is safe for
// concurrent use.
type demands struct {
	mu       sync.Mutex
	byServer map[string]*demand
}

type demand struct {
	users   int
	ended   time.Time     // when users last became 0
	changed chan struct{} // closed and replaced when users becomes 0 or 1
}

// of returns the demand for a server. d.mu must be held.
func (d *demands) of(server string) *demand {
	if d.byServer == nil {
		d.byServer = map[string]*demand{}
	}
	if d.byServer[server] == nil {
		d.byServer[server] = &demand{changed: make(chan struct{})}
	}
	return d.byServer[server]
}

// count adds n to the users of a server.
func (d *demands) count(server string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.of(server)
	before := of.users
	if of.users += n; (before == 0) == (of.users == 0) {
		return
	}
	of.ended = time.Now()
	close(of.changed)
	of.changed = make(chan struct{})
}

// until returns how long a server stays connected without further demand: forever if it has users.
// It also returns a channel that is closed when that changes.
func (d *demands) until(server string, idle time.Duration) (left time.Duration, forever bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.of(server)
	if of.users > 0 {
		return 0, true, of.changed
	}
	if of.ended.IsZero() { // it was never needed
		return 0, false, of.changed
	}
	return time.Until(of.ended.Add(idle)), false, of.changed
}

// any reports whether a server has users.
func (d *demands) any(server string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.byServer[server]
	return of != nil && of.users > 0
}

// forget deletes the demand for a server without users.
func (d *demands) forget(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.byServer[server]; of != nil && of.users == 0 {
		delete(d.byServer, server)
	}
}

// Demand keeps a server connected until release is called and for [config.Server.Idle] after that.
// It wakes a server that is asleep; see [Options.OnDemand]. The caller must call release once.
func (t *Tracker) Demand(server string) (release func()) {
	if !t.opts.OnDemand {
		return func() {}
	}
	t.demands.count(server, 1)
	return sync.OnceFunc(func() { t.demands.count(server, -1) })
}

// Dormant reports whether a server is asleep, or has been woken and is not yet connected.
func (t *Tracker) Dormant(server string) bool {
	return t.opts.OnDemand && t.store.dormant(server)
}

// dormant reports whether a server is asleep or waking.
func (s *store) dormant(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.servers[id]
	return ok && r.status.Dormant()
}

// idle returns how long a server stays connected without users.
func idle(srv *config.Server) time.Duration { return cmp.Or(srv.Idle, config.DefaultIdle) }

// asleep reports whether the worker must not connect because nobody needs the server.
func (w *worker) asleep() bool {
	if !w.opts.OnDemand {
		return false
	}
	left, forever, _ := w.t.demands.until(w.id, idle(&w.srv))
	return !forever && left <= 0
}

// sleep publishes that the server is asleep, and waits until somebody needs it, a new config entry
// arrives, or ctx ends.
func (w *worker) sleep(ctx context.Context) {
	w.retries.reset()
	w.publishState(event.ServerState{State: event.Pending, Reason: status.Asleep}, nil)
	for w.asleep() {
		_, _, changed := w.t.demands.until(w.id, idle(&w.srv))
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case next := <-w.offers:
			w.adopt(next)
			if _, ok := unconnected(&w.srv); ok {
				return
			}
		}
	}
	w.waking = true
}

// endWhenIdle cancels a session with errIdle when nobody has needed the server for its idle time.
// It returns when ctx ends.
func (w *worker) endWhenIdle(ctx context.Context, idle time.Duration, cancel context.CancelCauseFunc) {
	for {
		left, forever, changed := w.t.demands.until(w.id, idle)
		var over <-chan time.Time
		if !forever {
			if left <= 0 {
				cancel(errIdle)
				return
			}
			timer := time.NewTimer(left)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-over:
		}
	}
}
