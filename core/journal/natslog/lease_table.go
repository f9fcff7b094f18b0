package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// leaseTable holds what is known about all leases of the log. One watcher of their bucket
// serves all waiters.
type leaseTable struct {
	store *store
	// suspect is signalled when a request to the bucket failed. Capacity 1, never
	// closed: a token means that the bucket is to be checked.
	suspect chan struct{}

	mu      sync.Mutex // guards all below
	kv      jetstream.KeyValue
	err     error // why the table is not current; nil if it is
	seen    map[string]sighting
	waiting map[string]chan struct{} // by lease; closed and removed when the lease is seen to change
}

func newLeaseTable(s *store) *leaseTable {
	return &leaseTable{store: s, suspect: make(chan struct{}, 1), err: errors.New("the leases have not been read yet"),
		seen: map[string]sighting{}, waiting: map[string]chan struct{}{}}
}

// sighting is the last known state of a lease.
type sighting struct {
	free  bool
	rev   uint64 // 0: the store has lost the lease
	value leaseValue
	at    time.Time // when it was seen, by our clock
}

// ttl returns the time to live, bounded because other processes write it.
func (v leaseValue) ttl() time.Duration {
	return min(time.Duration(v.TTL)*time.Millisecond, time.Minute)
}

// run keeps the table current until ctx ends. The bucket is made again whenever it is lost.
func (t *leaseTable) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := t.follow(ctx)
		t.fail(err)
		if ctx.Err() == nil {
			t.store.opts.Logger.Debug("the leases are read again", "err", err)
		}
		backoff.Sleep(ctx, bucketCheck/4)
	}
}

// follow watches the bucket until it is lost or ctx ends.
func (t *leaseTable) follow(ctx context.Context) error {
	return t.store.followBucket(ctx, bucketView{
		config: jetstream.KeyValueConfig{
			Bucket: t.store.opts.Stream + "_leases", Description: "mcptrack: who does what", MaxBytes: 16 << 20,
			// In memory, a restarted node has an empty Raft log. Nodes with empty logs elect no leader
			// without the one that is not empty, and that one cannot lead if the leader was killed before
			// it had read the leases: then nobody could acquire a lease until the bucket is deleted.
			Storage: jetstream.FileStorage,
		},
		suspect: t.suspect,
		reset: func(kv jetstream.KeyValue, all []jetstream.KeyValueEntry, _ uint64) {
			first := map[string]sighting{}
			for _, e := range all {
				first[e.Key()] = sightingOf(e)
			}
			t.reset(kv, first)
		},
		put:   func(e jetstream.KeyValueEntry) { t.put(e.Key(), sightingOf(e)) },
		state: t.setErr,
	})
}

func sightingOf(e jetstream.KeyValueEntry) sighting {
	s := sighting{rev: e.Revision(), at: time.Now()}
	if e.Operation() != jetstream.KeyValuePut {
		s.free = true
	} else {
		_ = json.Unmarshal(e.Value(), &s.value) // an invalid lease expires at once
	}
	return s
}

// reset replaces the table by the content of a bucket. Leases that were held but are missing in
// the bucket stay with their holders until they expire.
func (t *leaseTable) reset(kv jetstream.KeyValue, now map[string]sighting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, s := range t.seen {
		if _, ok := now[key]; !ok && !s.free {
			s.rev = 0
			now[key] = s
		}
	}
	t.kv, t.err, t.seen = kv, nil, now
	for key, changed := range t.waiting {
		close(changed)
		delete(t.waiting, key)
	}
}

// fail records that there is no bucket, and why.
func (t *leaseTable) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kv, t.err = nil, err
}

func (t *leaseTable) setErr(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

// bucket returns the bucket, nil while there is none.
func (t *leaseTable) bucket() jetstream.KeyValue {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kv
}

// check requests that the bucket be checked soon.
func (t *leaseTable) check() {
	select {
	case t.suspect <- struct{}{}:
	default:
	}
}

// put wakes the waiters of this lease, and no others: every lease is renewed every few
// seconds, and many are waited for.
func (t *leaseTable) put(key string, s sighting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[key] = s
	if changed, ok := t.waiting[key]; ok {
		close(changed)
		delete(t.waiting, key)
	}
}

// look returns the last sighting of a lease, the bucket, and a channel that is closed
// when there may be something newer.
func (t *leaseTable) look(key string) (sighting, jetstream.KeyValue, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.seen[key]
	if !ok {
		s.free = true
	}
	changed, ok := t.waiting[key]
	if !ok {
		changed = make(chan struct{})
		t.waiting[key] = changed
	}
	return s, t.kv, changed
}
