package tracker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/bus"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// store is the published state. A change and its event are committed under one lock, so
// that a snapshot and the events after it join without a gap and without overlap. Only
// workers write.
type store struct {
	bus *bus.Bus

	mu      sync.Mutex // guards servers; never held for I/O
	servers map[string]*record
}

// record is the published state of one server.
type record struct {
	status    ServerStatus // without Lists and Resources
	lists     map[catalog.Kind]catalog.List
	resources map[string]*ResourceStatus
}

func newStore(b *bus.Bus) *store {
	return &store{bus: b, servers: map[string]*record{}}
}

// record returns the server's record, creating it if necessary. s.mu must be held.
func (s *store) record(id string) *record {
	r, ok := s.servers[id]
	if !ok {
		r = &record{status: ServerStatus{ID: id}, lists: map[catalog.Kind]catalog.List{}, resources: map[string]*ResourceStatus{}}
		s.servers[id] = r
	}
	return r
}

// commit publishes the event and applies its change to the state, as one step.
func (s *store) commit(e event.Event, change func(*record)) *event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record(e.ServerID)
	if change != nil {
		change(r)
	}
	published := s.publish(e)
	if e.ResourceURI != "" {
		if res, ok := r.resources[e.ResourceURI]; ok {
			res.Last = published
		}
	}
	return published
}

// publish publishes an event that changes no state. s.mu may be held.
func (s *store) publish(e event.Event) *event.Event {
	if e.Timestamp.IsZero() {
		e.Timestamp = time.Now()
	}
	return s.bus.Publish(e)
}

// update applies a change that has no event, such as counts.
func (s *store) update(id string, change func(*record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.record(id))
}

// knows reports whether the server is in the snapshot.
func (s *store) knows(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.servers[id]
	return ok
}

// forget removes a server that was published as Stopping because it is removed.
func (s *store) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.servers, id)
}

// list returns one list of a server, nil if none is known. Lists are replaced as a whole.
func (s *store) list(id string, k catalog.Kind) catalog.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.servers[id]; ok {
		return r.lists[k]
	}
	return nil
}

func (s *store) snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotLocked()
}

func (s *store) subscribe(ctx context.Context) (*Snapshot, *bus.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotLocked(), s.bus.Subscribe(ctx, 0)
}

func (s *store) snapshotLocked() *Snapshot {
	snap := &Snapshot{Epoch: s.bus.Epoch(), Seq: s.bus.Seq(), Servers: make([]ServerStatus, 0, len(s.servers))}
	for _, r := range s.servers {
		st := r.status
		st.Lists = maps.Clone(r.lists)
		st.Counts.Dropped = maps.Clone(r.status.Counts.Dropped)
		st.Missing = slices.Clone(r.status.Missing)
		st.Resources = make([]ResourceStatus, 0, len(r.resources))
		for _, res := range r.resources {
			st.Resources = append(st.Resources, *res)
		}
		slices.SortFunc(st.Resources, func(a, b ResourceStatus) int { return strings.Compare(a.URI, b.URI) })
		snap.Servers = append(snap.Servers, st)
	}
	slices.SortFunc(snap.Servers, func(a, b ServerStatus) int { return strings.Compare(a.ID, b.ID) })
	return snap
}

// describe records what is known of a resource.
func (r *record) describe(res coalesce.Resource) {
	st, ok := r.resources[res.URI]
	if !ok {
		st = &ResourceStatus{URI: res.URI}
		r.resources[res.URI] = st
	}
	st.Digest, st.Size, st.MimeType, st.Text = res.Content.Digest, res.Content.Size, res.Content.MimeType, res.Content.Text
	st.Gone = res.Gone
}
