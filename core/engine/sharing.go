package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Prefixes of the names of leases: for a server, and for a process that shares servers.
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
	all     bool // servers are also followed without a lease

	mu      sync.Mutex      // guards all below, up to leasesMu
	ctx     context.Context // of run; nil while it does not run
	cfg     *config.Config
	shares  map[string]*share    // by server of the config
	orphans map[string]time.Time // servers that no process follows, and since when
	running sync.WaitGroup

	leasesMu sync.Mutex                // guards leases; separate, because the tracker takes it while it publishes
	leases   map[string]*natslog.Lease // the last lease of every server, even if it was lost; if all is set, only held ones
}

// share is the goroutine that waits for, or holds, the lease of one server.
type share struct {
	stop   context.CancelFunc
	held   bool
	giveUp context.CancelFunc // gives the server up for another process; nil while it is not followed
	keep   time.Time          // until then it is not given up again, because no other process took it
	keepBy *backoff.Backoff   // the durations of keep
}

func newSharing(log *natslog.Log, e *Engine) *sharing {
	return &sharing{log: log, tracker: e.tracker, memory: e.memory, logger: e.opts.Logger, all: e.opts.FollowAll, cfg: &config.Config{},
		shares: map[string]*share{}, leases: map[string]*natslog.Lease{}, orphans: map[string]time.Time{}}
}

// apply sets the servers to divide. It returns immediately.
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

// unapproved reports whether this process must not follow the server. Another process, whose user
// approved it, may follow it.
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

// appear holds a lease for this process, by which the others count it.
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

// hold acquires the lease of one server again and again until ctx ends, and follows the server
// while it holds the lease.
func (s *sharing) hold(ctx context.Context, id string, sh *share) {
	retry := backoff.New(time.Second, 5*time.Second)
	givenUp := false
	for backoff.Sleep(ctx, rand.N(jitter)) {
		untaken := false // this process gave the server up, and no other process took it
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
			s.logger.Warn("lost the lease of a server; another process may follow it now", "server", id)
		case <-granted.Done():
		}
		givenUp = granted.Err() != nil && ctx.Err() == nil
		giveUp()
		s.handOver(id, sh, lease)
		lease.Release()
	}
}

// set records the lease under which the server is followed; nil: it is not followed.
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
// process does not share servers, or never held a lease for this one.
func (s *sharing) lease(id string) *natslog.Lease {
	if s == nil {
		return nil
	}
	s.leasesMu.Lock()
	defer s.leasesMu.Unlock()
	return s.leases[id]
}

// wanted returns the ids of the servers in the config.
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

// followLocked follows the servers in the config whose leases are held.
func (s *sharing) followLocked() {
	if s.all {
		return
	}
	s.tracker.Apply(s.cfg.Only(func(srv config.Server) bool {
		sh := s.shares[srv.ID]
		return sh != nil && sh.held
	}))
}

// holders returns which process holds the lease of each server, and how many processes share the
// servers.
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

// handOverWait bounds how long the lease of a server is kept to publish and store outstanding
// events.
const handOverWait = 5 * time.Second

// takeOver fences off earlier holders, so that no event in their queues will be stored any more,
// and reads what they stored.
func (s *sharing) takeOver(ctx context.Context, id string, lease *natslog.Lease) error {
	err := lease.Fence(ctx, &event.Event{ServerID: id, Timestamp: time.Now(), Payload: event.ServerState{
		State: event.Pending, Reason: "followed by " + s.log.Process()}})
	if err != nil {
		return err
	}
	return s.memory.loadServer(ctx, id)
}

// handOver stops following a server, and waits until its outstanding events are stored.
func (s *sharing) handOver(id string, sh *share, lease *natslog.Lease) {
	s.mu.Lock()
	ending := s.ctx == nil || s.ctx.Err() != nil // then Run has stored the events
	s.mu.Unlock()
	if ending {
		s.set(id, sh, nil, nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverWait)
	defer cancel()
	s.set(id, sh, nil, nil)
	if s.all || s.tracker.Gone(ctx, id) == nil {
		if !s.wants(id) {
			_ = lease.Announce(natslog.Announcement{ServerID: id, Status: json.RawMessage(removed)}) // if this fails, the announced status expires
		}
		_ = s.log.Flush(ctx) // if this fails, the next holder finds the changes by reading the server
	}
}

const (
	// balanceEvery is how often a process checks whether it follows more than its share of the
	// servers. If so, it gives up a quarter of the excess: this interrupts few servers at a
	// time, and makes the shares even within a minute.
	balanceEvery = 2 * time.Second
	// A server that no other process took, because no other config has it or all processes are
	// busy, is not given up again for keepFirst, and then for longer each time.
	keepFirst   = 30 * time.Second
	keepLongest = 10 * time.Minute
	// orphanedFor is how long a server may be without a process, as during a takeover, before
	// this is reported.
	orphanedFor = 15 * time.Second
)

// balance gives up servers to processes that follow fewer, until ctx ends.
func (s *sharing) balance(ctx context.Context) {
	for backoff.Sleep(ctx, backoff.Spread(balanceEvery)) {
		leases, err := s.log.Leases()
		if err != nil {
			continue
		}
		process, processes := holders(leases)
		s.mu.Lock()
		s.noteOrphansLocked(process)
		excess := s.heldLocked() - s.fairLocked(processes)
		give := (excess + 3) / 4
		for _, sh := range s.shares { // in random order
			if give > 0 && sh.giveUp != nil && time.Now().After(sh.keep) {
				sh.giveUp()
				sh.giveUp = nil
				give--
			}
		}
		s.mu.Unlock()
	}
}

// yield returns how long to leave a free server to other processes, because this process has its
// share; 0: take it now.
func (s *sharing) yield() time.Duration {
	leases, err := s.log.Leases()
	if err != nil {
		return 0
	}
	_, processes := holders(leases)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heldLocked() < s.fairLocked(processes) {
		return 0
	}
	return yieldFor
}

// heldLocked counts the servers that are followed and not being given up.
func (s *sharing) heldLocked() (n int) {
	for _, sh := range s.shares {
		if sh.giveUp != nil {
			n++
		}
	}
	return n
}

// fairLocked returns the most servers that each of the processes should follow.
func (s *sharing) fairLocked(processes int) int {
	processes = max(processes, 1)
	return (len(s.shares) + processes - 1) / processes
}

func (s *sharing) noteOrphansLocked(process map[string]string) {
	for id := range s.shares {
		if _, ok := process[id]; ok {
			delete(s.orphans, id)
		} else if _, ok := s.orphans[id]; !ok {
			s.orphans[id] = time.Now()
		}
	}
}

// ready returns why not every server is followed by some process, nil if each is.
func (s *sharing) ready() error {
	if _, err := s.log.Leases(); err != nil {
		return fmt.Errorf("waiting for leases: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, since := range s.orphans {
		if time.Since(since) > orphanedFor {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return fmt.Errorf("waiting for leases: no process follows %d servers: %s", len(ids), strings.Join(ids[:min(len(ids), 5)], ", "))
}
