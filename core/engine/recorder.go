package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/status"
)

// recorder is the tracker's [journal.Recorder]. It writes to the log, under the server's lease if
// leases are required. It also updates the memory, and stores texts alongside the log.
type recorder struct {
	log     journal.Log
	memory  *memory
	texts   *texts
	sharing *sharing // nil if no leases are required

	listed   func(journal.ListName, catalog.List)
	exported func(*event.Event) map[string]string // nil if nothing is exported

	reloaded, rejected atomic.Uint64
	bad                atomic.Bool // the most recent config on disk was rejected
}

func newRecorder(log journal.Log, m *memory, opts Options) *recorder {
	r := &recorder{log: log, memory: m, texts: &texts{contents: log.Contents(), secrets: map[string][]string{}}, listed: opts.Listed, exported: opts.Exported}
	if r.listed == nil {
		r.listed = func(journal.ListName, catalog.List) {}
	}
	m.each(r.listed)
	return r
}

func (r *recorder) reloads() status.Reloads {
	return status.Reloads{Reloaded: r.reloaded.Load(), Rejected: r.rejected.Load(), Good: !r.bad.Load()}
}

// to returns the recorder for events about a server, or nil if another process stores them.
func (r *recorder) to(server string) journal.Recorder {
	if r.sharing == nil || server == "" {
		return r.log
	}
	if lease := r.sharing.lease(server); lease != nil {
		return lease
	}
	return nil
}

// Append implements [journal.Recorder].
func (r *recorder) Append(e *event.Event) error {
	switch e.Type() {
	case event.TypeConfigReloaded:
		r.reloaded.Add(1)
		r.bad.Store(false)
	case event.TypeConfigRejected:
		r.rejected.Add(1)
		r.bad.Store(true)
	}
	if name, list, ok := journal.KnownList(e); ok {
		r.listed(name, list)
	}
	to := r.to(e.ServerID)
	if to == nil {
		return nil
	}
	if at, st, ok := journal.Known(e); ok {
		r.memory.publish(at, st.Digest)
	}
	for name, list := range journal.KnownLists(e) {
		r.memory.publishList(name, list)
	}
	r.texts.putEvent(e) // before the event, so that a log that stores both in one step has the text
	if p, ok := e.Payload.(event.ServerState); ok && p.TellsInstructions() {
		r.rememberInstructions(to, e.ServerID, p.InstructionsDigest)
	}
	if r.exported != nil {
		named := *e
		named.Exported = r.exported(e)
		e = &named
	}
	return to.Append(e)
}

// Remember implements [journal.Recorder].
func (r *recorder) Remember(at journal.ResourceID, st journal.State) error {
	to := r.to(at.ServerID)
	if to == nil {
		return nil
	}
	r.memory.publish(at, st.Digest)
	r.texts.put(at.ServerID, st.Digest, st.Text)
	return to.Remember(at, st)
}

// RememberList implements [journal.Recorder].
func (r *recorder) RememberList(name journal.ListName, list catalog.List) error {
	r.listed(name, list)
	to := r.to(name.ServerID)
	if to == nil {
		return nil
	}
	r.memory.publishList(name, list)
	r.texts.putList(name.ServerID, list, list.Keys())
	return to.RememberList(name, list)
}

// rememberInstructions stores the digest of a server's instructions, unless it is stored already. The
// events that report it expire.
func (r *recorder) rememberInstructions(to journal.Recorder, server string, d catalog.Digest) {
	list := journal.InstructionsList(d)
	if known, ok := r.memory.baselineList(server, journal.Instructions); ok && catalog.Diff(known, list).Empty() {
		return
	}
	r.memory.publishList(journal.ListName{ServerID: server, Kind: journal.Instructions}, list)
	_ = to.RememberList(journal.ListName{ServerID: server, Kind: journal.Instructions}, list) // the caller appends the event, which fails if this does
}

// texts stores the texts of resources, and the definitions of list items and instructions, alongside
// the log. It redacts the secrets of the server's config in definitions, as a review does, and leaves out
// resources that contain one.
type texts struct {
	contents journal.Contents

	mu      sync.Mutex
	secrets map[string][]string // secret values by server id, longer ones first
}

