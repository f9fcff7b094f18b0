package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/event"
)

const (
	epochKey = "mcptrack.epoch"
	// callTimeout bounds one question to the store.
	callTimeout = 10 * time.Second
	// dedupe is for how long a cluster itself recognises a repeated event. It
	// covers an attempt that is still on its way when it is looked up. In this
	// process there is no such way, and what the server remembers costs memory by
	// the event.
	dedupe         = time.Minute
	dedupeEmbedded = 5 * time.Second
	// stateBytes bounds the states: some 500,000 resources.
	stateBytes = 256 << 20
)

// Bounds is what the log holds.
type Bounds struct {
	Epoch string
	// First and Last are the ends of what is kept. Of a log that holds nothing
	// any more, or nothing yet, First is Last+1.
	First, Last uint64
	// Bytes is what is kept, as stored.
	Bytes uint64
}

// FirstID and LastID are the ids of the ends.
func (b Bounds) FirstID() string { return event.FormatID(b.Epoch, b.First) }

// LastID is the id of the last event, also when it is no longer kept.
func (b Bounds) LastID() string { return event.FormatID(b.Epoch, b.Last) }

// Bounds asks the store what it holds.
func (j *Journal) Bounds(ctx context.Context) (Bounds, error) {
	info, err := j.info(ctx, j.opts.Stream)
	if err != nil {
		return Bounds{}, fmt.Errorf("journal: ask for the bounds of the log: %w", err)
	}
	b := j.bounds(info)
	if j.dir == nil && b.Epoch != j.Epoch() {
		j.suspect()
	}
	return b, nil
}

// info asks for a stream, again and again while nobody answers: a cluster that
// elects a leader, or a server in this process that is being restarted, loses
// questions. The error is that of an answer, or of the last try.
func (j *Journal) info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, time.Second)
		s, err := j.js.Stream(try, name)
		done()
		if err == nil {
			return s.CachedInfo(), nil
		}
		if apiErr, ok := errors.AsType[*jetstream.APIError](err); ok && apiErr.Code < 500 || j.nc.IsClosed() {
			return nil, err
		}
		if !pause(ctx, 50*time.Millisecond) {
			return nil, err
		}
	}
}

// pause waits and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (j *Journal) bounds(info *jetstream.StreamInfo) Bounds {
	b := Bounds{Epoch: info.Config.Metadata[epochKey], First: max(info.State.FirstSeq, 1), Last: info.State.LastSeq, Bytes: info.State.Bytes}
	if info.State.Msgs == 0 {
		b.First = b.Last + 1
	}
	if j.embedded != nil { // what is not yet durable is not there yet
		b.Last = min(b.Last, max(j.durable.get(), b.First-1))
	}
	return b
}

func (j *Journal) subject(class string) string { return j.opts.Stream + "." + class }

// ensure makes the log and the states, or takes those there are and brings
// their retention up to date. It returns the epoch and the state of the log.
func (j *Journal) ensure(ctx context.Context) (*jetstream.StreamInfo, error) {
	replicas := j.opts.Replicas
	if replicas == 0 {
		replicas = 1
		if j.opts.URL != "" {
			replicas = 3
		}
	}
	window := dedupe
	if j.embedded != nil {
		window = dedupeEmbedded
	}
	events := jetstream.StreamConfig{
		Name:               j.opts.Stream,
		Description:        "mcptrack: events",
		Subjects:           []string{j.subject("event.>"), j.subject("content.>")},
		Storage:            jetstream.FileStorage,
		MaxAge:             j.opts.Retain,
		MaxBytes:           j.opts.RetainBytes,
		Duplicates:         min(window, j.opts.Retain),
		AllowDirect:        true,
		AllowAtomicPublish: true,
		DenyDelete:         true, // a hole would be taken for damage
		Replicas:           replicas,
	}
	states := jetstream.StreamConfig{
		Name:               j.opts.Stream + "_states",
		Description:        "mcptrack: the last known content of resources",
		Subjects:           []string{j.subject("state.>")},
		Storage:            jetstream.FileStorage,
		MaxBytes:           stateBytes,
		MaxMsgsPerSubject:  1,
		AllowAtomicPublish: true,
		AllowMsgTTL:        true,
		Replicas:           replicas,
	}
	info, err := j.ensureStream(ctx, events)
	if err != nil {
		return nil, fmt.Errorf("journal: open the log: %w", err)
	}
	if _, err := j.ensureStream(ctx, states); err != nil {
		return nil, fmt.Errorf("journal: open the states: %w", err)
	}
	return info, nil
}

func (j *Journal) ensureStream(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*callTimeout)
	defer cancel()
	for {
		info, err := j.info(ctx, cfg.Name)
		if err == nil {
			return j.adopt(ctx, info, cfg)
		}
		switch {
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, err
		case j.opts.Existing:
			return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		cfg.Metadata = map[string]string{epochKey: newEpoch()}
		try, done := context.WithTimeout(ctx, callTimeout/4)
		s, err := j.js.CreateStream(try, cfg)
		done()
		if err == nil {
			return s.CachedInfo(), nil
		}
		switch apiErr, _ := errors.AsType[*jetstream.APIError](err); {
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another node was faster
		case apiErr == nil: // no answer: a cluster that is only starting loses questions
			if j.nc.IsClosed() || !pause(ctx, 50*time.Millisecond) {
				return nil, err
			}
		case apiErr.ErrorCode == codeNotClustered && j.opts.Replicas == 0:
			j.opts.Logger.Warn("the NATS server is no cluster: the log is kept on one node")
			cfg.Replicas = 1
		case apiErr.ErrorCode == codeNoPeers: // nodes that are only starting are waited for
			if !pause(ctx, 250*time.Millisecond) {
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

// adopt takes a stream that exists. Its replicas and its epoch stay.
func (j *Journal) adopt(ctx context.Context, info *jetstream.StreamInfo, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	have := info.Config
	if _, _, err := event.ParseID(event.FormatID(have.Metadata[epochKey], 0)); err != nil {
		return nil, fmt.Errorf("stream %s was not made by mcptrack", have.Name)
	}
	if j.opts.Existing || have.MaxAge == want.MaxAge && have.MaxBytes == want.MaxBytes && have.Duplicates >= want.Duplicates {
		return info, nil
	}
	have.MaxAge, have.MaxBytes, have.Duplicates = want.MaxAge, want.MaxBytes, max(want.Duplicates, 0)
	s, err := j.js.UpdateStream(ctx, have)
	if err != nil {
		return nil, fmt.Errorf("set the retention: %w", err)
	}
	return s.CachedInfo(), nil
}

// renew gives the log another epoch: ids given out before may name events that
// are not there any more.
func (j *Journal) renew(ctx context.Context, info *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	cfg := info.Config
	cfg.Metadata[epochKey] = newEpoch()
	s, err := j.js.UpdateStream(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("journal: begin a new epoch: %w", err)
	}
	return s.CachedInfo(), nil
}
