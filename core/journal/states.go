package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// State is the content of a resource that was told, or taken as known, last.
type State struct {
	Digest   catalog.Digest
	Size     int64
	MimeType string
	When     time.Time // it was read
}

// stored is a State as it is kept.
type stored struct {
	ServerID string    `json:"serverId"`
	URI      string    `json:"uri"`
	Digest   string    `json:"digest"`
	Size     int64     `json:"size,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	When     time.Time `json:"when"`
	// Seq is the last event that the state takes into account, in a log of Epoch.
	Seq   uint64 `json:"seq"`
	Epoch string `json:"epoch,omitempty"`
}

const (
	// tombstoneTTL is how long it is kept that a resource is gone: long after the
	// last event that could bring it back.
	tombstoneTTL = 30 * 24 * time.Hour
	flushEvery   = time.Second
	flushAt      = 20_000 // states; each is a write beside those of the events
)

// states collects what is to be kept about resources. The writer puts, the
// keeper takes. Bounded by the number of resources.
type states struct {
	// full is signalled when there is much to keep. Capacity 1, never closed.
	full chan struct{}

	mu    sync.Mutex // guards dirty
	dirty map[Resource]sequenced
}

type sequenced struct {
	State
	seq uint64
}

func newStates() *states {
	return &states{full: make(chan struct{}, 1), dirty: map[Resource]sequenced{}}
}

func (s *states) put(r Resource, st State, seq uint64) {
	s.mu.Lock()
	s.dirty[r] = sequenced{st, seq}
	full := len(s.dirty) >= flushAt
	s.mu.Unlock()
	if full {
		select {
		case s.full <- struct{}{}:
		default:
		}
	}
}

func (s *states) take() map[Resource]sequenced {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.dirty
	s.dirty = map[Resource]sequenced{}
	return out
}

// giveBack returns what could not be kept, unless there is newer.
func (s *states) giveBack(unkept map[Resource]sequenced) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(unkept, s.dirty)
	s.dirty = unkept
}

// stateOf returns what an event tells about the content of a resource. The zero
// State is that of a resource that is gone.
func stateOf(e *event.Event) (Resource, State, bool) {
	r := Resource{e.ServerID, e.ResourceURI}
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		st := State{Digest: p.Digest, MimeType: p.MimeType, When: e.Timestamp}
		if p.Size != nil {
			st.Size = *p.Size
		}
		return r, st, !p.Digest.IsZero()
	case event.ResourceRemoved:
		return r, State{When: e.Timestamp}, true
	}
	return r, State{}, false
}

// Remember keeps the content of a resource that no event tells, such as the one
// found at the first read. It never waits; the state is kept within some seconds.
// States that events tell are kept without being asked for. The zero State
// forgets the resource.
func (j *Journal) Remember(r Resource, st State) error {
	return j.queue.push(&item{resource: r, state: st})
}

// States returns the last known content of every resource, as of the last event
// in the log: also of what happened after the states were kept last.
func (j *Journal) States(ctx context.Context) (map[Resource]State, error) {
	ctx, cancel := j.lifetime(ctx)
	defer cancel()
	found := map[Resource]sequenced{}
	covered := map[string]stored{} // by token; of the state, what events it takes into account
	err := j.latest(ctx, j.opts.Stream+"_states", j.subject("state.>"), func(m message) {
		var s stored
		if json.Unmarshal(m.data, &s) != nil {
			return
		}
		d, err := catalog.ParseDigest(s.Digest)
		if err != nil {
			return
		}
		r := Resource{s.ServerID, s.URI}
		found[r] = sequenced{State{d, s.Size, s.MimeType, s.When}, s.Seq}
		covered[r.token()] = stored{Seq: s.Seq, Epoch: s.Epoch, When: s.When}
	})
	if err != nil {
		return nil, fmt.Errorf("journal: read the states: %w", err)
	}
	err = j.latest(ctx, j.opts.Stream, j.subject("content.>"), func(m message) {
		by, kept := covered[strings.TrimPrefix(m.subject, j.subject("content."))]
		if kept && by.covers(m, j.Epoch()) {
			return // nearly all: decoding them would be most of the work of a start
		}
		var e event.Event
		if json.Unmarshal(m.data, &e) != nil {
			return
		}
		if r, st, ok := stateOf(&e); ok {
			found[r] = sequenced{st, m.seq}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("journal: read the last events: %w", err)
	}
	j.states.mu.Lock()
	maps.Copy(found, j.states.dirty)
	j.states.mu.Unlock()
	out := make(map[Resource]State, len(found))
	for r, s := range found {
		if !s.Digest.IsZero() {
			out[r] = s.State
		}
	}
	return out, nil
}

// covers reports whether the state takes an event of the log of that epoch into
// account. The numbers of another epoch say nothing: it began because events were
// lost, whose numbers were given out again.
func (s stored) covers(m message, epoch string) bool {
	if s.Epoch == epoch {
		return m.seq <= s.Seq
	}
	return !m.stored.After(s.When)
}

// latest calls f with the last message of every subject, possibly more than once.
func (j *Journal) latest(ctx context.Context, stream, subjects string, f func(message)) error {
	return retried(ctx, func() error { return j.latestOnce(ctx, stream, subjects, f) })
}

func (j *Journal) latestOnce(ctx context.Context, stream, subjects string, f func(message)) error {
	msgs, err := j.consume(ctx, stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{subjects},
	})
	if err != nil {
		return err
	}
	defer msgs.close()
	for left := msgs.pending; left > 0; {
		m, err := msgs.await(ctx)
		switch {
		case errors.Is(err, errEnd): // some could not be read back
			return nil
		case errors.Is(err, errWithheld) && j.embedded != nil:
			j.damages.Add(1)
			j.opts.Logger.Error("what was known of some resources cannot be read back; they count as new", "left", left)
			return nil
		case err != nil:
			return err
		}
		f(m)
		left = m.pending
	}
	return nil
}

// keep is the keeper: it writes down states and the mark, now and then, until
// ctx ends and once more then.
func (j *Journal) keep(ctx context.Context, p *publisher) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			j.mark(false)
		case <-j.states.full:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.opts.Drain)
			j.flushStates(last, p)
			cancel()
			return
		}
		j.flushStates(ctx, p)
	}
}

func (j *Journal) flushStates(ctx context.Context, p *publisher) {
	todo := j.states.take()
	records := make([]*record, 0, len(todo))
	names := make([]Resource, 0, len(todo))
	for r, s := range todo {
		data, err := json.Marshal(stored{r.ServerID, r.URI, s.Digest.String(), s.Size, s.MimeType, s.When.UTC(), s.seq, j.Epoch()})
		if err != nil {
			delete(todo, r)
			continue
		}
		rec := &record{subject: j.opts.Stream + ".state." + r.token(), data: data}
		if s.Digest.IsZero() {
			rec.ttl = tombstoneTTL
		}
		records, names = append(records, rec), append(names, r)
	}
	for len(records) > 0 {
		n, err := p.publish(ctx, records)
		for _, r := range names[:n] {
			delete(todo, r)
		}
		records, names = records[n:], names[n:]
		if err != nil { // the writer sees to the store; this waits for the next time
			j.states.giveBack(todo)
			return
		}
	}
}
