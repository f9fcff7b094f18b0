package engine

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
)

// memory is what was published of servers, by this process or an earlier one: the log's states.
// It is bounded by the number of resources and of items in lists.
type memory struct {
	log journal.Log

	mu    sync.Mutex            // guards all below
	known map[string]*published // by server
}

// published is what was published of a server.
type published struct {
	resources map[string]catalog.Digest // by URI
	lists     map[catalog.Kind]catalog.List
}

func newMemory(log journal.Log) *memory {
	return &memory{log: log, known: map[string]*published{}}
}

// loadWithRetry reads what is remembered of all servers. A cluster may be electing leaders.
func (m *memory) loadWithRetry(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	retry := backoff.New(100*time.Millisecond, 2*time.Second)
	for {
		states, err := m.log.States(ctx, "")
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.addLocked(states)
			return nil
		}
		if errors.Is(err, journal.ErrClosed) || !backoff.Sleep(ctx, retry.Next()) {
			return err
		}
	}
}

// loadServer reads what is remembered of one server, whichever process stored it.
func (m *memory) loadServer(ctx context.Context, id string) error {
	states, err := m.log.States(ctx, id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, id)
	m.addLocked(states)
	return nil
}

func (m *memory) addLocked(states journal.States) {
	for at, st := range states.Resources {
		m.ofLocked(at.ServerID).resources[at.URI] = st.Digest
	}
	for name, list := range states.Lists {
		m.ofLocked(name.ServerID).lists[name.Kind] = list
	}
}

func (m *memory) ofLocked(server string) *published {
	p, ok := m.known[server]
	if !ok {
		p = &published{map[string]catalog.Digest{}, map[catalog.Kind]catalog.List{}}
		m.known[server] = p
	}
	return p
}

// each calls f with every list.
func (m *memory) each(f func(journal.ListName, catalog.List)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for server, p := range m.known {
		for k, list := range p.lists {
			f(journal.ListName{ServerID: server, Kind: k}, list)
		}
	}
}

// publish notes the content of a resource, zero: it is gone.
func (m *memory) publish(at journal.ResourceID, d catalog.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.ofLocked(at.ServerID); d.IsZero() {
		delete(p.resources, at.URI)
	} else {
		p.resources[at.URI] = d
	}
}

func (m *memory) publishList(name journal.ListName, list catalog.List) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ofLocked(name.ServerID).lists[name.Kind] = list
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

// cursors returns where to resume the subscriptions to events of a server.
func (m *memory) cursors(server string) map[string]string {
	list, ok := m.baselineList(server, journal.Cursors)
	if !ok {
		return nil
	}
	return maps.Clone(journal.CursorsOf(list))
}
