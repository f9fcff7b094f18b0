package natslog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

const (
	epochKey = "mcptrack.epoch"
	// callTimeout bounds one request to the store.
	callTimeout = 10 * time.Second
	// dedupe is how long the store itself recognises a repeated event. This covers an attempt
	// that is still on its way when the event is looked up.
	dedupe = time.Minute
	// stateBytes bounds the states: some 500,000 resources.
	stateBytes = 256 << 20
)

// Bounds implements [journal.Log]. It asks the store.
func (l *Log) Bounds(ctx context.Context) (journal.Bounds, error) {
	ctx, cancel := l.lifetime(ctx)
	defer cancel()
	info, err := l.store.info(ctx, l.store.opts.Stream)
	if err != nil {
		return journal.Bounds{}, ended(ctx, fmt.Errorf("event log: read the first and last position of the log: %w", err))
	}
	b := journal.Bounds{Epoch: info.Config.Metadata[epochKey], First: max(info.State.FirstSeq, 1), Last: info.State.LastSeq, Bytes: info.State.Bytes}
	if info.State.Msgs == 0 {
		b.First = b.Last + 1
	}
	if b.Epoch != l.Epoch() {
		l.writer.suspect()
	}
	return b, nil
}

// info returns the state of a stream. It repeats the request until there is a response: a
// cluster that elects a leader loses requests. The error is from a response, or from the last
// attempt.
func (s *store) info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, time.Second)
		found, err := s.js.Stream(try, name)
		done()
		if err == nil {
			return found.CachedInfo(), nil
		}
		if apiErr, ok := errors.AsType[*jetstream.APIError](err); ok && apiErr.Code < 500 || s.nc.IsClosed() {
			return nil, err
		}
		if !backoff.Sleep(ctx, 50*time.Millisecond) {
			return nil, err
		}
	}
}

// ensure creates the streams of the log and the states, or opens existing ones and updates
// their retention. It returns the state of the log.
func (s *store) ensure(ctx context.Context) (*jetstream.StreamInfo, error) {
	replicas := cmp.Or(s.opts.Replicas, 3)
	events := jetstream.StreamConfig{
		Name:               s.opts.Stream,
		Description:        "mcptrack: events",
		Subjects:           []string{s.subjects.of("event.>"), s.subjects.of("content.>")},
		Storage:            jetstream.FileStorage,
		MaxAge:             s.opts.Retain,
		MaxBytes:           s.opts.RetainBytes,
		Duplicates:         min(dedupe, s.opts.Retain),
		AllowDirect:        true,
		AllowAtomicPublish: true,
		DenyDelete:         true, // a hole would be taken for damage
		Replicas:           replicas,
	}
	states := jetstream.StreamConfig{
		Name:               s.opts.Stream + "_states",
		Description:        "mcptrack: the last known content of resources",
		Subjects:           []string{s.subjects.of("state.>")},
		Storage:            jetstream.FileStorage,
		MaxBytes:           stateBytes,
		MaxMsgsPerSubject:  1,
		AllowAtomicPublish: true,
		AllowMsgTTL:        true,
		Replicas:           replicas,
	}
	info, err := s.ensureStream(ctx, events)
	if err != nil {
		return nil, fmt.Errorf("event log: open the log: %w", err)
	}
	if _, err := s.ensureStream(ctx, states); err != nil {
		return nil, fmt.Errorf("event log: open the stored states: %w", err)
	}
	if err := s.ensureContents(ctx, replicas); err != nil {
		return nil, fmt.Errorf("event log: open the stored texts: %w", err)
	}
	return info, nil
}

// ensureContents creates or opens the stream of texts, if they are kept.
func (s *store) ensureContents(ctx context.Context, replicas int) error {
	if s.opts.Existing || s.opts.KeepContent == 0 {
		return nil
	}
	_, err := s.ensureStream(ctx, jetstream.StreamConfig{
		Name:               s.opts.Stream + contentsSuffix,
		Description:        "mcptrack: texts of resources, by the digest of their content",
		Subjects:           []string{s.subjects.of("text.*")},
		Storage:            jetstream.FileStorage,
		MaxBytes:           s.opts.KeepContent,
		MaxMsgsPerSubject:  1,
		Duplicates:         time.Second,
		AllowDirect:        true,
		AllowAtomicPublish: true,
		Replicas:           replicas,
	})
	return err
}

func (s *store) ensureStream(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*callTimeout)
	defer cancel()
	for {
		info, err := s.info(ctx, cfg.Name)
		if err == nil {
			return s.adopt(ctx, info, cfg)
		}
		switch {
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, err
		case s.opts.Existing:
			return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		cfg.Metadata = map[string]string{epochKey: journal.NewEpoch()}
		try, done := context.WithTimeout(ctx, callTimeout/4)
		made, err := s.js.CreateStream(try, cfg)
		done()
		if err == nil {
			return made.CachedInfo(), nil
		}
		switch apiErr, _ := errors.AsType[*jetstream.APIError](err); {
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another node created it first
		case apiErr == nil: // no answer: a cluster that is starting loses requests
			if s.nc.IsClosed() || !backoff.Sleep(ctx, 50*time.Millisecond) {
				return nil, err
			}
		case apiErr.ErrorCode == codeNotClustered && s.opts.Replicas == 0:
			s.opts.Logger.Warn("the NATS server is not part of a cluster; the log is stored on one node")
			cfg.Replicas = 1
		case apiErr.ErrorCode == codeNoPeers: // nodes that are starting are waited for
			if !backoff.Sleep(ctx, 250*time.Millisecond) {
				return nil, fmt.Errorf("the cluster has too few nodes for %d replicas: %w", cfg.Replicas, err)
			}
		default:
			return nil, err
		}
	}
}

// Error codes of the server that its client gives no names.
const (
	codeNotClustered = 10074 // replicas > 1 not supported in non-clustered mode
	codeNoPeers      = 10005 // no suitable peers for placement
)

// adopt opens an existing stream. Its replicas and its epoch are not changed.
func (s *store) adopt(ctx context.Context, info *jetstream.StreamInfo, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	have := info.Config
	if _, _, err := event.ParseID(event.FormatID(have.Metadata[epochKey], 0)); err != nil {
		return nil, fmt.Errorf("stream %s was not created by mcptrack", have.Name)
	}
	if s.opts.Existing || have.MaxAge == want.MaxAge && have.MaxBytes == want.MaxBytes && have.Duplicates >= want.Duplicates {
		return info, nil
	}
	have.MaxAge, have.MaxBytes, have.Duplicates = want.MaxAge, want.MaxBytes, max(want.Duplicates, 0)
	updated, err := s.js.UpdateStream(ctx, have)
	if err != nil {
		return nil, fmt.Errorf("set the retention: %w", err)
	}
	return updated.CachedInfo(), nil
}

// renew gives the log another epoch, because ids given out before may name events
// that are no longer there.
func (s *store) renew(ctx context.Context, info *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	cfg := info.Config
	cfg.Metadata[epochKey] = journal.NewEpoch()
	updated, err := s.js.UpdateStream(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("event log: begin a new epoch: %w", err)
	}
	return updated.CachedInfo(), nil
}
