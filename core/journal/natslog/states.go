package natslog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// resourceState is the wire form of the state of a resource.
type resourceState struct {
	ServerID string    `json:"serverId"`
	URI      string    `json:"uri"`
	Digest   string    `json:"digest"`
	Size     int64     `json:"size,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	When     time.Time `json:"when"`
	position           // set by encode
}

func newResourceState(r journal.Resource, st journal.State) *resourceState {
	return &resourceState{ServerID: r.ServerID, URI: r.URI, Digest: st.Digest.String(), Size: st.Size, MimeType: st.MimeType, When: st.When.UTC()}
}

// tombstoneTTL is how long a removed resource is remembered as removed: much longer than any
// event that could bring it back is stored.
const tombstoneTTL = 30 * 24 * time.Hour

func (s *resourceState) resource() journal.Resource {
	return journal.Resource{ServerID: s.ServerID, URI: s.URI}
}

func (s *resourceState) subject() string { return resourceToken(s.resource()) }

func (s *resourceState) encode(at position, _ int) (parts [][]byte, ttl time.Duration, err error) {
	out := *s
	out.position = at
	data, err := json.Marshal(out)
	if d, _ := catalog.ParseDigest(s.Digest); d.IsZero() {
		ttl = tombstoneTTL
	}
	return [][]byte{data}, ttl, err
}

// covers reports whether what was stored at a position, at that time, already reflects a message
// of the log with that epoch. Numbers of different epochs cannot be compared: a new epoch begins
// when events were lost, and reuses their numbers.
func (p position) covers(when time.Time, m message, epoch string) bool {
	if p.Epoch == epoch {
		return m.seq <= p.Seq
	}
	return !m.stored.After(when)
}

// States implements [journal.Log]. It waits until what was appended before is stored.
func (l *Log) States(ctx context.Context, server string) (journal.States, error) {
	ctx, cancel := l.lifetime(ctx)
	defer cancel()
	out, err := l.readStates(ctx, server)
	return out, ended(ctx, err)
}

func (l *Log) readStates(ctx context.Context, server string) (journal.States, error) {
	wait, cancel := context.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	err := l.settle(wait)
	cancel()
	if err != nil {
		return journal.States{}, fmt.Errorf("event log: wait until states are stored: %w", err)
	}
	of := "*" // the token of the server
	if server != "" {
		of = serverToken(server)
	}
	out := journal.States{Resources: map[journal.Resource]journal.State{}}
	lists, removed, err := l.readStored(ctx, of, out.Resources)
	if err != nil {
		return journal.States{}, err
	}
	if err := l.changeLists(ctx, of, lists); err != nil {
		return journal.States{}, fmt.Errorf("event log: read the last changes of lists: %w", err)
	}
	out.Lists = make(map[journal.ListName]catalog.List, len(lists))
	for _, list := range lists {
		out.Lists[list.name] = list.items()
		for _, r := range removed { // the event does not say why: if it is still listed, a read did not find it
			if _, listed := list.keys[r.URI]; listed && list.name == (journal.ListName{ServerID: r.ServerID, Kind: catalog.Resources}) {
				out.Resources[r] = journal.State{Digest: catalog.Gone()}
			}
		}
	}
	return out, nil
}

// readStored fills in the states of resources, and returns the lists as they were stored, and the
// resources that are removed according to an event and not yet to their state.
func (l *Log) readStored(ctx context.Context, server string, resources map[journal.Resource]journal.State) (_ map[string]*listState, removed []journal.Resource, _ error) {
	set := func(r journal.Resource, st journal.State) {
		if resources[r] = st; st.Digest.IsZero() {
			delete(resources, r)
		}
	}
	lists := listReader{}
	type reflected struct {
		position
		when time.Time
	}
	covered := map[string]reflected{} // by the tokens of resources
	prefix := l.store.subjects.of("state.")
	err := l.store.latest(ctx, l.store.opts.Stream+"_states", func(m message) {
		below := strings.TrimPrefix(m.subject, prefix)
		if lists.read(below, m.data) {
			return
		}
		var s resourceState
		if json.Unmarshal(m.data, &s) != nil || s.subject() != below {
			return // not the state of a resource
		}
		d, err := catalog.ParseDigest(s.Digest)
		if err != nil {
			return
		}
		set(s.resource(), journal.State{Digest: d, Size: s.Size, MimeType: s.MimeType, When: s.When})
		covered[below] = reflected{s.position, s.When}
	}, prefix+server+".>")
	if err != nil {
		return nil, nil, fmt.Errorf("event log: read the stored states of servers and resources: %w", err)
	}
	prefix = l.store.subjects.of("content.")
	err = l.store.latest(ctx, l.store.opts.Stream, func(m message) {
		by, ok := covered[strings.TrimPrefix(m.subject, prefix)]
		if ok && by.covers(by.when, m, l.Epoch()) {
			return // most are covered; decoding them would be most of the work of a start
		}
		var e event.Event
		if json.Unmarshal(m.data, &e) != nil {
			return
		}
		if r, st, ok := journal.Known(&e); ok {
			if set(r, st); st.Digest.IsZero() {
				removed = append(removed, r)
			}
		}
	}, prefix+server+".*")
	if err != nil {
		return nil, nil, fmt.Errorf("event log: read the last events: %w", err)
	}
	return lists.whole(), removed, nil
}

// latest calls f with the last message of every subject, possibly more than once.
func (s *store) latest(ctx context.Context, stream string, f func(message), subjects ...string) error {
	return retried(ctx, func() error {
		return s.each(ctx, stream, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: subjects}, func(m message) bool {
			f(m)
			return true
		})
	})
}
