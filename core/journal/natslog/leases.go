package natslog

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
)

// leases are the leases of a Log: those that it holds, and the table of all, which is
// opened when the first lease is requested.
type leases struct {
	mu     sync.Mutex // guards all below
	table  *leaseTable
	held   map[*Lease]struct{}
	closed bool
	end    context.CancelFunc // of the table's goroutine
	runs   sync.WaitGroup     // the table's goroutine
}

func (s *leases) open(store *store) (*leaseTable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, journal.ErrClosed
	}
	if s.table == nil {
		t := newLeaseTable(store)
		ctx, end := context.WithCancel(context.Background())
		s.table, s.end, s.held = t, end, map[*Lease]struct{}{}
		s.runs.Go(func() { t.run(ctx) })
	}
	return s.table, nil
}

// hold starts to renew a lease that was acquired.
func (s *leases) hold(l *Lease, sent time.Time) error {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.renewed(sent)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.held[l] = struct{}{}
		l.done.Go(func() {
			l.renew(ctx, sent)
			stop()
			s.mu.Lock()
			delete(s.held, l)
			s.mu.Unlock()
		})
	}
	s.mu.Unlock()
	if closed {
		stop()
		l.giveBack(context.Background())
		return journal.ErrClosed
	}
	return nil
}

// holds reports whether this Log holds the lease with the key.
func (s *leases) holds(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.held {
		if l.key == key {
			return true
		}
	}
	return false
}

// close releases all leases and ends the table.
func (s *leases) close() {
	s.mu.Lock()
	s.closed = true
	held := make([]*Lease, 0, len(s.held))
	for l := range s.held {
		held = append(held, l)
		l.stop()
	}
	end := s.end
	s.mu.Unlock()
	for _, l := range held {
		l.done.Wait()
	}
	if end != nil {
		end()
		s.runs.Wait()
	}
}

// LeaseInfo is a lease that some process holds.
type LeaseInfo struct {
	Name    string
	Process string // that holds it; see [Options.Process]
	Own     bool   // this Log holds it
}

// Leases returns the leases that are held now, in any order. The error says why they are
// unknown, and that no lease can be acquired now.
func (l *Log) Leases() ([]LeaseInfo, error) {
	t, err := l.leases.open(l.store)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return nil, fmt.Errorf("event log: read the leases: %w", t.err)
	}
	now := time.Now()
	var out []LeaseInfo
	for key, s := range t.seen {
		name, err := hex.DecodeString(strings.TrimPrefix(key, "l"))
		if err != nil || s.free || !now.Before(s.at.Add(s.value.ttl())) {
			continue
		}
		out = append(out, LeaseInfo{string(name), s.value.Process, s.value.Instance == l.store.instance})
	}
	return out, nil
}
