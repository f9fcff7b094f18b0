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
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Prefixes of lease names: for a server, and for a process that shares servers.
const (
	serverLease  = "server/"
	processLease = "process/"
)

const (
	// jitter spreads out the requests of processes that start at the same time.
	jitter = 100 * time.Millisecond
	// yieldFor is how long a process that already has its share waits before it takes a free
	// server, so that other processes can take it.
	yieldFor = 2 * time.Second
)

// sharing divides the servers in a config among all processes on one cluster: each server is
// followed by the process that holds its lease.
type sharing struct {
	log     *natslog.Log
	tracker *tracker.Tracker
	logger  *slog.Logger
	duty    func(server string) (follow bool, to journal.Recorder) // [Engine.duty]
	drifts  *drifts

	mu      sync.Mutex      // guards the fields below, up to leasesMu
	ctx     context.Context // context of run; nil while run is not active
	cfg     *config.Config
	shares  map[string]*share    // by id, for every server in the config
	orphans map[string]time.Time // servers that no process follows, with the time since when
	running sync.WaitGroup

	leasesMu sync.Mutex      // guards leases; a separate mutex, because the tracker locks it while publishing
	leases   map[string]held // for the servers whose events this process stores
}

// held is the lease for a server.
type held struct {
	lease   *natslog.Lease // may have been lost
	leaving bool           // another process is to follow the server
}

// share represents the goroutine that waits for or holds the lease for one server.
type share struct {
	stop   context.CancelFunc
	giveUp context.CancelFunc // gives up the server in favour of another process; nil while it is not followed
	keep   time.Time          // do not give up the server again before this time, because no other process took it
	keepBy *backoff.Backoff   // determines the duration of keep
}

func newSharing(log *natslog.Log, e *Engine) *sharing {
	return &sharing{log: log, tracker: e.tracker, logger: e.opts.Logger, duty: e.duty, drifts: e.drifts, cfg: &config.Config{},
		shares: map[string]*share{}, leases: map[string]held{}, orphans: map[string]time.Time{}}
}

// apply sets the servers to share. It returns immediately.
func (s *sharing) apply(cfg *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg = cfg
	if s.ctx != nil {
		s.contendLocked()
		s.followLocked()
	}
}

// contendLocked starts and stops goroutines so that there is exactly one for every server in the
// config.
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

// unapproved reports whether this process must not follow the server. It may be followed by another
// process whose user approved it.
func unapproved(srv config.Server) bool { return srv.Unapproved != "" && !srv.Superseded }

// run acquires and holds leases until ctx ends, and releases all of them before it returns.
func (s *sharing) run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	s.contendLocked()
	s.followLocked()
	s.mu.Unlock()
	s.running.Go(func() { s.appear(ctx) })
	s.balance(ctx)
	s.mu.Lock()
	s.ctx = nil // the tracker has stopped, so no config is applied any more
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// appear holds a lease that represents this process, so that the other processes count it.
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

// hold repeatedly acquires the lease for one server until ctx ends, and follows the server while it
// holds the lease.
func (s *sharing) hold(ctx context.Context, id string, sh *share) {
	retry := backoff.New(time.Second, 5*time.Second)
	givenUp := false
	for backoff.Sleep(ctx, rand.N(jitter)) {
		untaken := false // this process gave up the server, but no other process took it
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
				s.logger.Warn("cannot acquire the lease for a server", "server", id, "err", err)
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
		s.set(sh, giveUp)
		s.drifts.mark(id)
		select {
		case <-lease.Lost():
			s.logger.Warn("lost the lease for a server; another process may follow it now", "server", id)
		case <-granted.Done():
		}
		givenUp = granted.Err() != nil && ctx.Err() == nil
		giveUp()
		s.handOver(id, sh, lease)
		lease.Release()
	}
}

// set follows the servers after a change of leases. giveUp is nil for a server that is left.
func (s *sharing) set(sh *share, giveUp context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.giveUp = giveUp
	if s.ctx != nil {
		s.followLocked()
	}
}