// apply adds the secrets in a config. The secrets of servers that were removed from the config are
// kept, because their last events may not have been recorded yet.
func (t *texts) apply(cfg *config.Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range cfg.Servers {
		srv := &cfg.Servers[i]
		all := slices.Concat(t.secrets[srv.ID], srv.Confidential(), srv.Credentials()) // a copy, because put reads without the lock
		slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		t.secrets[srv.ID] = slices.Compact(all)
	}
}

// put stores a text, unless it is nil.
func (t *texts) put(server string, d catalog.Digest, text *string) {
	if text == nil || d.IsZero() {
		return
	}
	if !t.secretIn(server, *text) {
		t.contents.Put(d, *text)
	}
}

// putSkillFile stores the text of a file of a skill.
func (t *texts) putSkillFile(server string, d catalog.Digest, text string) { t.put(server, d, &text) }

// secretIn reports whether a text contains a secret of a server.
func (t *texts) secretIn(server, text string) bool {
	t.mu.Lock()
	secrets := t.secrets[server]
	t.mu.Unlock()
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) })
}

// putDefinition stores a definition, with its secrets redacted.
func (t *texts) putDefinition(server string, d catalog.Digest, definition []byte) {
	t.mu.Lock()
	secrets := t.secrets[server]
	t.mu.Unlock()
	it := lock.Item{Definition: definition}
	if len(secrets) > 0 {
		it.Redact(secrets)
	}
	text := string(it.Definition)
	t.put(server, d, &text)
}

// putEvent stores the texts and definitions contained in an event. The definitions before a change to a
// list are normally stored already, but may have been removed since.
func (t *texts) putEvent(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		t.put(e.ServerID, p.PreviousDigest, p.PreviousText)
		t.put(e.ServerID, p.Digest, p.Text)
	case event.ListChanged:
		switch {
		case p.Items == nil:
		case p.Before == nil: // this process lists the items for the first time
			t.putList(e.ServerID, *p.Items, p.Items.Keys())
		default:
			t.putList(e.ServerID, p.Before, slices.Concat(p.Changed, p.Removed))
			t.putList(e.ServerID, *p.Items, slices.Concat(p.Changed, p.Added))
		}
	case event.ServerState:
		if p.Instructions != "" {
			t.putDefinition(e.ServerID, p.InstructionsDigest, []byte(p.Instructions))
		}
	}
}

// maxDefinitions limits the total size, in bytes, of the definitions of one list that are stored at a
// time. A list that is larger would displace the texts of other servers whenever its server connects.
const maxDefinitions = 4 << 20

// putList stores the definitions of items of a list.
func (t *texts) putList(server string, list catalog.List, keys []string) {
	size := 0
	for _, key := range keys {
		it, ok := list.Get(key)
		if size += len(it.Raw); size > maxDefinitions {
			return
		}
		if ok && len(it.Raw) > 0 {
			t.putDefinition(server, it.Digest, it.Raw)
		}
	}
}

// memory holds the states stored in the log: what this process or an earlier one published about
// servers. Its size is limited by the number of resources and list items.
type memory struct {
	log journal.Log

	mu       sync.Mutex            // guards the fields below
	known    map[string]*published // published state by server id
	recalled map[string]recalled   // by server id, until the tracker takes it
}

// published holds what was published about one server.
type published struct {
	resources map[string]catalog.Digest // last published digest by URI
	lists     map[catalog.Kind]catalog.List
}

// loadWithRetry reads the states of all servers. It retries if that fails, because a cluster may be
// electing leaders.
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

// loadServer reads the states of one server, regardless of which process stored them.
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

// publish records the digest of a resource; zero means that the resource is gone.
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

// baseline returns the last published digest of a resource, or zero if there is none.
func (m *memory) baseline(server, uri string) catalog.Digest {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.known[server]; p != nil {
		return p.resources[uri]
	}
	return catalog.Digest{}
}

// baselineList returns the last published version of a list.
func (m *memory) baselineList(server string, k catalog.Kind) (list catalog.List, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.known[server]; p != nil {
		list, ok = p.lists[k]
	}
	return list, ok
}

// cursors returns the positions from which to resume the subscriptions to a server's events.
func (m *memory) cursors(server string) map[string]string {
	list, ok := m.baselineList(server, journal.Cursors)
	if !ok {
		return nil
	}
	return maps.Clone(journal.CursorsOf(list))
}
