package natslog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// bucket returns the key-value bucket, creating it if necessary, with as many replicas as the
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

const (
	bucketCheck    = time.Second // how often a bucket is checked
	bucketPatience = 3           // consecutive checks that may fail
)

var (
	errBucketReplaced = errors.New("the bucket was replaced")
	errBucketSilent   = errors.New("the watcher of the bucket is behind")
)

// bucketView has the callbacks of a goroutine that follows a bucket; only that goroutine calls
// them.
type bucketView struct {
	config jetstream.KeyValueConfig
	// suspect makes the follower check the bucket at once.
	suspect <-chan struct{}
	// reset is called with the whole content of the bucket, and put with each later write. last
	// is the number of the last write, whose value may have been removed since.
	reset func(kv jetstream.KeyValue, all []jetstream.KeyValueEntry, last uint64)
	put   func(jetstream.KeyValueEntry)
	// state is called with the reason why the view is not current, nil if it is.
	state func(error)
}

// followBucket creates the bucket if necessary, and watches it until it is lost or ctx ends.
func (s *store) followBucket(ctx context.Context, v bucketView) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open, opened := context.WithTimeout(ctx, callTimeout)
	defer opened()
	kv, err := s.bucket(open, v.config)
	if err != nil {
		return err
	}
	stream := "KV_" + v.config.Bucket
	made, err := s.js.Stream(open, stream)
	if err != nil {
		return err
	}
	watcher, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_ = watcher.Stop()
		// The library's goroutine waits for the reader until it has closed the channel.
		over := time.NewTimer(callTimeout)
		defer over.Stop()
		for open := true; open; {
			select {
			case _, open = <-watcher.Updates():
			case <-over.C:
				open = false
			}
		}
	}()
	var first []jetstream.KeyValueEntry
	last := made.CachedInfo().State.LastSeq // what the watcher begins with is not older
	for all := false; !all; {
		select {
		case e, ok := <-watcher.Updates():
			if !ok {
				return errBucketSilent
			}
			if all = e == nil; !all {
				first, last = append(first, e), max(last, e.Revision())
			}
		case <-open.Done():
			return context.Cause(open)
		}
	}
	v.reset(kv, first, last)
	tick := time.NewTicker(bucketCheck)
	defer tick.Stop()
	for failed, behind := 0, 0; ; {
		select {
		case e, ok := <-watcher.Updates():
			if !ok {
				return errBucketSilent
			}
			if e != nil {
				v.put(e)
				last = e.Revision()
			}
			continue
		case <-tick.C:
		case <-v.suspect:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		try, done := context.WithTimeout(ctx, bucketCheck)
		now, err := s.js.Stream(try, stream)
		done()
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return err
		case err != nil:
			if failed++; failed >= bucketPatience {
				v.state(err)
			}
			continue
		case !now.CachedInfo().Created.Equal(made.CachedInfo().Created), now.CachedInfo().State.LastSeq < last:
			return errBucketReplaced
		case now.CachedInfo().State.LastSeq > last:
			if behind++; behind >= bucketPatience {
				return errBucketSilent
			}
		default:
			behind = 0
		}
		failed = 0
		v.state(nil)
	}
}

// wrongRevision reports whether another write came first. A bucket on several nodes has a
// code of its own for that.
func wrongRevision(err error) bool {
	apiErr, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (apiErr.ErrorCode == codeWrongSequence || apiErr.ErrorCode == codeWrongSequenceConstant)
}
