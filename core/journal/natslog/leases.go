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
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
	"github.com/mcptrack/mcptrack/core/records"
)

// leases mirrors the bucket of leases, once the first lease is requested: a key for each lease, which
// expires unless its holder renews it.
type leases struct {
	store  *store
	config jetstream.KeyValueConfig
	life   *storing.Lifetime // of the goroutines that mirror the bucket and renew leases
	opened sync.Once

	mu   sync.Mutex // guards the fields below
	kv   jetstream.KeyValue
	err  error // reason why the leases are unknown; nil if they are known
	seen map[string]sighting
	// changed happens when a lease is taken or becomes free, but not when it is renewed,
	// because every lease is renewed every few seconds and many may be waited for.
	changed wake.Change
}

// leaseMarkers is how long the bucket keeps a marker for a lease that was released or has expired.
const leaseMarkers = time.Minute

func newLeases(ctx context.Context, s *store) *leases {
	return &leases{store: s, life: storing.NewLifetime(ctx), err: errors.New("the leases have not been read yet"),
		config: jetstream.KeyValueConfig{
			Bucket: s.opts.Stream + "_leases", Description: "mcptrack: leases on tasks that only one process may perform at a time",
			MaxBytes: 16 << 20, LimitMarkerTTL: leaseMarkers,
			// Do not keep the bucket in memory, because it could become permanently unusable. A
			// restarted node has an empty Raft log. Nodes with empty logs cannot elect a leader
			// without the node that has the log, and that node cannot lead if the previous leader
			// was killed before the node had read the leases. No process could then acquire a lease
			// until somebody deletes the bucket.
			Storage: jetstream.FileStorage,
		}}
}

// open starts mirroring the bucket.
func (s *leases) open() {
	s.opened.Do(func() {
		ctx, done := s.life.Begin(context.Background())
		go func() {
			defer done()
			s.run(ctx)
		}()
	})
}

// close releases all leases and stops mirroring the bucket.
func (s *leases) close() {
	s.life.End()
	s.life.Wait()
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
	s.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, fmt.Errorf("event log: read the leases: %w", s.err)
	}
	var out []LeaseInfo
	for key, seen := range s.seen {
		name, err := hex.DecodeString(strings.TrimPrefix(key, "l"))
		if err == nil && time.Now().Before(seen.until) {
			out = append(out, LeaseInfo{string(name), seen.Process, strings.HasPrefix(seen.Holder, l.store.instance)})
		}
	}
	return out, nil
}

// sighting is a lease as this process last saw it.
type sighting struct {
	leaseValue
	rev   uint64
	until time.Time // when the lease expires unless it is renewed, by the local clock; zero if it is free
}

// run mirrors the bucket until ctx ends. Whenever the bucket is lost, run creates it again.
func (s *leases) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.store.followBucket(ctx, s.config, s.put)
		s.mu.Lock()
		s.kv, s.err = nil, err
		s.mu.Unlock()
		if ctx.Err() == nil {
			s.store.opts.Logger.Debug("following the leases failed; retrying", "err", err)
		}
		backoff.Sleep(ctx, bucketRetry)
	}
}

// put applies changes of the bucket.
func (s *leases) put(kv jetstream.KeyValue, c records.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := c.All
	if c.All {
		s.kv, s.err, s.seen = kv, nil, map[string]sighting{}
	}
	for _, rec := range c.Records {
		var now leaseValue
		_ = json.Unmarshal(rec.Value, &now) // a lease that is not JSON counts as free, but cannot be acquired before it has expired
		changed = changed || now.Holder != s.seen[rec.Key].Holder
		delete(s.seen, rec.Key)
		if now.Holder != "" {
			ttl := min(time.Duration(now.TTL)*time.Millisecond, time.Minute) // limited, because another process wrote it
			s.seen[rec.Key] = sighting{now, rec.Revision, time.Now().Add(ttl)}
		}
	}
	if changed {
		s.changed.Happened()
	}
}

// look returns the last known state of a lease, the bucket (nil if there is none), and a channel
// that is closed when the state of a lease has changed.
func (s *leases) look(key string) (sighting, jetstream.KeyValue, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[key], s.kv, s.changed.Next()
}