// lease returns the lease under which this process stores the events of a server.
func (s *sharing) lease(id string) (h held, ok bool) {
	s.leasesMu.Lock()
	defer s.leasesMu.Unlock()
	h, ok = s.leases[id]
	return h, ok
}

// setLease replaces the lease of a server; without a lease, this process stores nothing more about it.
func (s *sharing) setLease(id string, h held) {
	s.leasesMu.Lock()
	defer s.leasesMu.Unlock()
	if h.lease == nil {
		delete(s.leases, id)
	} else {
		s.leases[id] = h
	}
}

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

func (s *sharing) wants(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.cfg.Server(id)
	return ok
}

// followLocked follows the servers in the config that this process is to follow.
func (s *sharing) followLocked() {
	s.tracker.Apply(s.cfg.Only(func(srv config.Server) bool {
		follow, _ := s.duty(srv.ID)
		return follow
	}))
}

// holders returns the process that holds the lease for each server, and the number of processes
// that share the servers.
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

// handOverWait limits how long the lease for a server is kept to publish and store outstanding
// events.
const handOverWait = 5 * time.Second

// takeOver fences off previous holders of the lease, so that none of their queued events will be
// stored, and stores what the server's events report from now on.
func (s *sharing) takeOver(ctx context.Context, id string, lease *natslog.Lease) error {
	err := lease.Fence(ctx, &event.Event{ServerID: id, Timestamp: time.Now(), Payload: event.ServerState{
		State: event.Pending, Reason: "followed by " + s.log.Process()}})
	if err != nil {
		return err
	}
	stored, err := s.log.States(ctx, id)
	if err == nil {
		s.tracker.TakeOver(id, stored, func() { s.setLease(id, held{lease: lease}) })
	}
	return err
}

// handOver stops following a server, and waits until its outstanding events have been stored.
func (s *sharing) handOver(id string, sh *share, lease *natslog.Lease) {
	s.mu.Lock()
	ending := s.ctx == nil || s.ctx.Err() != nil // in this case Run has already stored the events
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), handOverWait)
	defer cancel()
	s.setLease(id, held{lease, true})
	s.set(sh, nil)
	follow, _ := s.duty(id)
	left := !ending && (follow || s.tracker.Gone(ctx, id) == nil)
	s.setLease(id, held{})
	if left {
		if !s.wants(id) {
			_ = lease.Announce(natslog.Announcement{ServerID: id, Status: json.RawMessage(removed)}) // if this fails, the announced status will expire
		}
		_ = s.log.Flush(ctx) // if this fails, the next holder detects the changes by reading the server
	}
}

const (
	// balanceEvery is how often a process checks whether it follows more than its share of the
	// servers. If so, it gives up a quarter of the excess, so that few servers are interrupted at a
	// time and the shares become even within a minute.
	balanceEvery = 2 * time.Second
	// keepFirst is how long a server is kept after no other process took it, because it is in no
	// other config or all processes are busy. Each further time, it is kept longer.
	keepFirst   = 30 * time.Second
	keepLongest = 10 * time.Minute
	// orphanedFor is how long a server may be without a process, for example during a takeover,
	// before this is reported.
	orphanedFor = 15 * time.Second
)

// balance repeatedly gives up servers in favour of processes that follow fewer, until ctx ends.
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
		for _, sh := range s.shares { // map iteration order is random
			if give > 0 && sh.giveUp != nil && time.Now().After(sh.keep) {
				sh.giveUp()
				sh.giveUp = nil
				give--
			}
		}
		s.mu.Unlock()
	}
}

// yield returns how long to leave a free server to other processes because this process already has
// its share; 0 means that this process can take it now.
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

// heldLocked returns the number of servers that are followed and not being given up.
func (s *sharing) heldLocked() (n int) {
	for _, sh := range s.shares {
		if sh.giveUp != nil {
			n++
		}
	}
	return n
}

// fairLocked returns the maximum number of servers that each process should follow.
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

// ready returns an error if any server is not followed by a process.
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
