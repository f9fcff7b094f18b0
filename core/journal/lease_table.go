package journal

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// leases are the leases of a Journal: the table, opened when the first is asked
// for, and those that are held.
type leases struct {
	mu     sync.Mutex // guards all below
	table  *leaseTable
	held   map[*Lease]struct{}
	closed bool
}

// leaseTable is what is known of all leases of the log, by watching them: one
// watcher, however many wait.
type leaseTable struct {
	kv      jetstream.KeyValue
	watcher jetstream.KeyWatcher
	watch   sync.WaitGroup

	mu      sync.Mutex // guards all below
	seen    map[string]sighting
	waiting map[string]chan struct{} // by lease; closed and removed when it is seen again
}

func newLeaseTable() *leaseTable {
	return &leaseTable{seen: map[string]sighting{}, waiting: map[string]chan struct{}{}}
}

// sighting is the last that was seen of a lease.
type sighting struct {
	free bool
	rev  uint64
	ttl  time.Duration
	at   time.Time // by our own clock
}

func (s *leases) open(ctx context.Context, j *Journal) (*leaseTable, error) {
	s.mu.Lock()
	t, closed := s.table, s.closed
	s.mu.Unlock()
	if t != nil || closed {
		if closed {
			return nil, ErrClosed
		}
		return t, nil
	}
	// Leases need no disk: a cluster that went down as a whole took longer to come
	// back than any lease lasts.
	kv, err := j.bucket(ctx, jetstream.KeyValueConfig{
		Bucket: j.opts.Stream + "_leases", Description: "mcptrack: who does what", Storage: jetstream.MemoryStorage, MaxBytes: 16 << 20,
	})
	if err != nil {
		return nil, err
	}
	t = newLeaseTable()
	t.kv = kv
	if t.watcher, err = kv.WatchAll(j.ctx); err != nil {
		return nil, err
	}
	for first := true; first; { // until all there is was seen
		select {
		case e, ok := <-t.watcher.Updates():
			if first = e != nil && ok; first {
				t.note(e)
			}
		case <-ctx.Done():
			_ = t.watcher.Stop()
			return nil, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.table != nil { // closed, or somebody was faster
		_ = t.watcher.Stop()
		if s.closed {
			return nil, ErrClosed
		}
		return s.table, nil
	}
	s.table = t
	t.watch.Go(func() {
		for e := range t.watcher.Updates() {
			if e != nil {
				t.note(e)
			}
		}
	})
	return t, nil
}

// note takes down what the watcher saw.
func (t *leaseTable) note(e jetstream.KeyValueEntry) {
	s := sighting{rev: e.Revision(), at: time.Now()}
	var v leaseValue
	if e.Operation() != jetstream.KeyValuePut {
		s.free = true
	} else if json.Unmarshal(e.Value(), &v) == nil {
		s.ttl = min(time.Duration(v.TTL)*time.Millisecond, time.Minute)
	}
	t.put(e.Key(), s)
}

// put wakes those that wait for this lease, and nobody else: every lease is renewed
// every few seconds, and many wait for others.
func (t *leaseTable) put(key string, s sighting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[key] = s
	if changed, ok := t.waiting[key]; ok {
		close(changed)
		delete(t.waiting, key)
	}
}

// look returns the last sighting of a lease, and a channel that is closed when
// there may be a newer one.
func (t *leaseTable) look(key string) (sighting, <-chan struct{}) {
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
	return s, changed
}

// hold begins to renew a lease that was acquired.
func (s *leases) hold(l *Lease, sent time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	if s.closed {
		stop()
		l.giveBack(context.Background())
		return ErrClosed
	}
	if s.held == nil {
		s.held = map[*Lease]struct{}{}
	}
	s.held[l] = struct{}{}
	l.done.Go(func() {
		l.renew(ctx, sent)
		stop()
		s.mu.Lock()
		delete(s.held, l)
		s.mu.Unlock()
	})
	return nil
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
	t := s.table
	s.mu.Unlock()
	for _, l := range held {
		l.done.Wait()
	}
	if t != nil {
		_ = t.watcher.Stop()
		t.watch.Wait()
	}
}
