package natslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/records"
)

// message is a message that was read from a JetStream stream.
type message struct {
	seq     uint64
	pending uint64 // number of messages that are known to follow
	stored  time.Time
	subject string
	header  nats.Header
	more    bool // set if the next message has already arrived
	data    []byte
}

// id returns the message id under which the publisher stored an event.
func (m message) id() string { return m.header.Get(jetstream.MsgIDHeader) }

// consumer reads a stream with one JetStream consumer, which delivers all matching messages in order. It
// fails when its node, the connection or the stream is lost; the caller then creates another one, and
// checks whether the log was replaced in between. The ordered consumer of the client library hides when
// that is necessary, and cannot be interrupted meanwhile.
type consumer struct {
	jetstream.Consumer
	store   *store
	stream  string
	pending uint64 // number of matching messages that are not delivered yet
	last    uint64 // consumer sequence number of the last delivered message
}

// consumer creates a consumer on the stream. The caller must call close.
func (s *store) consumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (*consumer, error) {
	cfg.AckPolicy, cfg.MemoryStorage, cfg.Replicas, cfg.InactiveThreshold = jetstream.AckNonePolicy, true, 1, time.Minute
	ctx, cancel := context.WithTimeout(ctx, callTimeout/4)
	defer cancel()
	made, err := s.js.CreateConsumer(ctx, stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("event log: read the log: %w", err)
	}
	return &consumer{Consumer: made, store: s, stream: stream, pending: made.CachedInfo().NumPending}, nil
}

// close deletes the consumer on the server, which would otherwise keep it for another minute.
func (c *consumer) close() {
	if !c.store.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.store.js.DeleteConsumer(ctx, c.stream, c.CachedInfo().Name) // if this fails, the consumer expires by itself
}

const (
	// prefetch limits the number of messages that are requested before the reader needs them. They are
	// held in memory, so this limits the memory that a slow reader uses.
	prefetch = 1024
	// heartbeat is how often the store reports that it has nothing to deliver. After two missing
	// reports the consumer fails.
	heartbeat = time.Second
)

var (
	// errMissed means that a message was lost on the way. A new consumer delivers it again.
	errMissed = errors.New("a message from the store was dropped")
	// errWithheld means that the store responds and has more messages, but does not deliver them.
	errWithheld = errors.New("the store has stopped delivering stored events")
)

// fetch requests messages and calls f with each. It returns nil when prefetch messages or no more
// messages have arrived for 30 s, or, if within is not 0, errWithheld when that time has passed.
func (c *consumer) fetch(ctx context.Context, within time.Duration, f func(message) error) error {
	// The library derives when the request expires from the deadline of a context, so pass one without.
	reading, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })()
	if within > 0 {
		defer time.AfterFunc(within, func() { end(errWithheld) }).Stop()
	}
	batch, err := c.Fetch(prefetch, jetstream.FetchContext(reading), jetstream.FetchHeartbeat(heartbeat))
	if err != nil {
		return fmt.Errorf("event log: read the log: %w", err)
	}
	arriving := batch.Messages()
	for raw := range arriving {
		meta, err := raw.Metadata()
		if err != nil || meta.Sequence.Consumer != c.last+1 {
			return errMissed
		}
		c.last, c.pending = meta.Sequence.Consumer, meta.NumPending
		err = f(message{seq: meta.Sequence.Stream, pending: meta.NumPending, stored: meta.Timestamp, subject: raw.Subject(),
			header: raw.Headers(), more: len(arriving) > 0, data: raw.Data()})
		if err != nil {
			return err
		}
	}
	if err := storing.Cause(reading, batch.Error()); err != nil {
		return fmt.Errorf("event log: read the log: %w", err)
	}
	return nil
}

