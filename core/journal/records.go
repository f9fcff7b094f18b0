package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// Records are small values by key, stored beside the log with as many replicas and shared by
// the processes on a cluster. A value can be replaced only by a process that has seen the
// latest one, so that an outdated process (see [Lease]) overwrites nothing.
type Records struct {
	journal *Journal
	config  jetstream.KeyValueConfig
	// suspect makes Follow check the bucket. Capacity 1, never closed: it is signalled when a
	// request failed, and received by Follow.
	suspect chan struct{}

	mu sync.Mutex // guards kv
	kv jetstream.KeyValue
}

// Record is one of Records. Keys are letters, digits, -, _ and dots.
type Record struct {
	Key      string
	Value    []byte // nil: there is no value, or it was removed
	Revision uint64 // revision of the last write; 0: there was none
}

// ErrChanged is the error of a write by a process that has not seen the latest value.
var ErrChanged = errors.New("another process has changed the record")

const (
	maxRecords = 64 << 20 // bytes, of all records
	// markersFor is how long followers can still learn of a removal.
	markersFor = time.Hour
)

// NewRecords returns the records with that name, which consists of letters, digits, _ and -.
// The bucket is created at the first use.
func NewRecords(j *Journal, name string) *Records {
	return &Records{journal: j, suspect: make(chan struct{}, 1), config: jetstream.KeyValueConfig{
		Bucket: j.store.opts.Stream + "_" + name, Description: "mcptrack: " + name, Storage: jetstream.FileStorage,
		MaxBytes: maxRecords, LimitMarkerTTL: markersFor,
	}}
}

// call makes one request to the bucket.
func (r *Records) call(ctx context.Context, what string, f func(context.Context, jetstream.KeyValue) error) error {
	ctx, cancel := r.journal.lifetime(ctx)
	defer cancel()
	ctx, over := context.WithTimeout(ctx, callTimeout/2)
	defer over()
	kv, err := r.bucket(ctx)
	if err == nil {
		err = f(ctx, kv)
	}
	switch {
	case err == nil:
		return nil
	case wrongRevision(err):
		return ErrChanged
	}
	select {
	case r.suspect <- struct{}{}:
	default:
	}
	return fmt.Errorf("journal: %s a record: %w", what, err)
}

func (r *Records) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	r.mu.Lock()
	kv := r.kv
	r.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	kv, err := r.journal.store.bucket(ctx, r.config)
	if err == nil {
		r.set(kv)
	}
	return kv, err
}

func (r *Records) set(kv jetstream.KeyValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kv = kv
}

// Get returns a record, without a Value if there is none. It may be outdated; a write based on
// it then fails.
func (r *Records) Get(ctx context.Context, key string) (Record, error) {
	out := Record{Key: key}
	err := r.call(ctx, "read", func(ctx context.Context, kv jetstream.KeyValue) error {
		e, err := kv.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound): // or ErrKeyDeleted
			return nil
		case err != nil:
			return err
		}
		out = recordOf(e)
		return nil
	})
	return out, err
}

// Put stores rec if the record still has rec.Revision (0: none exists), and returns the new
// revision. The error is [ErrChanged] if it has another revision. After any other error the
// value may have been stored.
func (r *Records) Put(ctx context.Context, rec Record) (revision uint64, err error) {
	err = r.call(ctx, "store", func(ctx context.Context, kv jetstream.KeyValue) error {
		if rec.Revision == 0 {
			revision, err = kv.Create(ctx, rec.Key, rec.Value)
		} else {
			revision, err = kv.Update(ctx, rec.Key, rec.Value, rec.Revision)
		}
		return err
	})
	return revision, err
}

// PutAfter stores rec if no record at all was written since write number last, as reported by
// [Records.Follow].
func (r *Records) PutAfter(ctx context.Context, rec Record, last uint64) (revision uint64, err error) {
	err = r.call(ctx, "store", func(ctx context.Context, _ jetstream.KeyValue) error {
		ack, err := r.journal.store.js.PublishMsg(ctx, &nats.Msg{Subject: "$KV." + r.config.Bucket + "." + rec.Key, Data: rec.Value}, jetstream.WithExpectLastSequence(last))
		if err == nil {
			revision = ack.Sequence
		}
		return err
	})
	return revision, err
}

// Remove removes the record if it still has rec.Revision. The error is [ErrChanged] if it has
// another one.
func (r *Records) Remove(ctx context.Context, rec Record) error {
	return r.call(ctx, "remove", func(ctx context.Context, kv jetstream.KeyValue) error {
		return kv.Purge(ctx, rec.Key, jetstream.LastRevision(rec.Revision), jetstream.PurgeTTL(markersFor))
	})
}

// Changes are records that were written.
type Changes struct {
	Records []Record
	// All means that these are all existing records.
	All  bool
	Last uint64 // the number of the last write, for PutAfter
}

// Follow calls changed with all records, and then with each change, until ctx ends or the
// Journal is closed. It may be called with all records again.
func (r *Records) Follow(ctx context.Context, changed func(Changes)) {
	ctx, cancel := r.journal.lifetime(ctx)
	defer cancel()
	s := r.journal.store
	for ctx.Err() == nil {
		err := s.followBucket(ctx, bucketView{
			config: r.config, suspect: r.suspect,
			reset: func(kv jetstream.KeyValue, all []jetstream.KeyValueEntry, last uint64) {
				r.set(kv)
				c := Changes{All: true, Last: last}
				for _, e := range all {
					if rec := recordOf(e); rec.Value != nil {
						c.Records = append(c.Records, rec)
					}
				}
				changed(c)
			},
			put: func(e jetstream.KeyValueEntry) {
				changed(Changes{Records: []Record{recordOf(e)}, Last: e.Revision()})
			},
			state: func(error) {},
		})
		r.set(nil)
		if ctx.Err() == nil {
			s.opts.Logger.Debug("the records are read again", "bucket", r.config.Bucket, "err", err)
		}
		backoff.Sleep(ctx, bucketCheck/4)
	}
}

func recordOf(e jetstream.KeyValueEntry) Record {
	rec := Record{Key: e.Key(), Revision: e.Revision()}
	if e.Operation() == jetstream.KeyValuePut {
		rec.Value = append([]byte{}, e.Value()...)
	}
	return rec
}
