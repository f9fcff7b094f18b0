package tracker

import (
	"context"
	"maps"
	"slices"
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

// store holds the published state of all servers. A state change, its event and what the log remembers
// of it are committed under one lock, so the events that follow a snapshot neither miss nor repeat
// anything that the snapshot contains. A server's state is written by its worker, and by TakeOver.
type store struct {
	stream *journal.Memory    // what Subscribe returns
	log    journal.Recorder   // nil if stream is the log
	tracer *tracing.Tracer    // nil if nothing is traced
	told   func(*event.Event) // [Options.Published]

	mu      sync.Mutex // guards servers, and is held while an event is published; never held during I/O
	servers map[string]*record
}

// record is what was published about one server.
type record struct {
	applied   bool                // the server is in the config
	status    status.ServerStatus // Lists and Resources are unused here
	lists     map[catalog.Kind]catalog.List
	resources map[string]*status.ResourceStatus // tracked resources

	// What an earlier tracker or another process published, until it has been compared with the server;
	// the digests of resources that left the list; and the internal lists of package journal.
	storedLists     map[catalog.Kind]catalog.List
	storedResources map[string]catalog.Digest
	takeovers       int // number of calls of takeOver
}

// maxLeft limits the number of resources of a server that left the list and whose digests are kept. If it is
// exceeded, an arbitrary one is forgotten.
const maxLeft = 10_000

func newStore(opts Options) *store {
	s := &store{log: opts.Log, tracer: opts.Session.Tracer, told: opts.Published, servers: map[string]*record{}}
	if own, ok := opts.Log.(*journal.Memory); ok {
		s.stream, s.log = own, nil
	} else {
		s.stream = journal.NewMemory(journal.MemoryOptions{})
	}
	s.addStored(opts.Stored)
	return s
}

func (s *store) addStored(states journal.States) {
	for at, st := range states.Resources {
		s.known(at.ServerID).storedResources[at.URI] = st.Digest
	}
	for name, list := range states.Lists {
		s.known(name.ServerID).storedLists[name.Kind] = list
	}
}

// known returns the record of the server, creating it if necessary. s.mu must be held.
func (s *store) known(id string) *record {
	r, ok := s.servers[id]
	if !ok {
		r = &record{status: status.ServerStatus{ID: id}, lists: map[catalog.Kind]catalog.List{}, resources: map[string]*status.ResourceStatus{},
			storedLists: map[catalog.Kind]catalog.List{}, storedResources: map[string]catalog.Digest{}}
		s.servers[id] = r
	}
	return r
}

// commit publishes an event and applies the corresponding state change atomically.
func (s *store) commit(e event.Event, change func(*record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if change != nil {
		change(s.known(e.ServerID))
	}
	s.commitLocked(e)
}

func (s *store) commitLocked(e event.Event) {
	published := s.publishLocked(e)
	if res, ok := s.known(e.ServerID).resources[e.ResourceURI]; ok {
		res.Last = published
	}
}

// publish publishes an event that does not change any state.
func (s *store) publish(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publishLocked(e)
}

func (s *store) publishLocked(e event.Event) *event.Event {
	if e.Timestamp.IsZero() {
		e.Timestamp = time.Now()
	}
	e.Trace = s.tracer.Changed(e.Received, tracing.Event{Type: string(e.Type()), Server: e.ServerID, URI: e.ResourceURI, Cause: string(e.Cause)})
	if r := s.servers[e.ServerID]; r != nil {
		if _, _, ok := journal.Known(&e); ok {
			delete(r.storedResources, e.ResourceURI)
		}
		for name, list := range journal.KnownLists(&e) {
			r.setList(name.Kind, list)
		}
		if p, ok := e.Payload.(event.ServerState); ok && p.TellsInstructions() {
			s.rememberInstructions(r, p.InstructionsDigest)
		}
	}
	bare := journal.WithoutDefinitions(&e)
	published := s.stream.Publish(*bare)
	if s.told != nil {
		s.told(published)
	}
	if s.log == nil {
		return published
	}
	stored := published
	if bare != &e { // only the log receives the definitions
		with := *published
		with.Payload = e.Payload
		stored = &with
	}
	_ = s.log.Append(stored) // fails only once the log is closed, after Run has finished
	return published
}

// rememberInstructions stores the digest of a server's instructions, unless it is stored already. The
// events that report it expire.
func (s *store) rememberInstructions(r *record, d catalog.Digest) {
	list := journal.InstructionsList(d)
	if known, ok := r.storedLists[journal.Instructions]; !ok || !catalog.Diff(known, list).Empty() {
		s.rememberListLocked(r, journal.Instructions, list)
	}
}

// setList replaces a list, of the server or internal.
func (r *record) setList(k catalog.Kind, list catalog.List) {
	if slices.Contains(catalog.Kinds(), k) {
		r.lists[k] = list
		delete(r.storedLists, k)
	} else {
		r.storedLists[k] = list
	}
}

// rememberList replaces a list, and stores it in the log, without an event.
func (s *store) rememberList(id string, k catalog.Kind, list catalog.List) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rememberListLocked(s.known(id), k, list)
}

func (s *store) rememberListLocked(r *record, k catalog.Kind, list catalog.List) {
	r.setList(k, list)
	if s.log != nil {
		_ = s.log.RememberList(journal.ListName{ServerID: r.status.ID, Kind: k}, list) // as Append
	}
}

// remember stores the state of a resource in the log without an event; the zero State removes it.
func (s *store) remember(id, uri string, st journal.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rememberLocked(id, uri, st)
}

func (s *store) rememberLocked(id, uri string, st journal.State) {
	delete(s.known(id).storedResources, uri)
	if s.log != nil {
		st.When = time.Now()
		_ = s.log.Remember(journal.ResourceID{ServerID: id, URI: uri}, st) // as Append
	}
}

// learn updates the state of a resource that is not news to this tracker. It is published if the log says
// something else, because another process stored that; otherwise it is stored.
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
	stored, another := r.storedResources[res.URI]
	delete(r.storedResources, res.URI)
	switch now := res.Content; {
	case !stored.IsZero() && stored != res.Told():
		if stored == catalog.Gone() || stored == catalog.Unread() {
			stored = catalog.Digest{}
		}
		s.commitLocked(updateOf(id, coalesce.Update{Known: res, Cause: event.CauseResync, Removed: res.Gone, Read: true, Previous: coalesce.Content{Digest: stored}}))
	case !now.Digest.IsZero() && (another || now.Digest != before):
		s.rememberLocked(id, res.URI, journal.State{Digest: now.Digest, Size: now.Size, MimeType: now.MimeType, Text: now.Text})
	}
}

