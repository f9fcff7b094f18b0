package tracker

import (
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

const (
	// missedGrace is how long a notification may still arrive after a safety read found the
	// change; after that, the change counts as missed.
	missedGrace = 10 * time.Second
	// maxMissed is the number of missed changes after which a server is polled.
	maxMissed = 2
	// silenceGrace is the time after a silent stream was noticed in which changes found by
	// comparing count as missed by that stream.
	silenceGrace = time.Minute
)

// missedChanges counts changes that the server of one session should have announced but did
// not.
type missedChanges struct {
	suspects map[string]time.Time // by URI: when the change counts as missed
	silence  time.Time            // until then, changes that a comparison finds were missed
}

// found handles an update that was found without an announcement, if the content is another
// one. It returns how many missed changes this makes certain.
func (m *missedChanges) found(u coalesce.Update, now time.Time) int {
	if !u.Read || u.Previous.Digest.IsZero() || u.Previous.Digest == u.Content.Digest {
		return 0
	}
	switch {
	case u.Cause == event.CauseResync && now.Before(m.silence):
		return 1
	case u.Cause == event.CausePoll:
		if m.suspects == nil {
			m.suspects = map[string]time.Time{}
		}
		if _, waits := m.suspects[u.URI]; !waits { // else a change before this one was not announced either
			m.suspects[u.URI] = now.Add(missedGrace)
		}
	}
	return 0
}

// announced handles a notification about a resource: its change was not missed.
func (m *missedChanges) announced(uri string) { delete(m.suspects, uri) }

// reset forgets everything, because a gap explains what was missed.
func (m *missedChanges) reset() { *m = missedChanges{} }

// silent records that the stream was silent for so long that it may be dead.
func (m *missedChanges) silent(now time.Time) {
	m.reset()
	m.silence = now.Add(silenceGrace)
}

// expired returns how many suspected changes have become certain to be missed.
func (m *missedChanges) expired(now time.Time) int {
	n := 0
	for uri, at := range m.suspects {
		if !now.Before(at) {
			delete(m.suspects, uri)
			n++
		}
	}
	return n
}

// wakeAt returns when expired may find something, zero if never.
func (m *missedChanges) wakeAt() time.Time {
	var first time.Time
	for _, at := range m.suspects {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}
