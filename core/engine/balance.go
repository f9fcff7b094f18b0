package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

const (
	// balanceEvery is how often a process checks whether it follows more than its share of the
	// servers. If so, it gives up a quarter of the excess: few servers are interrupted at a
	// time, and the shares are even within a minute.
	balanceEvery = 2 * time.Second
	// A server that no other process took, because none is configured with it or all are too
	// busy, is not given up again for keepFirst, and then for longer each time.
	keepFirst   = 30 * time.Second
	keepLongest = 10 * time.Minute
	// orphanedFor is how long no process may follow a server, as during a takeover, before that
	// is reported.
	orphanedFor = 15 * time.Second
)

// balance gives up servers for processes that have fewer, until ctx ends.
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

// yield returns how long to leave a free server to other processes, because this one has its
// share; 0: take it.
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

// fairLocked returns the most servers that each of so many processes should follow.
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

// ready returns why this process, or the cluster, does not follow all servers that it should.
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
