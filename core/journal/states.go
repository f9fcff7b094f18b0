package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// State is the last known content of a resource, published or not.
type State struct {
	Digest   catalog.Digest
	Size     int64
	MimeType string
	When     time.Time // when it was read
}

// stored is the wire form of a State.
type stored struct {
	ServerID string    `json:"serverId"`
	URI      string    `json:"uri"`
	Digest   string    `json:"digest"`
	Size     int64     `json:"size,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	When     time.Time `json:"when"`
	// Seq is the number of the last event that the state reflects, in the log with that Epoch.
	Seq   uint64 `json:"seq"`
	Epoch string `json:"epoch,omitempty"`
}

const (
	// tombstoneTTL is how long a removed resource is remembered as removed: much longer than
	// any event that could bring it back is stored.
	tombstoneTTL = 30 * 24 * time.Hour
)

// stateOf returns the state of a resource after an event; ok is false if the event does not
// give it. The zero State means that the resource is gone.
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

// States are the stored states of resources and lists.
type States struct {
	Resources map[Resource]State
	Lists     map[ListName]catalog.List // items have only keys and digests
}

// States returns the last known contents and lists as of the last event in the log, including
// changes since states were last stored. If server is not "", it returns only its own.
func (j *Journal) States(ctx context.Context, server string) (States, error) {
	ctx, cancel := j.lifetime(ctx)
	defer cancel()
	below := ">"
	if server != "" {
		below = Resource{ServerID: server}.server() + ".>"
	}
	found := map[Resource]sequenced{}
	lists := listReader{}
	covered := map[string]stored{} // by token: the stored state, for the events that it reflects
	err := j.store.latest(ctx, j.store.opts.Stream+"_states", j.store.subjects.of("state."+below), func(m message) {
		if lists.read(strings.TrimPrefix(m.subject, j.store.subjects.of("state.")), m.data) {
			return
		}
		var s stored
		if json.Unmarshal(m.data, &s) != nil || s.Seq == 0 && s.Epoch == "" {
			return // not a state
		}
		d, err := catalog.ParseDigest(s.Digest)
		if err != nil {
			return
		}
		r := Resource{s.ServerID, s.URI}
		found[r] = sequenced{State: State{d, s.Size, s.MimeType, s.When}, seq: s.Seq}
		covered[r.token()] = stored{Seq: s.Seq, Epoch: s.Epoch, When: s.When}
	})
	if err != nil {
		return States{}, fmt.Errorf("journal: read the stored states of servers and resources: %w", err)
	}
	err = j.store.latest(ctx, j.store.opts.Stream, j.store.subjects.of("content."+below), func(m message) {
		by, ok := covered[strings.TrimPrefix(m.subject, j.store.subjects.of("content."))]
		if ok && by.covers(m, j.Epoch()) {
			return // most are covered; decoding them would be most of the work of a start
		}
		var e event.Event
		if json.Unmarshal(m.data, &e) != nil {
			return
		}
		if r, st, ok := stateOf(&e); ok {
			found[r] = sequenced{State: st, seq: m.seq}
		}
	})
	if err != nil {
		return States{}, fmt.Errorf("journal: read the last events: %w", err)
	}
	j.states.mu.Lock()
	for r, s := range j.states.dirty {
		if lost := s.lease != nil && s.lease.isLost(); !lost && (server == "" || r.ServerID == server) {
			found[r] = s
		}
	}
	j.states.mu.Unlock()
	out := States{Resources: make(map[Resource]State, len(found)), Lists: lists.whole()}
	for r, s := range found {
		if !s.Digest.IsZero() {
			out.Resources[r] = s.State
		}
	}
	return out, nil
}

// covers reports whether the state already reflects a message of the log with that epoch.
// Numbers of different epochs cannot be compared: a new epoch begins when events were lost, and
// reuses their numbers.
func (s stored) covers(m message, epoch string) bool {
	if s.Epoch == epoch {
		return m.seq <= s.Seq
	}
	return !m.stored.After(s.When)
}

// latest calls f with the last message of every subject, possibly more than once.
func (s *store) latest(ctx context.Context, stream, subjects string, f func(message)) error {
	return retried(ctx, func() error { return s.latestOnce(ctx, stream, subjects, f) })
}

func (s *store) latestOnce(ctx context.Context, stream, subjects string, f func(message)) error {
	msgs, err := s.consume(ctx, stream, jetstream.ConsumerConfig{
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
		case errors.Is(err, errWithheld) && s.embedded != nil:
			s.counts.damages.Add(1)
			s.opts.Logger.Error("the stored states of some resources cannot be read; their next content is not compared with the last known one", "left", left)
			return nil
		case err != nil:
			return err
		}
		f(m)
		left = m.pending
	}
	return nil
}
