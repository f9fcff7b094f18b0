package tracker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracing"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// store holds the published state of all servers. A state change and its event are committed under
// one lock, so the events that follow a snapshot neither miss nor repeat anything that the snapshot
// contains. Only workers write to the store.
type store struct {
	log     *journal.Memory
	tracer  *tracing.Tracer  // nil if nothing is traced
	durable journal.Recorder // durable log; nil if there is none
	// baseline returns the digest that the durable log stores for a resource, or zero if there is
	// none. It is nil if no stored digests are available.
	baseline func(server, uri string) catalog.Digest

	order sync.Mutex // held while an event is published, so that both logs have the same order; acquired after mu

	mu      sync.Mutex // guards servers; never held during I/O
	servers map[string]*record
}

// record holds the published state of one server.
type record struct {
	status    status.ServerStatus // Lists and Resources are unused here
	lists     map[catalog.Kind]catalog.List
	resources map[string]*status.ResourceStatus
}

// known returns the record of the server, creating it if necessary. s.mu must be held.
func (s *store) known(id string) *record {
	r, ok := s.servers[id]
	if !ok {
		r = &record{status: status.ServerStatus{ID: id}, lists: map[catalog.Kind]catalog.List{}, resources: map[string]*status.ResourceStatus{}}
		s.servers[id] = r
	}
	return r
}

// commit publishes an event and applies the corresponding state change atomically.
func (s *store) commit(e event.Event, change func(*record)) *event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.known(e.ServerID)
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

// publish publishes an event that does not change any state. s.mu may be held.
func (s *store) publish(e event.Event) *event.Event {
	if e.Timestamp.IsZero() {
		e.Timestamp = time.Now()
	}
	e.Trace = s.tracer.Changed(e.Received, tracing.Event{Type: string(e.Type()), Server: e.ServerID, URI: e.ResourceURI, Cause: string(e.Cause)})
	bare := journal.WithoutDefinitions(&e)
	s.order.Lock()
	defer s.order.Unlock()
	published := s.log.Publish(*bare)
	if s.durable == nil {
		return published
	}
	record := published
	if bare != &e { // only the durable log receives the definitions
		with := *published
		with.Payload = e.Payload
		record = &with
	}
	_ = s.durable.Append(record) // Append only fails once the log is closed, after Run has finished
	return published
}

// remember calls f with the durable log, if there is one, to record facts for which there is no
// event.
func (s *store) remember(f func(journal.Recorder) error) {
	if s.durable == nil {
		return
	}
	s.order.Lock()
	defer s.order.Unlock()
	_ = f(s.durable) // as in publish, fails only once the log is closed
}

// recordOnly sets the timestamp of an event and appends it only to the durable log.
func (s *store) recordOnly(e event.Event) {
	e.Timestamp = time.Now()
	s.remember(func(rec journal.Recorder) error { return rec.Append(&e) })
}

// learn updates the state of a resource without publishing an event, and records the change in the
// durable log. If the durable log contains another digest, written by another process, it records
// the new state there as a change.
func (s *store) learn(id string, res coalesce.Known, change func(*record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.known(id)
	change(r)
	before := catalog.Digest{}
	if known, ok := r.resources[res.URI]; ok {
		before = known.Digest
	}
	r.describe(res)
	now := r.resources[res.URI]
	stored, differs := s.stored(id, res)
	switch {
	case differs && !stored.IsZero():
		e := event.Event{ServerID: id, ResourceURI: res.URI, Cause: event.CauseResync}
		if stored == catalog.Gone() || stored == catalog.Unread() {
			stored = catalog.Digest{}
		}
		if changed, size := true, now.Size; res.Gone {
			e.Payload = event.ResourceRemoved{Descriptor: res.Descriptor, Missing: true}
		} else {
			e.Payload = event.ResourceUpdated{Name: res.Descriptor.Name, Changed: &changed, MimeType: now.MimeType, Size: &size, Digest: now.Digest, PreviousDigest: stored, Text: now.Text}
		}
		s.recordOnly(e)
	case !now.Digest.IsZero() && (differs || now.Digest != before):
		s.remember(func(rec journal.Recorder) error {
			return rec.Remember(journal.ResourceID{ServerID: id, URI: res.URI}, stateOf(now))
		})
	}
}

// stored returns the digest that the durable log stores for a resource, or zero if there is none.
// differs is true if a read has just found different content.
func (s *store) stored(id string, res coalesce.Known) (stored catalog.Digest, differs bool) {
	if s.durable == nil || s.baseline == nil || !res.Confirmed {
		return stored, false
	}
	stored = s.baseline(id, res.URI)
	if res.Gone && stored == catalog.Gone() {
		return catalog.Digest{}, false
	}
	return stored, stored != res.Content.Digest
}

// learnList replaces a list without publishing an event. If record is set, it records the list in the
// durable log, because the list or the definitions of its items may not be stored there.
func (s *store) learnList(id string, k catalog.Kind, list catalog.List, record bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known(id).lists[k] = list; !record {
		return
	}
	s.remember(func(rec journal.Recorder) error {
		return rec.RememberList(journal.ListName{ServerID: id, Kind: k}, list)
	})
}

func stateOf(r *status.ResourceStatus) journal.State {
	return journal.State{Digest: r.Digest, Size: r.Size, MimeType: r.MimeType, When: time.Now(), Text: r.Text}
}

// republish records the current state of a server in the durable log; see [Tracker.Republish].
func (s *store) republish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.servers[id]
	if !ok {
		return
	}
	st := &r.status
	state := event.ServerState{State: st.State, Previous: event.Pending, Reason: st.Reason, Error: st.Error, Attempt: st.Attempt,
		ProtocolVersion: st.Info.ProtocolVersion, Era: string(st.Info.Era), StillConnected: st.StillConnected}
	if st.Connected() {
		state.Instructions, state.InstructionsDigest = catalog.Text(st.Info.Instructions)
	}
	s.recordOnly(event.Event{ServerID: id, Payload: state})
}