// learnList replaces a list without publishing an event. If store is set, the list or the definitions of
// its items may not be in the log yet. It returns false if the server was taken over since; see versions.
func (s *store) learnList(id string, k catalog.Kind, list catalog.List, store bool, takeovers int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.known(id)
	switch {
	case r.takeovers != takeovers:
		return false
	case store:
		s.rememberListLocked(r, k, list)
	default:
		r.setList(k, list)
	}
	return true
}

// takeOver replaces what was published about a server by what the log stores; of resources that left the
// list while the server was tracked, the log stores nothing. It calls begin, from which on the log receives
// events about the server, and publishes the server's state.
func (s *store) takeOver(id string, stored journal.States, begin func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin()
	r := s.known(id)
	r.takeovers++
	clear(r.storedLists)
	if !r.applied {
		clear(r.storedResources)
	}
	for uri := range r.resources {
		r.storedResources[uri] = catalog.Digest{} // stored once it has been confirmed
	}
	s.addStored(stored)
	if !r.applied {
		return
	}
	for k, list := range r.lists {
		if _, ok := r.storedLists[k]; !ok {
			s.rememberListLocked(r, k, list)
		}
	}
	st := &r.status
	state := event.ServerState{State: st.State, Previous: event.Pending, Reason: st.Reason, Error: st.Error, Attempt: st.Attempt,
		ProtocolVersion: st.Info.ProtocolVersion, Era: string(st.Info.Era), StillConnected: st.StillConnected}
	if st.Connected() {
		state.Instructions, state.InstructionsDigest = catalog.Text(st.Info.Instructions)
	}
	s.publishLocked(event.Event{ServerID: id, Payload: state})
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
	r, ok := s.servers[id]
	return ok && r.applied
}

