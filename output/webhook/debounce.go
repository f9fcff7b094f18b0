package webhook

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpevents"
)

// maxStates limits the number of servers for which a webhook remembers the last sent state.
const maxStates = 10_000

// stateDebouncer holds back server states until they have lasted for a minimum time, so that a
// server that flaps is reported once. It is not safe for concurrent use. What was sent is stored with the
// webhook's watermark, which does not pass the held events: after a restart they are read again.
type stateDebouncer struct {
	after   time.Duration
	sent    map[string]string // last sent condition, by server
	held    map[string]*heldState
	changed bool // sent differs from its stored form
}

func newStateDebouncer(after time.Duration, sent map[string]string) *stateDebouncer {
	s := &stateDebouncer{after: after}
	if after > 0 { // otherwise it holds nothing
		s.sent, s.held = map[string]string{}, map[string]*heldState{}
		maps.Copy(s.sent, sent)
	}
	return s
}

// heldState is a server state that has not lasted long enough yet.
type heldState struct {
	occ       *mcpevents.Occurrence
	condition string
	since     time.Time
	leaving   bool // returned by due(), but not yet sent
}

// condition returns the part of a state that must be stable, because a server that is down
// alternates between several states.
func condition(state event.State) string {
	switch state {
	case event.Pending, event.Connecting, event.Backoff:
		return "down"
	}
	return string(state)
}

// hold reports whether it keeps the event, either to hold it back or to drop it. It drops a state
// that restores the last sent condition, together with the held state that it ends.
func (s *stateDebouncer) hold(o *mcpevents.Occurrence) bool {
	if o.Name != mcpevents.ServerState || s.after <= 0 {
		return false
	}
	state := event.State(o.ListOrState())
	now := condition(state)
	before, known := s.held[o.Server]
	switch {
	case known && before.leaving:
		if before.condition == now {
			return true
		}
		s.sent[o.Server], s.changed = before.condition, true // the held state was sent, but another one follows
	case known && before.condition == now:
		if state == event.Backoff && event.State(before.occ.ListOrState()) != event.Backoff {
			before.occ = o // keep the newest event, which has the current reason
		}
		return true
	}
	if s.sent[o.Server] == now {
		delete(s.held, o.Server)
		return true
	}
	s.held[o.Server] = &heldState{occ: o, condition: now, since: o.Time}
	return true
}

// due returns the states that have lasted long enough, in order, and when the next one will have;
// next is zero if none is held. Returned states remain held until done is called.
func (s *stateDebouncer) due(now time.Time) (ready []*mcpevents.Occurrence, next time.Time) {
	for _, h := range s.held {
		if h.leaving {
			continue
		}
		at := h.since.Add(s.after)
		if !now.Before(at) {
			h.leaving = true
			ready = append(ready, h.occ)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	slices.SortFunc(ready, func(a, b *mcpevents.Occurrence) int { return cmp.Compare(a.Seq, b.Seq) })
	return ready, next
}

// done records that an event was accepted by the endpoint or abandoned, which due may have returned.
func (s *stateDebouncer) done(o *mcpevents.Occurrence) {
	h := s.held[o.Server]
	if h == nil || h.occ != o {
		return
	}
	delete(s.held, o.Server)
	if len(s.sent) >= maxStates {
		clear(s.sent) // bounds the map: the config may replace servers often
	}
	s.sent[o.Server] = h.condition
	s.changed = true
}

// before returns the last position before all held events of its log; at most at.
func (s *stateDebouncer) before(at mcpevents.Position) mcpevents.Position {
	for _, h := range s.held {
		if strings.HasPrefix(h.occ.ID, at.Epoch+"-") {
			at.Seq = min(at.Seq, h.occ.Seq-1)
		}
	}
	return at
}
