package webhook

import (
	"cmp"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpevents"
)

// maxStates limits the servers whose last sent state a webhook remembers.
const maxStates = 10_000

// stateDebouncer holds back server states until they have lasted, so that a server that goes up and
// down is reported once. It is for one goroutine; its state is stored with the watermark of its
// webhook.
type stateDebouncer struct {
	after   time.Duration
	sent    map[string]string // the condition last sent, by server
	held    map[string]*heldState
	changed bool // sent or held differ from what is stored
}

func newStateDebouncer(after time.Duration) *stateDebouncer {
	return &stateDebouncer{after: after, sent: map[string]string{}, held: map[string]*heldState{}}
}

// heldState is a server state that is held back.
type heldState struct {
	occ       *mcpevents.Occurrence
	condition string
	since     time.Time
	leaving   bool // due has returned it
}

// condition maps a state to what must last, as a server that is down alternates between states.
func condition(state event.State) string {
	switch state {
	case event.Pending, event.Connecting, event.Backoff:
		return "down"
	}
	return string(state)
}

// hold reports whether it has taken the event, to hold it back or drop it. It drops a state that
// restores the condition last sent, and the held state that this one ends.
func (s *stateDebouncer) hold(o *mcpevents.Occurrence) bool {
	if o.Name != mcpevents.ServerState || s.after <= 0 {
		return false
	}
	state := event.State(o.ListOrState())
	now := condition(state)
	s.changed = true
	before, known := s.held[o.Server]
	switch {
	case known && before.leaving:
		if before.condition == now {
			return true
		}
		s.sent[o.Server] = before.condition // its delivery will not be the last
	case known && before.condition == now:
		if state == event.Backoff && event.State(before.occ.ListOrState()) != event.Backoff {
			before.occ = o // the newest event says why
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

// due returns the states that have lasted, in order, and when the next one will have; zero: none is
// held. Returned states stay stored until done is called.
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

// done records that an event returned by due was accepted or abandoned.
func (s *stateDebouncer) done(o *mcpevents.Occurrence) {
	s.changed = true
	if h := s.held[o.Server]; h != nil && h.occ == o {
		delete(s.held, o.Server)
	}
	if len(s.sent) >= maxStates {
		clear(s.sent) // servers come and go with the config
	}
	s.sent[o.Server] = condition(event.State(o.ListOrState()))
}

// ids returns the IDs of the held events.
func (s *stateDebouncer) ids() (ids []string) {
	for _, h := range s.held {
		ids = append(ids, h.occ.ID)
	}
	slices.Sort(ids)
	return ids
}
