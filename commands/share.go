package commands

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
)

// sharing divides the servers of a config among all processes on one cluster: each
// is followed by the one that holds its lease. When a process dies, the others take
// its servers over within about [journal.DefaultLease].
type sharing struct {
	journal *journal.Journal
	log     *slog.Logger
	// gained is called before a server is followed that another process may have
	// followed until now.
	gained func(context.Context)
	apply  func(*config.Config)

	mu      sync.Mutex // guards the rest
	ctx     context.Context
	cfg     *config.Config
	held    map[string]bool
	stops   map[string]context.CancelFunc // of the goroutines that want a lease, by server
	running sync.WaitGroup
}

// takeTurns is how long a process waits before it asks for one more server, for
// each that it holds: so those that start together share evenly.
const takeTurns = 100 * time.Millisecond

// want sets the servers to divide. It returns at once.
func (s *sharing) want(cfg *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg = cfg
	if s.ctx == nil {
		return // run begins with it
	}
	for id, stop := range s.stops {
		if _, wanted := cfg.Server(id); !wanted {
			stop()
			delete(s.stops, id)
		}
	}
	for _, srv := range cfg.Servers {
		if _, asks := s.stops[srv.ID]; !asks {
			ctx, stop := context.WithCancel(s.ctx)
			s.stops[srv.ID] = stop
			s.running.Go(func() { s.hold(ctx, srv.ID) })
		}
	}
	s.applyLocked()
}

// run holds leases until ctx ends; it has given them all back when it returns.
func (s *sharing) run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx, s.held, s.stops = ctx, map[string]bool{}, map[string]context.CancelFunc{}
	cfg := s.cfg
	s.mu.Unlock()
	s.want(cfg)
	<-ctx.Done()
	s.mu.Lock()
	s.ctx = nil
	for _, stop := range s.stops {
		stop()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// hold takes the lease of one server again and again until ctx ends.
func (s *sharing) hold(ctx context.Context, id string) {
	for ctx.Err() == nil {
		pause(ctx, time.Duration(s.count())*takeTurns+rand.N(takeTurns))
		lease, err := s.journal.Lease(ctx, "server/"+id, 0)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("cannot ask for a lease", "server", id, "err", err)
			}
			pause(ctx, time.Second)
			continue
		}
		s.gained(ctx)
		s.set(id, true)
		select {
		case <-lease.Lost():
			s.log.Warn("another process may follow the server now", "server", id)
		case <-ctx.Done():
		}
		s.set(id, false)
		lease.Release()
	}
}

func (s *sharing) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

func (s *sharing) set(id string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held {
		s.held[id] = true
	} else {
		delete(s.held, id)
	}
	if s.ctx != nil { // at the end the tracker is gone already
		s.applyLocked()
	}
}

// applyLocked applies the part of the config that is ours.
func (s *sharing) applyLocked() {
	mine := &config.Config{Path: s.cfg.Path, Servers: slices.Clone(s.cfg.Servers)}
	mine.Servers = slices.DeleteFunc(mine.Servers, func(srv config.Server) bool { return !s.held[srv.ID] })
	s.apply(mine)
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
