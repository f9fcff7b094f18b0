package journal

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// bucket returns the key-value bucket, made if need be, on as many nodes as the
// log.
func (s *store) bucket(ctx context.Context, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	for {
		kv, err := s.js.KeyValue(ctx, cfg.Bucket)
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			return kv, err
		}
		log, err := s.js.Stream(ctx, s.opts.Stream)
		if err != nil {
			return nil, err
		}
		cfg.Replicas = log.CachedInfo().Config.Replicas
		kv, err = s.js.CreateKeyValue(ctx, cfg)
		if !errors.Is(err, jetstream.ErrBucketExists) {
			return kv, err
		}
	}
}
