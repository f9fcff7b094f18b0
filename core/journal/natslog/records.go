package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/records"
)

// bucketRecords implements [records.Store] with a key-value bucket that has as many replicas as the
// log. The bucket is created at the first use.
type bucketRecords struct {
	log    *Log
	config jetstream.KeyValueConfig
}

const (
	maxRecords = 64 << 20 // total size of all records, in bytes
	// markersFor is how long a bucket keeps a marker for a removed or expired record. Followers that
	// reconnect within this time learn of the removal.
	markersFor = time.Hour
)

// Records returns the records with the given name, which all processes of the cluster share. They end
// with the log. A name may contain letters, digits, _ and -.
func (l *Log) Records(name string) records.Store {
	return &bucketRecords{log: l, config: jetstream.KeyValueConfig{
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
	kv, err := r.log.store.bucket(ctx, r.config)
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
	return fmt.Errorf("event log: %s a record: %w", what, err)
}

func (r *bucketRecords) Get(ctx context.Context, key string) (records.Record, error) {
	out := records.Record{Key: key}
	err := r.call(ctx, "read", func(ctx context.Context, kv jetstream.KeyValue) error {
		e, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			out.Value, out.Revision = e.Value(), e.Revision()
		}
		return err
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

func (r *bucketRecords) Remove(ctx context.Context, rec records.Record) error {
	return r.call(ctx, "remove", func(ctx context.Context, kv jetstream.KeyValue) error {
		return kv.Purge(ctx, rec.Key, jetstream.LastRevision(rec.Revision), jetstream.PurgeTTL(markersFor))
	})
}

// Follow implements [records.Store]. After the first call to changed, each call passes only one record.
func (r *bucketRecords) Follow(ctx context.Context, changed func(records.Changes)) {
	ctx, cancel := r.log.life.Begin(ctx)
	defer cancel()
	for ctx.Err() == nil {
		err := r.log.store.followBucket(ctx, r.config, func(_ jetstream.KeyValue, c records.Changes) { changed(c) })
		if ctx.Err() == nil {
			r.log.store.opts.Logger.Debug("following the records failed; retrying", "bucket", r.config.Bucket, "err", err)
		}
		backoff.Sleep(ctx, bucketRetry)
	}
}