// update changes the state of a server without publishing an event, for example to update counts.
func (s *store) update(id string, change func(*record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.known(id))
}

// knows reports whether the server is part of the published state.
func (s *store) knows(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.servers[id]
	return ok
}

// forget deletes the state of a server that was removed from the config. Its last published state
// is Stopping.
func (s *store) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.servers, id)
}

// list returns the last known list of a server, or nil if there is none. Lists are replaced, never
// modified.
func (s *store) list(id string, k catalog.Kind) catalog.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.servers[id]; ok {
		return r.lists[k]
	}
	return nil
}

func (s *store) snapshot() *status.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotLocked()
}

func (s *store) subscribe(ctx context.Context) (*status.Snapshot, *journal.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotLocked(), s.log.Subscribe(ctx)
}

func (s *store) snapshotLocked() *status.Snapshot {
	snap := &status.Snapshot{Epoch: s.log.Epoch(), Seq: s.log.Last(), Servers: make([]status.ServerStatus, 0, len(s.servers))}
	for _, r := range s.servers {
		st := r.status
		st.Lists = maps.Clone(r.lists)
		st.Counts.Dropped = maps.Clone(r.status.Counts.Dropped)
		st.Missing = slices.Clone(r.status.Missing)
		st.Resources = make([]status.ResourceStatus, 0, len(r.resources))
		for _, res := range r.resources {
			st.Resources = append(st.Resources, *res)
		}
		slices.SortFunc(st.Resources, func(a, b status.ResourceStatus) int { return strings.Compare(a.URI, b.URI) })
		snap.Servers = append(snap.Servers, st)
	}
	slices.SortFunc(snap.Servers, func(a, b status.ServerStatus) int { return strings.Compare(a.ID, b.ID) })
	return snap
}

// describe updates the status of a resource with its current state in the coalescer.
func (r *record) describe(res coalesce.Known) {
	st, ok := r.resources[res.URI]
	if !ok {
		st = &status.ResourceStatus{URI: res.URI}
		r.resources[res.URI] = st
	}
	st.Digest, st.Size, st.MimeType, st.Text = res.Content.Digest, res.Content.Size, res.Content.MimeType, res.Content.Text
	st.Gone = res.Gone
}

// textBudget limits the total size of the resource texts that are kept in memory to include
// contents and diffs in events.
type textBudget struct {
	each, all int64
	used      atomic.Int64
}

// replace accounts for new content that replaces old content, and returns the new content. If its
// text would exceed the budget, the text is dropped.
func (b *textBudget) replace(was, now coalesce.Content) coalesce.Content {
	if was.Text != nil {
		b.used.Add(-int64(len(*was.Text)))
	}
	if now.Text == nil {
		return now
	}
	n := int64(len(*now.Text))
	if n > b.each || b.used.Add(n) > b.all {
		if n <= b.each {
			b.used.Add(-n)
		}
		now.Text = nil
	}
	return now
}