// each creates a consumer and calls f with every message that it has to deliver, in order, until f
// returns false. moved reports whether f was called.
func (s *store) each(ctx context.Context, stream string, cfg jetstream.ConsumerConfig, f func(message) (more bool)) (moved bool, err error) {
	c, err := s.consumer(ctx, stream, cfg)
	if err != nil {
		return false, err
	}
	defer c.close()
	for left := c.pending; left > 0; {
		err := c.fetch(ctx, callTimeout, func(m message) error {
			left, moved = min(left-1, m.pending), true
			if !f(m) || left == 0 {
				return storing.ErrStop
			}
			return nil
		})
		if errors.Is(err, storing.ErrStop) {
			break
		}
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// latest calls f with the last message on each of the subjects. After a retry, f may receive the
// same message again.
func (s *store) latest(ctx context.Context, stream string, f func(message), subjects ...string) error {
	return retried(ctx, func(ctx context.Context) (bool, error) {
		_, err := s.each(ctx, stream, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: subjects}, func(m message) bool {
			f(m)
			return true
		})
		return false, err
	})
}

// retried calls f until it succeeds, or has failed for callTimeout without getting any further. A
// consumer fails permanently when its node goes down, but a new one works. While the cluster elects a
// leader, no consumer can be created.
func retried(ctx context.Context, f func(context.Context) (moved bool, err error)) error {
	retry := backoff.New(50*time.Millisecond, 1600*time.Millisecond)
	var since time.Time // the first failure after the last progress
	for {
		moved, err := f(ctx)
		for _, final := range []error{nil, storing.ErrStop, journal.ErrEpoch, jetstream.ErrStreamNotFound, nats.ErrConnectionClosed} {
			if errors.Is(err, final) {
				return err
			}
		}
		if moved || since.IsZero() {
			retry.Reset()
			since = time.Now()
		}
		if time.Since(since) > callTimeout || !backoff.Sleep(ctx, retry.Next()) {
			return err
		}
	}
}

// followBucket creates the bucket if necessary, and calls changed first with all its records and then
// with each that is written or removed, until the bucket is lost or ctx ends. A watcher of the client
// library would not notice that the bucket was deleted and created again.
func (s *store) followBucket(ctx context.Context, cfg jetstream.KeyValueConfig, changed func(jetstream.KeyValue, records.Changes)) error {
	open, opened := context.WithTimeout(ctx, callTimeout)
	defer opened()
	kv, err := s.bucket(open, cfg)
	if err != nil {
		return err
	}
	stream, prefix := "KV_"+cfg.Bucket, "$KV."+cfg.Bucket+"."
	info, err := s.info(open, stream)
	if err != nil {
		return err
	}
	c, err := s.consumer(ctx, stream, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{prefix + ">"}})
	if err != nil {
		return err
	}
	defer c.close()
	// Until all records have arrived, they are collected in next.
	next := records.Changes{All: true, Last: info.State.LastSeq}
	left := c.pending // number of records that are to arrive before all are known
	if left == 0 {
		changed(kv, next)
		next = records.Changes{}
	}
	for {
		err := c.fetch(ctx, 0, func(m message) error {
			rec := records.Record{Key: m.subject[len(prefix):], Revision: m.seq}
			if m.header.Get("KV-Operation") == "" && m.header.Get(jetstream.MarkerReasonHeader) == "" { // else it was removed, or has expired
				rec.Value = append([]byte{}, m.data...)
			}
			next.Records, next.Last = append(next.Records, rec), max(next.Last, m.seq)
			if left = min(max(left, 1)-1, m.pending); left == 0 {
				changed(kv, next)
				next = records.Changes{}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// entryOf converts a message to an entry. ok is false if the message is not an event. Any client of
// the cluster can store anything in the log, and readers may display it on a terminal, so entryOf
// accepts only JSON in one line and escapes hidden characters.
func entryOf(epoch string, m message) (e journal.Entry, ok bool) {
	data := sanitize(m.data)
	if !journal.Keepable(data) {
		return journal.Entry{}, false
	}
	return journal.NewEntry(epoch, m.seq, m.stored, data), true
}

// sanitize returns the JSON in data with hidden characters escaped, or nil if data is not JSON in
// one line.
func sanitize(data []byte) []byte {
	if !json.Valid(data) || !utf8.Valid(data) || bytes.ContainsAny(data, "\r\n") {
		return nil
	}
	return printable.JSON(data)
}
