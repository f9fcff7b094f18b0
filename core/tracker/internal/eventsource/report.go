package eventsource

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	maxURIs   = 20_000  // marked URIs
	maxURI    = 8 << 10 // bytes of one
	maxEvents = 1000    // kept events that are not about a resource
)

// Report is what the events since the last Take report.
type Report struct {
	// URIs are the resources that events named, each with the time at which its first event arrived.
	URIs map[string]time.Time
	// Lists are the lists that may have changed.
	Lists map[catalog.Kind]struct{}
	// Events are the events that are not about a resource, in order of arrival.
	Events []Occurrence
	// Gap is why events may be missing, so that everything has to be compared; "": none are.
	Gap string
	// Began means that a subscription to events about resources began without a cursor, so it
	// does not report earlier changes.
	Began bool
	// Cursors say where to resume the subscriptions whose cursor changed, by their keys.
	Cursors map[string]string
	// Forbidden are types of events that the server refuses to deliver.
	Forbidden []string
	// Coverage says which changes the active subscriptions report.
	Coverage Coverage
}

// Coverage says which kinds of changes are reported by events.
type Coverage struct {
	Resources bool
	Lists     bool
}

// Occurrence is an event that is not about a resource.
type Occurrence struct {
	Name, ID string
	Size     int // bytes of its data
}

// pending collects the report until it is taken.
type pending struct {
	// wake has capacity 1: the goroutines of a subscriber send without blocking; only the owner
	// receives. It is never closed.
	wake chan struct{}

	mu     sync.Mutex // guards all below
	report Report
	live   map[string]Coverage // coverage of the active subscriptions, by key
}

func newPending() pending { return pending{wake: make(chan struct{}, 1), live: map[string]Coverage{}} }

// take returns the report and starts a new one.
func (p *pending) take() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.report
	p.report = Report{}
	r.Coverage = p.coverage()
	return r
}

// coverage returns what all active subscriptions together cover. p.mu must be held.
func (p *pending) coverage() (c Coverage) {
	for _, one := range p.live {
		c.Resources, c.Lists = c.Resources || one.Resources, c.Lists || one.Lists
	}
	return c
}

// change changes the report and wakes the owner.
func (p *pending) change(f func(*Report)) {
	p.mu.Lock()
	f(&p.report)
	p.mu.Unlock()
	ring(p.wake)
}

// ring wakes the receiver of a channel of capacity 1, unless a wake is already waiting.
func ring(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// cover records the coverage of a subscription; zero: it is no longer active.
func (p *pending) cover(key string, c Coverage) {
	p.mu.Lock()
	was := p.coverage()
	if p.live[key] = c; c == (Coverage{}) {
		delete(p.live, key)
	}
	changed := was != p.coverage()
	p.mu.Unlock()
	if changed {
		ring(p.wake)
	}
}

// mark marks a resource.
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

// gap records a gap. If there is a reason already, it is kept.
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

// Merge returns the known cursors, updated with the cursors in the report.
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

// maxSeen is how many of a subscription's last events are recognised if they are repeated.
const maxSeen = 10_000

// seen are the last events, by the hash of their ids, because ids may be long. The zero
// value is usable.
type seen struct {
	seed maphash.Seed
	set  map[uint64]struct{}
	ring []uint64 // oldest at next, once it is full
	next int
}

// add records an event and reports whether it is a repetition.
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
	maxWaiting      = 1024    // messages of one stream
	maxWaitingBytes = 8 << 20 // of their parameters
)

// inbox holds the messages of a stream until its subscription handles them. put never blocks,
// because the goroutine that reads from the server calls it.
type inbox struct {
	// wake has capacity 1: put sends without blocking, the subscription receives; it is
	// never closed.
	wake chan struct{}

	mu       sync.Mutex // guards all below
	messages []session.EventMessage
	bytes    int
	lost     bool // messages were dropped
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (i *inbox) put(m session.EventMessage) {
	i.mu.Lock()
	if len(i.messages) >= maxWaiting || i.bytes+len(m.Params) > maxWaitingBytes && len(i.messages) > 0 {
		i.messages, i.bytes, i.lost = nil, 0, true // drop all: the gap covers them, and the newest cursor counts
	}
	i.messages = append(i.messages, m)
	i.bytes += len(m.Params)
	i.mu.Unlock()
	ring(i.wake)
}

// take returns the waiting messages, and whether some before them were dropped.
func (i *inbox) take() (messages []session.EventMessage, lost bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	messages, lost = i.messages, i.lost
	i.messages, i.bytes, i.lost = nil, 0, false
	return messages, lost
}
