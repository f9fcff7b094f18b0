package eventsource

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	maxURIs   = 20_000  // maximum number of marked URIs
	maxURI    = 8 << 10 // maximum length of a URI in bytes
	maxEvents = 1000    // maximum number of stored events that do not concern a resource
)

// Report summarises the events received since the last call to Take.
type Report struct {
	// URIs holds the resources named in events, with the arrival time of the first event for each.
	URIs map[string]time.Time
	// Lists holds the lists that may have changed.
	Lists map[catalog.Kind]struct{}
	// Events holds the events that do not concern a resource, in order of arrival.
	Events []Occurrence
	// Gap explains why events may be missing, so that everything must be compared; empty if none
	// are missing.
	Gap string
	// Began is true if a subscription to events about resources started without a cursor, so that
	// earlier changes are not reported.
	Began bool
	// Cursors holds the positions from which to resume the subscriptions whose cursor changed, by
	// subscription key.
	Cursors map[string]string
	// Forbidden lists the event types that the server refuses to deliver.
	Forbidden []string
	// Coverage specifies which changes the active subscriptions report.
	Coverage Coverage
}

// Coverage specifies which kinds of changes are reported by events.
type Coverage struct {
	Resources bool
	Lists     bool
}

// Occurrence is an event that does not concern a resource.
type Occurrence struct {
	Name, ID string
	Size     int // size of the event's data in bytes
}

// pending accumulates the report until the owner takes it.
type pending struct {
	wake wake.Channel // received by the owner

	mu     sync.Mutex // guards the fields below
	report Report
	live   map[string]Coverage // coverage of the active subscriptions, by key
}

func newPending() pending { return pending{wake: wake.New(), live: map[string]Coverage{}} }

// take returns the current report and starts a new one.
func (p *pending) take() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.report
	p.report = Report{}
	r.Coverage = p.coverage()
	return r
}

// coverage returns the combined coverage of all active subscriptions. p.mu must be held.
func (p *pending) coverage() (c Coverage) {
	for _, one := range p.live {
		c.Resources, c.Lists = c.Resources || one.Resources, c.Lists || one.Lists
	}
	return c
}

// change modifies the report by calling f and wakes the owner.
func (p *pending) change(f func(*Report)) {
	p.mu.Lock()
	f(&p.report)
	p.mu.Unlock()
	p.wake.Send()
}

// cover records the coverage of a subscription; the zero Coverage means that it is no longer
// active.
func (p *pending) cover(key string, c Coverage) {
	p.mu.Lock()
	was := p.coverage()
	if p.live[key] = c; c == (Coverage{}) {
		delete(p.live, key)
	}
	changed := was != p.coverage()
	p.mu.Unlock()
	if changed {
		p.wake.Send()
	}
}

func (r *Report) mark(uri string, now time.Time) {
	if uri == "" || len(uri) > maxURI {
		return
	}
	if _, known := r.URIs[uri]; known {
		return
	}
	if len(r.URIs) >= maxURIs {
		r.gap("too many changes arrived")
		return
	}
	if r.URIs == nil {
		r.URIs = map[string]time.Time{}
	}
	r.URIs[uri] = now
}

func (r *Report) list(kinds ...catalog.Kind) {
	if r.Lists == nil {
		r.Lists = map[catalog.Kind]struct{}{}
	}
	for _, k := range kinds {
		r.Lists[k] = struct{}{}
	}
}

func (r *Report) keep(o Occurrence) {
	if len(r.Events) >= maxEvents {
		r.gap("too many events arrived")
		return
	}
	r.Events = append(r.Events, o)
}

// gap records a gap. If a reason was already recorded, it is kept.
func (r *Report) gap(reason string) {
	if r.Gap == "" {
		r.Gap = reason
	}
}

func (r *Report) cursor(key, cursor string) {
	if r.Cursors == nil {
		r.Cursors = map[string]string{}
	}
	r.Cursors[key] = cursor
}

// Merge returns a copy of the known cursors, updated with the cursors in the report.
func (r *Report) Merge(known map[string]string) map[string]string {
	out := maps.Clone(known)
	if out == nil {
		out = map[string]string{}
	}
	for key, cursor := range r.Cursors {
		if cursor == "" {
			delete(out, key)
		} else {
			out[key] = cursor
		}
	}
	return out
}

// maxSeen is the number of recent events per subscription for which duplicates are detected.
const maxSeen = 10_000

// seen stores the hashes of the most recent event ids; hashes, because ids may be long. The zero
// value is usable.
type seen struct {
	seed maphash.Seed
	set  map[uint64]struct{}
	ring []uint64 // once full, the oldest element is at index next
	next int
}

// add records an event id and reports whether it is a duplicate.
func (s *seen) add(id string) (again bool) {
	if s.set == nil {
		s.seed, s.set = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	h := maphash.String(s.seed, id)
	if _, again = s.set[h]; again {
		return true
	}
	s.set[h] = struct{}{}
	if len(s.ring) < maxSeen {
		s.ring = append(s.ring, h)
		return false
	}
	delete(s.set, s.ring[s.next])
	s.ring[s.next] = h
	s.next = (s.next + 1) % maxSeen
	return false
}

const (
	maxWaiting      = 1024    // maximum number of messages per stream
	maxWaitingBytes = 8 << 20 // maximum total size of their parameters
)

// inbox buffers the messages of a stream until its subscription handles them. put never blocks,
// because it is called by the goroutine that reads from the server.
type inbox struct {
	wake wake.Channel // received by the subscription

	mu       sync.Mutex // guards the fields below
	messages []session.EventMessage
	bytes    int
	lost     bool // messages were dropped because the inbox was full
}

func newInbox() *inbox { return &inbox{wake: wake.New()} }

func (i *inbox) put(m session.EventMessage) {
	i.mu.Lock()
	if len(i.messages) >= maxWaiting || i.bytes+len(m.Params) > maxWaitingBytes && len(i.messages) > 0 {
		i.messages, i.bytes, i.lost = nil, 0, true // drop all messages: the gap covers them, and only the newest cursor is needed
	}
	i.messages = append(i.messages, m)
	i.bytes += len(m.Params)
	i.mu.Unlock()
	i.wake.Send()
}

// take returns the buffered messages, and whether earlier messages were dropped.
func (i *inbox) take() (messages []session.EventMessage, lost bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	messages, lost = i.messages, i.lost
	i.messages, i.bytes, i.lost = nil, 0, false
	return messages, lost
}
