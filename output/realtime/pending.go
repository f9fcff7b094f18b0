package realtime

import (
	"time"
)

// key identifies the resource that a message is about.
type key struct{ server, uri string }

func (m *Message) key() key { return key{m.ServerID, m.ResourceURI} }

// pending is a message that waits to be sent or is being sent.
type pending struct {
	Message
	arrived time.Time // when the first of the updates that it covers was offered
	since   time.Time // when the oldest update that it covers happened
	due     time.Time // when it is to be sent
	settles time.Time // it is not sent before, not even with an item that is sent anyway; zero: at any time
	number  uint64    // increases with every update that is accepted
	before  string    // id of the update offered before this one: the cursor while it waits
	merged  int       // older updates that it covers
	alone   bool      // it must not share an item, as a shared item with it was rejected or not acknowledged
}

// merge makes p cover the updates that an older message of the same resource covers.
func (p *pending) merge(old *pending) {
	p.merged += old.merged + 1
	p.since = earlier(p.since, old.since)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
