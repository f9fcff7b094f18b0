package engine

import (
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
)

// recorder is what the tracker records to: the log, under the leases that it takes. It keeps in
// mind what was published, and puts texts beside the log.
type recorder struct {
	log     journal.Log
	memory  *memory
	texts   *texts
	sharing *sharing // nil: no leases are needed

	listed   func(journal.ListName, catalog.List)
	exported func(*event.Event) map[string]string // nil: nobody exports anything

	reloaded, rejected atomic.Uint64
	bad                atomic.Bool // the last config on disk was rejected
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

// to returns where events about a server are stored; nil: another process stores them.
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
	r.texts.putEvent(e) // before the event: a log that stores both in one step has its text
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
	return to.RememberList(name, list)
}
