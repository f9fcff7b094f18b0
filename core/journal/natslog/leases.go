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

// leases tracks the leases that this Log holds and, once the first lease is requested, the state of
// all leases on the cluster. A single watcher on the lease bucket serves all waiting callers.
type leases struct {
	store *store
	// suspect receives a token when a request to the bucket has failed, so that the bucket is
	// checked. Its capacity is 1, and it is never closed.
	suspect chan struct{}
	runs    sync.WaitGroup // waits for the goroutine run

	mu      sync.Mutex // guards the fields below
	held    map[*Lease]struct{}
	closed  bool
	end     context.CancelFunc // stops the goroutine run; nil if it was not started
	kv      jetstream.KeyValue
	err     error // reason why the sightings are outdated; nil if they are current
	seen    map[string]sighting
	waiting map[string]chan struct{} // by lease key; closed and removed when the lease changes
}

func newLeases(s *store) *leases {
	return &leases{store: s, suspect: make(chan struct{}, 1), err: errors.New("the leases have not been read yet"),
		held: map[*Lease]struct{}{}, seen: map[string]sighting{}, waiting: map[string]chan struct{}{}}
}

// open starts watching the lease bucket, unless it is already being watched.
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

// hold starts renewing a lease that was acquired with a request sent at the given time.
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

// holds reports whether this Log currently holds the lease with the given key.
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

// close releases all leases and stops watching the bucket.
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

// LeaseInfo describes a lease that some process on the cluster holds.
type LeaseInfo struct {
	Name    string
	Process string // name of the holding process; see [Options.Process]
	Own     bool   // set if this Log holds the lease
}

// Leases returns the leases that any process currently holds, in no particular order. If it returns
// an error, the leases are unknown at the moment, and none can be acquired.
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

// sighting is the state of a lease as this process last saw it.
type sighting struct {
	free  bool
	rev   uint64 // revision; 0 if the store has lost the lease
	value leaseValue
	at    time.Time // when this process saw it, by the local clock
}

func sightingOf(e jetstream.KeyValueEntry) sighting {
	s := sighting{rev: e.Revision(), at: time.Now()}
	if e.Operation() != jetstream.KeyValuePut {
		s.free = true
	} else {
		_ = json.Unmarshal(e.Value(), &s.value) // after an error, the lease is treated as expired
	}
	return s
}

// ttl returns the time to live of the lease, limited to a sensible range because another process
// wrote the value.
func (v leaseValue) ttl() time.Duration {
	return min(time.Duration(v.TTL)*time.Millisecond, time.Minute)
}

// run watches the bucket until ctx ends. Whenever the bucket is lost, run creates it again.
func (s *leases) run(ctx context.Context) {
	view := bucketView{
		config: jetstream.KeyValueConfig{
			Bucket: s.store.opts.Stream + "_leases", Description: "mcptrack: leases on tasks that only one process may perform at a time", MaxBytes: 16 << 20,
			// Do not keep the bucket in memory, because it could become permanently unusable. A
			// restarted node has an empty Raft log. Nodes with empty logs cannot elect a leader
			// without the node that has the log, and that node cannot lead if the previous leader
			// was killed before the node had read the leases. No process could then acquire a lease
			// until somebody deletes the bucket.
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
			s.store.opts.Logger.Debug("following the leases failed; retrying", "err", err)
		}
		backoff.Sleep(ctx, bucketCheck/4)
	}
}

// reset replaces the known leases with the content of the bucket. A held lease that is missing from
// the bucket stays with its holder until it expires.
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

// put records a write to one lease. It wakes only the callers that wait for this lease, because
// every lease is renewed every few seconds and many may be waited for.
func (s *leases) put(key string, now sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[key] = now
	if changed, ok := s.waiting[key]; ok {
		close(changed)
		delete(s.waiting, key)
	}
}

// bucket returns the lease bucket, or nil if there is none at the moment.
func (s *leases) bucket() jetstream.KeyValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kv
}

// check requests an immediate check of the bucket.
func (s *leases) check() {
	select {
	case s.suspect <- struct{}{}:
	default:
	}
}

// look returns the last known state of a lease, the bucket (nil if there is none), and a channel
// that is closed when the state may have changed.
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
