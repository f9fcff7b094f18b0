package natslog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/records"
)

// bucketRecords implements [records.Store] with a key-value bucket that has as many replicas as the
// log. The bucket is created at the first use.
type bucketRecords struct {
	log    *Log
	config jetstream.KeyValueConfig
	// suspect receives a token after a failed request, which makes Follow check the bucket. Its
	// capacity is 1, and it is never closed.
	suspect chan struct{}

	mu sync.Mutex // guards kv
	kv jetstream.KeyValue
}

const (
	maxRecords = 64 << 20 // total size of all records, in bytes
	// markersFor is how long the bucket keeps a marker for a removed record. Followers that
	// reconnect within this time learn of the removal.
	markersFor = time.Hour
)

// Records returns the records with the given name, which all processes of the cluster share. They end
// with the log. A name may contain letters, digits, _ and -.
func (l *Log) Records(name string) records.Store {
	return &bucketRecords{log: l, suspect: make(chan struct{}, 1), config: jetstream.KeyValueConfig{
		Bucket: l.store.opts.Stream + "_" + name, Description: "mcptrack: " + name, Storage: jetstream.FileStorage,
		MaxBytes: maxRecords, LimitMarkerTTL: markersFor,
	}}
}

// call performs one request to the bucket with a timeout. what describes the request in error
// messages.
func (r *bucketRecords) call(ctx context.Context, what string, f func(context.Context, jetstream.KeyValue) error) error {
	life, cancel := r.log.life.Begin(ctx)
	defer cancel()
	ctx, over := context.WithTimeout(life, callTimeout/2)
	defer over()
	kv, err := r.bucket(ctx)
	if err == nil {
		err = f(ctx, kv)
	}
	switch {
	case err == nil:
		return nil
	case life.Err() != nil:
		return context.Cause(life)
	case wrongRevision(err):
		return records.ErrChanged
	}
	select {
	case r.suspect <- struct{}{}:
	default:
	}
	return fmt.Errorf("event log: %s a record: %w", what, err)
}

func (r *bucketRecords) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	r.mu.Lock()
	kv := r.kv
	r.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	kv, err := r.log.store.bucket(ctx, r.config)
	if err == nil {
		r.set(kv)
	}
	return kv, err
}

func (r *bucketRecords) set(kv jetstream.KeyValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kv = kv
}

func (r *bucketRecords) Get(ctx context.Context, key string) (records.Record, error) {
	out := records.Record{Key: key}
	err := r.call(ctx, "read", func(ctx context.Context, kv jetstream.KeyValue) error {
		e, err := kv.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound): // includes ErrKeyDeleted
			return nil
		case err != nil:
			return err
		}
		out = recordOf(e)
		return nil
	})
	return out, err
}

func (r *bucketRecords) Put(ctx context.Context, rec records.Record) (revision uint64, err error) {
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

func (r *bucketRecords) PutAfter(ctx context.Context, rec records.Record, last uint64) (revision uint64, err error) {
	err = r.call(ctx, "store", func(ctx context.Context, _ jetstream.KeyValue) error {
		ack, err := r.log.store.js.PublishMsg(ctx, &nats.Msg{Subject: "$KV." + r.config.Bucket + "." + rec.Key, Data: rec.Value}, jetstream.WithExpectLastSequence(last))
		if err == nil {
			revision = ack.Sequence
		}
		return err
	})
	return revision, err
}

func (r *bucketRecords) Remove(ctx context.Context, rec records.Record) error {
	return r.call(ctx, "remove", func(ctx context.Context, kv jetstream.KeyValue) error {
		return kv.Purge(ctx, rec.Key, jetstream.LastRevision(rec.Revision), jetstream.PurgeTTL(markersFor))
	})
}

// Follow implements [records.Store]. After the first call to changed, each call usually passes
// only one record.
func (r *bucketRecords) Follow(ctx context.Context, changed func(records.Changes)) {
	ctx, cancel := r.log.life.Begin(ctx)
	defer cancel()
	s := r.log.store
	for ctx.Err() == nil {
		err := s.followBucket(ctx, bucketView{
			config: r.config, suspect: r.suspect,
			reset: func(kv jetstream.KeyValue, all []jetstream.KeyValueEntry, last uint64) {
				r.set(kv)
				c := records.Changes{All: true, Last: last}
				for _, e := range all {
					if rec := recordOf(e); rec.Value != nil {
						c.Records = append(c.Records, rec)
					}
				}
				changed(c)
			},
			put: func(e jetstream.KeyValueEntry) {
				changed(records.Changes{Records: []records.Record{recordOf(e)}, Last: e.Revision()})
			},
			state: func(error) {},
		})
		r.set(nil)
		if ctx.Err() == nil {
			s.opts.Logger.Debug("following the records failed; retrying", "bucket", r.config.Bucket, "err", err)
		}
		backoff.Sleep(ctx, bucketCheck/4)
	}
}

func recordOf(e jetstream.KeyValueEntry) records.Record {
	rec := records.Record{Key: e.Key(), Revision: e.Revision()}
	if e.Operation() == jetstream.KeyValuePut {
		rec.Value = append([]byte{}, e.Value()...)
	}
	return rec
}
