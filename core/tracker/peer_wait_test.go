package tracker_test

import (
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
)

// await returns the next event that fits, and those before it that did not.
func (p *peer) await(fits func(*event.Event) bool, what string) (e *event.Event, before []*event.Event) {
	p.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		for i, e := range p.queue {
			if fits(e) {
				before, p.queue = slices.Concat(before, p.queue[:i]), p.queue[i+1:]
				return e, before
			}
		}
		before, p.queue = slices.Concat(before, p.queue), nil
		select {
		case <-p.events.Ready():
			p.queue, _ = p.events.Take()
		case <-deadline.C:
			p.Fatalf("%s did not happen; events:\n%s", what, show(before))
		}
	}
}

// awaitType waits for the next event of a type, about the URI if one is given.
func (p *peer) awaitType(t event.Type, uri string) (*event.Event, []*event.Event) {
	p.Helper()
	return p.await(func(e *event.Event) bool { return e.Type() == t && (uri == "" || e.ResourceURI == uri) }, string(t)+" "+uri)
}

// pending returns the events that are there already and were not looked at.
func (p *peer) pending() []*event.Event {
	batch, _ := p.events.Take()
	out := append(p.queue, batch...)
	p.queue = nil
	return out
}

func show(events []*event.Event) string {
	var b []byte
	for _, e := range events {
		b, _ = e.AppendJSON(b)
		b = append(b, '\n')
	}
	return string(b)
}

// has reports whether there is an event of the type, about the URI if one is given.
func has(events []*event.Event, t event.Type, uri string) bool {
	return slices.ContainsFunc(events, func(e *event.Event) bool { return e.Type() == t && (uri == "" || e.ResourceURI == uri) })
}

// settled waits until the tracker has had its first look at a resource.
func (p *peer) settled(uri string) {
	p.Helper()
	p.eventually("the tracker has read "+uri, func() bool {
		st, _ := p.tracker.Snapshot().Server("notes")
		i := slices.IndexFunc(st.Resources, func(r status.ResourceStatus) bool { return r.URI == uri })
		return i >= 0 && !st.Resources[i].Digest.IsZero()
	})
}

// eventually waits for a condition that has no event.
func (p *peer) eventually(what string, so func() bool) {
	p.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline.C:
			p.Fatalf("%s: not within %s", what, patience)
		}
	}
}
