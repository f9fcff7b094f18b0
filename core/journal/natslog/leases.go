package natslog

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
)

// leases are the leases that a Log holds, and what it knows about all leases on the cluster after
// the first one was requested. One watcher of their bucket serves all waiters.
type leases struct {
	store *store
	// suspect is signalled when a request to the bucket failed. Capacity 1, never closed: a token
	// means that the bucket must be checked.
	suspect chan struct{}
	runs    sync.WaitGroup // run

	mu      sync.Mutex // guards the fields below
	held    map[*Lease]struct{}
	closed  bool
	end     context.CancelFunc // of run; nil: it does not run
	kv      jetstream.KeyValue
	err     error // why the sightings are not current; nil if they are
	seen    map[string]sighting
	waiting map[string]chan struct{} // by lease; closed and removed when the lease changes
}

func newLeases(s *store) *leases {
	return &leases{store: s, suspect: make(chan struct{}, 1), err: errors.New("the leases have not been read yet"),
		held: map[*Lease]struct{}{}, seen: map[string]sighting{}, waiting: map[string]chan struct{}{}}
}

// open starts to follow the leases.
func (s *leases) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return journal.ErrClosed
	}
	if s.end == nil {
		var ctx context.Context
		ctx, s.end = context.WithCancel(context.Background())
		s.runs.Go(func() { s.run(ctx) })
	}
	return nil
}

// hold starts to renew an acquired lease.
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

// close releases all leases and stops following them.
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
	Process string // of the holder; see [Options.Process]
	Own     bool   // this Log holds it
}

// Leases returns the leases that are held now, in any order. The error says why they are unknown;
// while they are, no lease can be acquired.
func (l *Log) Leases() ([]LeaseInfo, error) {
	s := l.leases
	if err := s.open(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, fmt.Errorf("event log: read the leases: %w", s.err)
	}
	now := time.Now()
	var out []LeaseInfo
	for key, was := range s.seen {
		name, err := hex.DecodeString(strings.TrimPrefix(key, "l"))
		if err == nil && !was.free && now.Before(was.at.Add(was.value.ttl())) {
			out = append(out, LeaseInfo{string(name), was.value.Process, was.value.Instance == l.store.instance})
		}
	}
	return out, nil
}

// sighting is the last known state of a lease.
type sighting struct {
	free  bool
	rev   uint64 // 0: the store has lost the lease
	value leaseValue
	at    time.Time // when it was seen, by the local clock
}

func sightingOf(e jetstream.KeyValueEntry) sighting {
	s := sighting{rev: e.Revision(), at: time.Now()}
	if e.Operation() != jetstream.KeyValuePut {
		s.free = true
	} else {
		_ = json.Unmarshal(e.Value(), &s.value) // an invalid lease has expired
	}
	return s
}

// ttl returns the time to live, bounded because other processes write it.
func (v leaseValue) ttl() time.Duration {
	return min(time.Duration(v.TTL)*time.Millisecond, time.Minute)
}

// run follows the bucket until ctx ends, and creates it again whenever it is lost.
func (s *leases) run(ctx context.Context) {
	view := bucketView{
		config: jetstream.KeyValueConfig{
			Bucket: s.store.opts.Stream + "_leases", Description: "mcptrack: who does what", MaxBytes: 16 << 20,
			// In memory, a restarted node would have an empty Raft log. Nodes with empty logs elect no
			// leader without the node that has one, and that node cannot lead if the leader was killed
			// before the node had read the leases. Nobody could then acquire a lease until somebody
			// deletes the bucket.
			Storage: jetstream.FileStorage,
		},
		suspect: s.suspect, reset: s.reset,
		put: func(e jetstream.KeyValueEntry) { s.put(e.Key(), sightingOf(e)) },
		state: func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.err = err
		},
	}
	for ctx.Err() == nil {
		err := s.store.followBucket(ctx, view)
		s.mu.Lock()
		s.kv, s.err = nil, err
		s.mu.Unlock()
		if ctx.Err() == nil {
			s.store.opts.Logger.Debug("the leases are read again", "err", err)
		}
		backoff.Sleep(ctx, bucketCheck/4)
	}
}

// reset takes over the content of a bucket. A lease that was held but is missing in the bucket stays
// with its holder until it expires.
func (s *leases) reset(kv jetstream.KeyValue, all []jetstream.KeyValueEntry, _ uint64) {
	now := map[string]sighting{}
	for _, e := range all {
		now[e.Key()] = sightingOf(e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, was := range s.seen {
		if _, ok := now[key]; !ok && !was.free {
			was.rev = 0
			now[key] = was
		}
	}
	s.kv, s.err, s.seen = kv, nil, now
	for key, changed := range s.waiting {
		close(changed)
		delete(s.waiting, key)
	}
}

// put takes over a later write. It wakes the waiters of this lease and no others: every lease is
// renewed every few seconds, and many are waited for.
func (s *leases) put(key string, now sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[key] = now
	if changed, ok := s.waiting[key]; ok {
		close(changed)
		delete(s.waiting, key)
	}
}

// bucket returns the bucket, nil while there is none.
func (s *leases) bucket() jetstream.KeyValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kv
}

// check requests that the bucket be checked soon.
func (s *leases) check() {
	select {
	case s.suspect <- struct{}{}:
	default:
	}
}

// look returns the last sighting of a lease, the bucket, and a channel that is closed when there may
// be something newer.
func (s *leases) look(key string) (sighting, jetstream.KeyValue, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.seen[key]
	if !ok {
		seen.free = true
	}
	changed, ok := s.waiting[key]
	if !ok {
		changed = make(chan struct{})
		s.waiting[key] = changed
	}
	return seen, s.kv, changed
}
