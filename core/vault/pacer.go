package vault

import (
	"slices"
	"time"
)

// pacer delays updates so that two updates of one resource are at least spacing apart.
// Updates of a resource that wait are coalesced.
type pacer struct {
	spacing time.Duration

	waiting map[string]struct{}  // URIs whose update is not sent yet
	sent    map[string]time.Time // when an update was sent, by URI, if that is less than spacing ago
}

func (p *pacer) add(uri string) {
	if p.waiting == nil {
		p.waiting = make(map[string]struct{})
	}
	p.waiting[uri] = struct{}{}
}

// next returns when the next update is due; ok is false if none waits.
func (p *pacer) next() (at time.Time, ok bool) {
	for uri := range p.waiting {
		if due := p.due(uri); !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	return at, ok
}

func (p *pacer) due(uri string) time.Time {
	sent, ok := p.sent[uri]
	if !ok {
		return time.Time{}
	}
	return sent.Add(p.spacing)
}

// take returns the URIs whose update is due, sorted, and records them as sent.
func (p *pacer) take(now time.Time) (due []string) {
	for uri, at := range p.sent {
		if now.Sub(at) >= p.spacing {
			delete(p.sent, uri)
		}
	}
	for uri := range p.waiting {
		if _, early := p.sent[uri]; early {
			continue
		}
		due = append(due, uri)
		delete(p.waiting, uri)
		if p.sent == nil {
			p.sent = make(map[string]time.Time)
		}
		p.sent[uri] = now
	}
	slices.Sort(due)
	return due
}
