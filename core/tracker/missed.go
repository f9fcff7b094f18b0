package tracker

import (
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

const (
	// missedGrace is how long the notification of a change may take that a safety read
	// found; it is missed if it does not arrive.
	missedGrace = 10 * time.Second
	// maxMissed is after how many missed changes a server is polled.
	maxMissed = 2
	// silenceGrace is how long after a silent stream was noticed the comparison may take
	// whose finds that stream missed.
	silenceGrace = time.Minute
)

// missedChanges finds out which changes the server of one session should have announced
// and did not.
type missedChanges struct {
	suspects map[string]time.Time // by URI: when the change counts as missed
	silence  time.Time            // until then, changes that a comparison finds were missed
}

// found takes in an event that the server should have announced, if a read found another
// content. It returns how many changes are known to be missed by now.
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
		m.suspects[u.URI] = now.Add(missedGrace)
	}
	return 0
}

// announced takes in a notification about a resource.
func (m *missedChanges) announced(uri string) { delete(m.suspects, uri) }

// reset forgets everything, because a gap explains what was missed.
func (m *missedChanges) reset() { *m = missedChanges{} }

// silent notes that the stream was silent for so long that it may be dead.
func (m *missedChanges) silent(now time.Time) {
	m.reset()
	m.silence = now.Add(silenceGrace)
}

// expired returns how many changes turned out to be missed.
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
