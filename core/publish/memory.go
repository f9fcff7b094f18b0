package publish

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// rememberEvery is how often contents and lists without an event are stored.
const rememberEvery = 2 * time.Second

// memory is what is remembered of servers from run to run and from process to process.
type memory struct {
	journal *journal.Journal
	texts   *texts
	sharing *sharing // nil: no leases are needed

	mu     sync.Mutex                           // guards all below
	known  map[string]*published                // by server: as loaded
	stored map[string]map[string]catalog.Digest // stored digests of resources, by server and URI
	lists  map[journal.ListName]catalog.List    // stored lists
	// atEvents has the stored cursors of subscriptions to events, by server.
	atEvents map[string]map[string]string
}

// published is the state of a server that was published.
type published struct {
	resources map[string]catalog.Digest // by URI
	lists     map[catalog.Kind]catalog.List
	cursors   map[string]string // of subscriptions to events, by their keys
}

func newMemory(j *journal.Journal) *memory {
	return &memory{journal: j, known: map[string]*published{}, stored: map[string]map[string]catalog.Digest{}, lists: map[journal.ListName]catalog.List{}, atEvents: map[string]map[string]string{}}
}

// load reads what is remembered of all servers.
func (m *memory) load(ctx context.Context) error {
	states, err := m.journal.States(ctx, "")
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.known)
	m.addLocked(states)
	return nil
}

func (m *memory) addLocked(states journal.States) {
	of := func(id string) *published {
		p, ok := m.known[id]
		if !ok {
			p = &published{map[string]catalog.Digest{}, map[catalog.Kind]catalog.List{}, nil}
			m.known[id] = p
		}
		return p
	}
	for at, st := range states.Resources {
		of(at.ServerID).resources[at.URI] = st.Digest
	}
	for name, list := range states.Lists {
		if name.Kind == cursorsKind {
			of(name.ServerID).cursors = cursorsFromList(list)
			continue
		}
		of(name.ServerID).lists[name.Kind] = list
	}
}

// loadWithRetry is load for a cluster that may be electing leaders.
func (m *memory) loadWithRetry(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	retry := backoff.New(100*time.Millisecond, 2*time.Second)
	for {
		err := m.load(ctx)
		if err == nil || errors.Is(err, journal.ErrClosed) || !backoff.Sleep(ctx, retry.Next()) {
			return err
		}
	}
}

// loadServer reads what is remembered of one server, whichever process stored it.
func (m *memory) loadServer(ctx context.Context, id string) error {
	states, err := m.journal.States(ctx, id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, id)
	delete(m.stored, id)
	delete(m.atEvents, id)
	for _, kind := range catalog.Kinds() {
		delete(m.lists, journal.ListName{ServerID: id, Kind: kind})
	}
	m.addLocked(states)
	return nil
}

// baseline returns the last published digest of a resource, or zero.
func (m *memory) baseline(server, uri string) catalog.Digest {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.known[server]; p != nil {
		return p.resources[uri]
	}
	return catalog.Digest{}
}

// baselineList returns a list as it was last published.
func (m *memory) baselineList(server string, k catalog.Kind) (list catalog.List, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.known[server]; p != nil {
		list, ok = p.lists[k]
	}
	return list, ok
}

// run stores what the tracker has read without an event until ctx ends.
func (m *memory) run(ctx context.Context, t *tracker.Tracker, r *recorder) error {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.remember(t.Snapshot(), r)
		}
	}
}

// remember stores the contents and lists of a snapshot that were not stored yet, unless events
// that the snapshot includes are not recorded yet: if their content were stored first, a crash
// in between would lose the events.
func (m *memory) remember(snap *tracker.Snapshot, r *recorder) {
	if r.recorded() < snap.Seq {
		return
	}
	for i := range snap.Servers {
		m.rememberServer(&snap.Servers[i])
	}
}

// rememberSettled is remember for one server, and waits until the events that the snapshot
// includes are recorded. When ctx ends first, nothing is stored.
func (m *memory) rememberSettled(ctx context.Context, id string, t *tracker.Tracker, r *recorder) {
	snap := t.Snapshot()
	r.settle(ctx)
	if st, ok := snap.Server(id); ok && r.recorded() >= snap.Seq {
		m.rememberServer(&st)
	}
}

func (m *memory) rememberServer(srv *tracker.ServerStatus) {
	to, ok := m.writer(srv.ID)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, now := m.stored[srv.ID], map[string]catalog.Digest{}
	for _, r := range srv.Resources {
		if r.Digest.IsZero() {
			continue
		}
		if now[r.URI] = r.Digest; before[r.URI] == r.Digest {
			continue
		}
		if to.Remember(journal.Resource{ServerID: srv.ID, URI: r.URI}, journal.State{Digest: r.Digest, Size: r.Size, MimeType: r.MimeType, When: time.Now()}) != nil {
			return // the journal is closed
		}
		m.texts.put(srv.ID, r.Digest, r.Text)
	}
	m.stored[srv.ID] = now
	for kind, list := range srv.Lists {
		name := journal.ListName{ServerID: srv.ID, Kind: kind}
		if last, ok := m.lists[name]; ok && same(last, list) {
			continue
		}
		if to.RememberList(name, list) != nil {
			return
		}
		m.lists[name] = list
	}
	_ = m.rememberCursors(srv.ID, srv.EventCursors, to) // fails only if the journal is closed
}

// same reports whether the two are one list: lists are replaced as a whole.
func same(a, b catalog.List) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// remembers is a journal, or a lease on it.
type remembers interface {
	Remember(journal.Resource, journal.State) error
	RememberList(journal.ListName, catalog.List) error
}

// writer returns what stores for the server; false if its lease is not held.
func (m *memory) writer(id string) (remembers, bool) {
	if m.sharing == nil {
		return m.journal, true
	}
	l := m.sharing.lease(id)
	return l, l != nil
}
