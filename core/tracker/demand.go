package tracker

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
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
	keepers int
	ended   time.Time     // when users last became 0; zero if nobody has needed the server yet
	left    time.Time     // when keepers last became 0; zero if nobody has needed the server before
	retired bool          // the worker ends the session with the server, and has not yet published this
	changed chan struct{} // closed and replaced when users or keepers becomes 0 or 1; closed when the demand is deleted
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

// count adds to the users and the keepers of a server.
func (d *demands) count(server string, users, keepers int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.of(server)
	hadUsers, hadKeepers := of.users > 0, of.keepers > 0
	of.users += users
	of.keepers += keepers
	if hadUsers == (of.users > 0) && hadKeepers == (of.keepers > 0) {
		return
	}
	if hadUsers && of.users == 0 {
		of.ended = time.Now()
	}
	if hadKeepers && of.keepers == 0 && !of.ended.IsZero() {
		of.left = time.Now()
	}
	close(of.changed)
	of.changed = make(chan struct{})
}

// until returns when a server that is idle for the given time goes to sleep: zero if somebody needs
// it or, unless it is asleep, keeps it. It also returns a channel that is closed when that changes.
func (d *demands) until(server string, idle time.Duration, asleep bool) (at time.Time, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.of(server)
	if of.users > 0 || of.keepers > 0 && !asleep && !of.ended.IsZero() {
		return time.Time{}, of.changed
	}
	since := of.ended // long ago if nobody has needed the server yet
	if !asleep {
		since = of.last() // a keeper that leaves does not wake the server
	}
	return since.Add(idle), of.changed
}

func (d *demand) last() time.Time {
	if d.left.After(d.ended) {
		return d.left
	}
	return d.ended
}

// retire reports whether a server has been idle for the given time. From then on it counts as
// dormant, so that a request that needs it does not use the session that is about to end.
func (d *demands) retire(server string, idle time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.of(server)
	of.retired = of.users == 0 && of.keepers == 0 && !time.Now().Before(of.last().Add(idle))
	return of.retired
}

// unretire records that the end of a server's session has been published.
func (d *demands) unretire(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.byServer[server]; of != nil {
		of.retired = false
	}
}

func (d *demands) isRetired(server string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.byServer[server]
	return of != nil && of.retired
}

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
	if of := d.byServer[server]; of != nil && of.users == 0 && of.keepers == 0 {
		close(of.changed)
		delete(d.byServer, server)
	}
}

// Demand keeps a server connected until release is called and for [config.Server.Idle] after that.
// It wakes a server that is asleep; see [Options.OnDemand]. The server need not be in the config
// yet. The caller must call release; further calls have no effect.
func (t *Tracker) Demand(server string) (release func()) { return t.count(server, 1, 0) }

// Keep keeps a server connected like [Tracker.Demand], but does not wake it.
func (t *Tracker) Keep(server string) (release func()) { return t.count(server, 0, 1) }

func (t *Tracker) count(server string, users, keepers int) (release func()) {
	if !t.opts.OnDemand {
		return func() {}
	}
	t.demands.count(server, users, keepers)
	return sync.OnceFunc(func() {
		t.demands.count(server, -users, -keepers)
		if !t.store.knows(server) { // it was removed while it was needed
			t.demands.forget(server)
		}
	})
}

// OnDemand reports whether the tracker connects its servers on demand.
func (t *Tracker) OnDemand() bool { return t.opts.OnDemand }

// Dormant reports whether a server is asleep, is about to be, or has been woken, or added, and is
// not yet connected. It is false once an attempt to connect has failed.
func (t *Tracker) Dormant(server string) bool {
	return t.opts.OnDemand && (t.demands.isRetired(server) || t.store.dormant(server))
}

// dormant reports whether a server is asleep or waking, or was just added.
func (s *store) dormant(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.servers[id]
	return ok && (r.status.Dormant() || r.status.State == event.Pending)
}

// idle returns how long a server stays connected without users.
func idle(srv *config.Server) time.Duration { return cmp.Or(srv.Idle, config.DefaultIdle) }

// sleepsAt returns when the server goes to sleep unless somebody needs it: zero if it does not. It
// also returns a channel that is closed when that changes; nil if it never does.
func (w *worker) sleepsAt() (at time.Time, changed <-chan struct{}) {
	if !w.opts.OnDemand {
		return time.Time{}, nil
	}
	return w.t.demands.until(w.id, idle(&w.srv), w.asleep)
}

func (w *worker) fallAsleep() {
	w.retries.reset()
	w.asleep = true
	w.publishState(event.ServerState{State: event.Pending, Reason: event.Asleep}, nil)
}

// sleep waits until somebody needs the server. It returns early if ctx ends or if a new config entry
// prevents connecting, and reports whether it waited at all.
func (w *worker) sleep(ctx context.Context) (slept bool) {
	for {
		at, needed := w.sleepsAt()
		if at.IsZero() || time.Now().Before(at) {
			return slept
		}
		if !w.asleep {
			w.fallAsleep()
		}
		slept = true
		w.eras.closeNext()
		select {
		case <-ctx.Done():
			return slept
		case <-needed:
		case next := <-w.offers:
			w.adopt(next)
			if _, ok := unconnected(&w.srv); ok {
				return slept
			}
		}
	}
}
