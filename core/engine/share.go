package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Names of leases: of a server, and of a process that shares servers.
const (
	serverLease  = "server/"
	processLease = "process/"
)

const (
	// jitter spreads the requests of processes that start together.
	jitter = 100 * time.Millisecond
	// yieldFor is how long a process that has its share leaves a free server to others.
	yieldFor = 2 * time.Second
)

// sharing divides the servers of a config among all processes on one cluster: each
// is followed by the process that holds its lease.
type sharing struct {
	log     *natslog.Log
	tracker *tracker.Tracker
	memory  *memory
	logger  *slog.Logger
	all     bool // servers are followed without a lease, too

	mu      sync.Mutex      // guards the rest
	ctx     context.Context // of run; nil while it does not run
	cfg     *config.Config
	shares  map[string]*share    // by server of the config
	orphans map[string]time.Time // servers that no process follows, and since when
	running sync.WaitGroup

	leasesMu sync.Mutex                // guards leases; held for nothing else, as the tracker publishes meanwhile
	leases   map[string]*natslog.Lease // the last one of every server, also if it was lost; with all only if it is held
}

// share is the goroutine that waits for, or holds, the lease of one server.
type share struct {
	stop   context.CancelFunc
	held   bool
	giveUp context.CancelFunc // gives the server up for another process; nil while it is not followed
	keep   time.Time          // until then it is not given up again, because no other process took it
	keepBy *backoff.Backoff   // how long that is
}

func newSharing(log *natslog.Log, e *Engine) *sharing {
	return &sharing{log: log, tracker: e.tracker, memory: e.memory, logger: e.opts.Logger, all: e.opts.FollowAll, cfg: &config.Config{},
		shares: map[string]*share{}, leases: map[string]*natslog.Lease{}, orphans: map[string]time.Time{}}
}

// apply sets the servers to divide. It returns at once.
func (s *sharing) apply(cfg *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg = cfg
	if s.ctx != nil {
		s.contendLocked()
		s.followLocked()
	}
}

// contendLocked starts and ends goroutines so that there is one for every server of the config.
func (s *sharing) contendLocked() {
	for id, sh := range s.shares {
		if srv, wanted := s.cfg.Server(id); !wanted || unapproved(srv) {
			sh.stop()
			delete(s.shares, id)
			delete(s.orphans, id)
		}
	}
	for _, srv := range s.cfg.Servers {
		if _, runs := s.shares[srv.ID]; !runs && !unapproved(srv) {
			ctx, stop := context.WithCancel(s.ctx)
			sh := &share{stop: stop, keepBy: backoff.New(keepFirst, keepLongest)}
			s.shares[srv.ID] = sh
			s.running.Go(func() { s.hold(ctx, srv.ID, sh) })
		}
	}
}

// unapproved reports whether the server may not be followed here: another process, where it is
// approved, may follow it.
func unapproved(srv config.Server) bool { return srv.Unapproved != "" && !srv.Superseded }

// run holds leases until ctx ends, and releases all of them before it returns.
func (s *sharing) run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	s.contendLocked()
	s.followLocked()
	s.mu.Unlock()
	s.running.Go(func() { s.appear(ctx) })
	s.balance(ctx)
	s.mu.Lock()
	s.ctx = nil // the tracker has ended: nothing is applied any more
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// appear makes this process count for the others, by holding a lease of its own.
func (s *sharing) appear(ctx context.Context) {
	retry := backoff.New(time.Second, 5*time.Second)
	name := fmt.Sprintf("%s%016x", processLease, rand.Uint64())
	for ctx.Err() == nil {
		lease, err := s.log.Lease(ctx, name, natslog.LeaseOptions{})
		if err != nil {
			backoff.Sleep(ctx, retry.Next())
			continue
		}
		retry.Reset()
		select {
		case <-lease.Lost():
		case <-ctx.Done():
		}
		lease.Release()
	}
}

// hold takes the lease of one server repeatedly until ctx ends, and follows the server while it
// holds the lease.
func (s *sharing) hold(ctx context.Context, id string, sh *share) {
	retry := backoff.New(time.Second, 5*time.Second)
	givenUp := false
	for backoff.Sleep(ctx, rand.N(jitter)) {
		untaken := false // this process gave the server up, and no other one took it
		lease, err := s.log.Lease(ctx, serverLease+id, natslog.LeaseOptions{Yield: func(taken bool) time.Duration {
			if untaken = givenUp && !taken; untaken {
				return natslog.DefaultLease
			}
			return s.yield()
		}})
		if err == nil {
			if err = s.takeOver(ctx, id, lease); err != nil {
				lease.Release()
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				s.logger.Warn("cannot acquire the lease of a server", "server", id, "err", err)
				backoff.Sleep(ctx, retry.Next())
			}
			continue
		}
		retry.Reset()
		s.mu.Lock()
		if untaken {
			sh.keep = time.Now().Add(sh.keepBy.Next())
		} else {
			sh.keepBy.Reset()
		}
		s.mu.Unlock()
		granted, giveUp := context.WithCancel(ctx)
		s.set(id, sh, lease, giveUp)
		if s.all { // it may be connected already
			s.tracker.Republish(id)
		}
		select {
		case <-lease.Lost():
			s.logger.Warn("the lease of a server is lost; another process may follow it now", "server", id)
		case <-granted.Done():
		}
		givenUp = granted.Err() != nil && ctx.Err() == nil
		giveUp()
		s.handOver(id, sh, lease)
		lease.Release()
	}
}

// set records that the server is followed under the lease; nil: it is not followed.
func (s *sharing) set(id string, sh *share, lease *natslog.Lease, giveUp context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.held, sh.giveUp = lease != nil, giveUp
	s.leasesMu.Lock()
	if lease != nil {
		s.leases[id] = lease
	} else if s.all {
		delete(s.leases, id)
	}
	s.leasesMu.Unlock()
	if s.ctx != nil {
		s.followLocked()
	}
}

// lease returns the last lease of the server, which may be lost; nil if this
// process does not share servers, or never held one for it.
func (s *sharing) lease(id string) *natslog.Lease {
	if s == nil {
		return nil
	}
	s.leasesMu.Lock()
	defer s.leasesMu.Unlock()
	return s.leases[id]
}

// wanted are the ids of the servers of the config.
func (s *sharing) wanted() (ids []string) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, srv := range s.cfg.Servers {
		ids = append(ids, srv.ID)
	}
	return ids
}

// wants reports whether the server is in the config.
func (s *sharing) wants(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.cfg.Server(id)
	return ok
}

// followLocked follows the servers of the config whose leases are held.
func (s *sharing) followLocked() {
	if s.all {
		return
	}
	s.tracker.Apply(s.cfg.Only(func(srv config.Server) bool {
		sh := s.shares[srv.ID]
		return sh != nil && sh.held
	}))
}

// holders returns the processes that hold the leases of servers, and how many processes
// share them.
func holders(leases []natslog.LeaseInfo) (process map[string]string, processes int) {
	process = map[string]string{}
	for _, l := range leases {
		if id, ok := strings.CutPrefix(l.Name, serverLease); ok {
			process[id] = l.Process
		} else if strings.HasPrefix(l.Name, processLease) {
			processes++
		}
	}
	return process, processes
}