// forget deletes the state of a server that was removed from the config, except for what is needed to
// compare the server if it returns. Its last published state is Stopping.
func (s *store) forget(id string) {
	s.update(id, func(r *record) {
		r.forgetResources()
		for k, list := range r.lists {
			if _, another := r.storedLists[k]; !another {
				r.storedLists[k] = journal.StoredList(list)
			}
		}
		clear(r.lists)
		r.applied, r.status = false, status.ServerStatus{ID: id}
	})
}

// forgetResources makes all resources untracked.
func (r *record) forgetResources() {
	for uri, res := range r.resources {
		r.leave(uri, res.Digest)
	}
}

// leave makes a resource untracked, but compares it if it returns. told is its digest, as last published.
func (r *record) leave(uri string, told catalog.Digest) {
	delete(r.resources, uri)
	if _, another := r.storedResources[uri]; another || told.IsZero() || told == catalog.Gone() {
		return
	}
	if len(r.storedResources) >= maxLeft {
		for other := range r.storedResources {
			delete(r.storedResources, other)
			break
		}
	}
	r.storedResources[uri] = told
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

// versions returns a list as it was last loaded, and as it is stored if that is another version or not
// compared yet.
//
// What is derived from them is committed with takeovers, unless the server was taken over meanwhile, as stored may
// be another version then.
func (s *store) versions(id string, k catalog.Kind) (list, stored catalog.List, loaded, another bool, takeovers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.servers[id]; r != nil {
		list, loaded = r.lists[k]
		stored, another = r.storedLists[k]
		takeovers = r.takeovers
	}
	return list, stored, loaded, another, takeovers
}

// commitList publishes a change of a list. It returns false if the server was taken over since; see versions.
func (s *store) commitList(e event.Event, takeovers int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known(e.ServerID).takeovers != takeovers {
		return false
	}
	s.commitLocked(e)
	return true
}

// stored returns the published version of a list that is internal, or not compared yet.
func (s *store) stored(id string, k catalog.Kind) (list catalog.List, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.servers[id]; r != nil {
		list, ok = r.storedLists[k]
	}
	return list, ok
}

func (s *store) snapshot() *status.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotLocked()
}

func (s *store) subscribe(ctx context.Context) (*status.Snapshot, *journal.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotLocked(), s.stream.Subscribe(ctx)
}

func (s *store) snapshotLocked() *status.Snapshot {
	snap := &status.Snapshot{Epoch: s.stream.Epoch(), Seq: s.stream.Last(), Servers: make([]status.ServerStatus, 0, len(s.servers))}
	for _, id := range slices.Sorted(maps.Keys(s.servers)) {
		r := s.servers[id]
		if !r.applied {
			continue
		}
		st := r.status
		st.Lists = maps.Clone(r.lists)
		st.Counts.Dropped = maps.Clone(r.status.Counts.Dropped)
		st.Missing = slices.Clone(r.status.Missing)
		st.Resources = make([]status.ResourceStatus, 0, len(r.resources))
		for _, uri := range slices.Sorted(maps.Keys(r.resources)) {
			st.Resources = append(st.Resources, *r.resources[uri])
		}
		snap.Servers = append(snap.Servers, st)
	}
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
