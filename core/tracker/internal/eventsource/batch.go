package eventsource

import (
	"maps"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

const (
	maxURIs   = 20_000  // marked URIs
	maxURI    = 8 << 10 // bytes of one
	maxEvents = 1000    // events kept that are not about a resource
)

// Batch is what the events since the last Take report.
type Batch struct {
	// URIs are the resources that events named, each with the arrival of its first event.
	URIs map[string]time.Time
	// Lists are the lists that may have changed.
	Lists map[catalog.Kind]struct{}
	// Events are those that are not about a resource, in the order in which they came.
	Events []Occurrence
	// Gap is why events may be missing, so that everything has to be compared; "" if none are.
	Gap string
	// Began means that a subscription to events about resources began without a cursor, so that
	// it does not report earlier changes.
	Began bool
	// Cursors say where to resume the subscriptions whose cursor changed, by their keys.
	Cursors map[string]string
	// Forbidden are types of events that the server refuses to deliver to us.
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

// pending collects the batch until it is taken.
type pending struct {
	// wake has capacity one: the goroutines of a source send without blocking; only the owner
	// receives. It is never closed.
	wake chan struct{}

	mu    sync.Mutex // guards what follows
	batch Batch
	live  map[string]Coverage // coverage of the active subscriptions, by key
}

func newPending() pending { return pending{wake: make(chan struct{}, 1), live: map[string]Coverage{}} }

// take returns the batch and starts a new one.
func (p *pending) take() Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.batch
	p.batch = Batch{}
	b.Coverage = p.coverage()
	return b
}

// coverage returns that of all active subscriptions together. p.mu must be held.
func (p *pending) coverage() (c Coverage) {
	for _, one := range p.live {
		c.Resources, c.Lists = c.Resources || one.Resources, c.Lists || one.Lists
	}
	return c
}

// change changes the batch and wakes the owner.
func (p *pending) change(f func(*Batch)) {
	p.mu.Lock()
	f(&p.batch)
	p.mu.Unlock()
	p.ring()
}

func (p *pending) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// stands records the coverage of a subscription; zero: it is not active any more.
func (p *pending) stands(key string, c Coverage) {
	p.mu.Lock()
	was := p.coverage()
	if p.live[key] = c; c == (Coverage{}) {
		delete(p.live, key)
	}
	changed := was != p.coverage()
	p.mu.Unlock()
	if changed {
		p.ring()
	}
}

// mark marks a resource.
func (b *Batch) mark(uri string, now time.Time) {
	if uri == "" || len(uri) > maxURI {
		return
	}
	if _, known := b.URIs[uri]; known {
		return
	}
	if len(b.URIs) >= maxURIs {
		b.gap("more changes than fit the set")
		return
	}
	if b.URIs == nil {
		b.URIs = map[string]time.Time{}
	}
	b.URIs[uri] = now
}

func (b *Batch) list(kinds ...catalog.Kind) {
	if b.Lists == nil {
		b.Lists = map[catalog.Kind]struct{}{}
	}
	for _, k := range kinds {
		b.Lists[k] = struct{}{}
	}
}

func (b *Batch) keep(o Occurrence) {
	if len(b.Events) >= maxEvents {
		b.gap("more events than could be taken")
		return
	}
	b.Events = append(b.Events, o)
}

// gap records a gap. If there is a reason already, it is kept.
func (b *Batch) gap(reason string) {
	if b.Gap == "" {
		b.Gap = reason
	}
}

func (b *Batch) cursor(key, cursor string) {
	if b.Cursors == nil {
		b.Cursors = map[string]string{}
	}
	b.Cursors[key] = cursor
}

// Merge returns the known cursors, updated with those of the batch.
func (b *Batch) Merge(known map[string]string) map[string]string {
	out := maps.Clone(known)
	if out == nil {
		out = map[string]string{}
	}
	for key, cursor := range b.Cursors {
		if cursor == "" {
			delete(out, key)
		} else {
			out[key] = cursor
		}
	}
	return out
}
