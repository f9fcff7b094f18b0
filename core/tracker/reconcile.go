package tracker

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
)

// Causes with which the context of a worker or its session is cancelled.
var (
	errRemoved    = errors.New("removed from the config")
	errSuperseded = errors.New("the config changed")
)

// Run tracks until ctx ends. Then it drains: resources whose change was announced are
// read and published (for at most Options.Drain), servers are unsubscribed from and
// disconnected, all concurrently. When it returns, with the cause of ctx, every stream
// of events has ended and no goroutine or process is left. It may be called once.
func (t *Tracker) Run(ctx context.Context) error {
	defer func() { _ = t.opts.Log.Close() }() // never fails
	defer t.markTaken(math.MaxUint64)         // no config will be taken any more
	var (
		running sync.WaitGroup
		desired = map[string]config.Server{}
		order   []string
		// exits receives the id of every worker that has ended, as the worker's last act; never
		// closed. No capacity is needed, because this loop receives until all have ended.
		exits = make(chan string)
	)
	start := func(id string) {
		srv := desired[id]
		w := newWorker(t, srv)
		wctx, cancel := context.WithCancelCause(ctx)
		w.cancel = cancel
		t.mu.Lock()
		t.workers[id] = w
		t.mu.Unlock()
		running.Go(func() {
			w.run(wctx)
			cancel(nil)
			exits <- id
		})
	}
	reconcile := func() {
		for id, w := range t.workers {
			if srv, ok := desired[id]; !ok {
				w.remove()
			} else if !w.removing && !w.offered.Equal(srv) {
				w.offer(srv)
			}
		}
		for _, id := range order {
			if _, ok := t.workers[id]; !ok {
				start(id)
			}
		}
	}
	done := ctx.Done()
	for done != nil || len(t.workers) > 0 {
		select {
		case <-t.applied:
			if ctx.Err() != nil {
				continue // stopping
			}
			cfg, n := t.take()
			desired, order = wanted(cfg)
			for _, id := range order { // servers are known from now on, whether or not their workers run
				if _, ok := t.workers[id]; !ok {
					t.announce(desired[id])
				}
			}
			reconcile()
			t.markTaken(n)
		case id := <-exits:
			t.mu.Lock()
			w := t.workers[id]
			delete(t.workers, id)
			t.mu.Unlock()
			_, again := desired[id]
			if w.removing {
				t.store.forget(id)
			}
			if ctx.Err() == nil && again {
				t.announce(desired[id])
				reconcile() // the server may be wanted again
			}
		case <-done:
			done = nil
		}
	}
	running.Wait()
	return context.Cause(ctx)
}

// announce makes a server known as Pending.
func (t *Tracker) announce(srv config.Server) {
	t.store.commit(event.Event{ServerID: srv.ID, Payload: event.ServerState{State: event.Pending}}, func(r *record) {
		r.status.State, r.status.Transport = event.Pending, srv.Transport
	})
}

// wanted returns the servers of a config by id, and their order. It fills in defaults, which
// are missing if the config was not read from a file.
func wanted(cfg *config.Config) (map[string]config.Server, []string) {
	set := map[string]config.Server{}
	var order []string
	if cfg == nil {
		return set, nil
	}
	for _, srv := range cfg.Servers {
		if srv.PollInterval <= 0 {
			srv.PollInterval = config.DefaultPollInterval
		}
		if srv.SafetyInterval == 0 {
			srv.SafetyInterval = config.DefaultSafetyInterval
		}
		set[srv.ID] = srv
		order = append(order, srv.ID)
	}
	return set, order
}
