package journal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Cursor keeps how far a consumer of the log got, under the consumer's name. It
// is as durable as the log. One consumer at a time should have a name.
type Cursor struct {
	j   *Journal
	key string
}

// Cursor returns the cursor of that name, which may be any text.
func (j *Journal) Cursor(name string) *Cursor {
	return &Cursor{j, "c" + hex.EncodeToString([]byte(name))}
}

// Get returns what was put last, "" before that: usually an id.
func (c *Cursor) Get(ctx context.Context) (string, error) {
	kv, ctx, cancel, err := c.bucket(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	v, err := kv.Get(ctx, c.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("journal: read a cursor: %w", err)
	}
	return string(v.Value()), nil
}

// Put keeps the value. When it returns nil the value is durable.
func (c *Cursor) Put(ctx context.Context, value string) error {
	kv, ctx, cancel, err := c.bucket(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if _, err := kv.PutString(ctx, c.key, value); err != nil {
		return fmt.Errorf("journal: keep a cursor: %w", err)
	}
	return nil
}

func (c *Cursor) bucket(ctx context.Context) (jetstream.KeyValue, context.Context, context.CancelFunc, error) {
	ctx, cancel := c.j.lifetime(ctx)
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	both := func() { stop(); cancel() }
	kv, err := c.j.bucket(ctx, jetstream.KeyValueConfig{
		Bucket: c.j.opts.Stream + "_cursors", Description: "mcptrack: how far consumers got", Storage: jetstream.FileStorage, MaxBytes: 16 << 20,
	})
	if err != nil {
		both()
		return nil, nil, nil, fmt.Errorf("journal: open the cursors: %w", err)
	}
	return kv, ctx, both, nil
}

// bucket returns the key-value bucket, made if need be, on as many nodes as the
// log.
func (j *Journal) bucket(ctx context.Context, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	for {
		kv, err := j.js.KeyValue(ctx, cfg.Bucket)
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			return kv, err
		}
		log, err := j.js.Stream(ctx, j.opts.Stream)
		if err != nil {
			return nil, err
		}
		cfg.Replicas = log.CachedInfo().Config.Replicas
		kv, err = j.js.CreateKeyValue(ctx, cfg)
		if !errors.Is(err, jetstream.ErrBucketExists) {
			return kv, err
		}
	}
}
