package realtime

import (
	"time"
)

// key identifies what one message is about.
type key struct{ server, uri string }

func (m *Message) key() key { return key{m.ServerID, m.ResourceURI} }

// pending is a message that waits.
type pending struct {
	Message
	arrived time.Time // the first of the updates that it covers
	since   time.Time // when the oldest update that it covers happened
	due     time.Time
	settles time.Time // not before that, even for an item that is sent anyway
	number  uint64    // increases with every update that is accepted
	before  string    // id of the update offered before this one: the cursor while it waits
	merged  int       // older updates that it covers
	alone   bool      // it must not share an item: one that it was in was rejected
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
