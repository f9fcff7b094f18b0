package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Selection selects a part of the log.
type Selection struct {
	// ServerID selects the events of one server; "" selects all events.
	ServerID string
	// URI selects the contents of one resource of the server: its updates that have a
	// digest, and its removals.
	URI string
	// After selects entries that were stored at that time or later.
	After time.Time
}

// Select returns the selected entries up to the last one there is now, oldest first. The store
// does the filtering, so a selection is cheap even in a large log. Missing entries are left out
// without a gap, and a damaged entry may end the selection: it is for history, not for
// following. An error is yielded once, at the end.
func (j *Journal) Select(ctx context.Context, sel Selection) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		ctx, cancel := j.lifetime(ctx)
		defer cancel()
		if err := j.selectEntries(ctx, sel, yield); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			yield(Entry{}, err)
		}
	}
}

func (j *Journal) selectEntries(ctx context.Context, sel Selection, yield func(Entry, error) bool) error {
	b, err := j.Bounds(ctx)
	if err != nil || b.Last < b.First {
		return err
	}
	cfg := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubjects: j.store.subjectsOf(sel)}
	if !sel.After.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &sel.After
	}
	q := query{store: j.store, bounds: b, config: cfg, yield: yield}
	return retried(ctx, func() error {
		last, err := q.once(ctx)
		if last > 0 { // another attempt reads what follows
			q.config.DeliverPolicy, q.config.OptStartTime, q.config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, last+1
		}
		return err
	})
}

// query reads a selection.
type query struct {
	store  *store
	bounds Bounds
	config jetstream.ConsumerConfig
	yield  func(Entry, error) bool
}

// once yields the entries that one consumer delivers, and returns the number of the last one
// that it has read, 0 if there was none.
func (q *query) once(ctx context.Context) (last uint64, err error) {
	s := q.store
	msgs, err := s.consume(ctx, s.opts.Stream, q.config)
	if err != nil {
		return 0, err
	}
	defer msgs.close()
	for left := msgs.pending; left > 0; {
		m, err := msgs.await(ctx)
		switch {
		case errors.Is(err, errEnd), errors.Is(err, errWithheld) && s.embedded != nil: // some could not be read back
			return last, nil
		case err != nil:
			return last, fmt.Errorf("journal: read the log: %w", err)
		case m.seq > q.bounds.Last: // not durable yet when this began
			return last, nil
		}
		left, last = m.pending, m.seq
		if s.embedded == nil {
			m.data = sanitize(m.data)
		}
		if kept(m.data) && !q.yield(entry(q.bounds.Epoch, m.seq, m.stored, m.data), nil) {
			return last, nil
		}
	}
	return last, nil
}

// subjectsOf returns the subjects of a selection; nil means all.
func (s *store) subjectsOf(sel Selection) []string {
	r := Resource{sel.ServerID, sel.URI}
	switch {
	case sel.ServerID == "":
		return nil
	case sel.URI == "":
		return []string{s.subjects.of("event." + r.server() + ".*"), s.subjects.of("content." + r.server() + ".*")}
	}
	return []string{s.subjects.of("content." + r.token())}
}
