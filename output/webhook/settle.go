package webhook

import (
	"cmp"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/events"
)

// maxStates bounds the servers of which a webhook remembers what it was sent.
const maxStates = 10_000

// settler keeps states of servers back until they have lasted, so that a server that
// comes and goes is reported once. It is used by one goroutine; its state is stored with
// the watermark of its webhook.
type settler struct {
	after time.Duration
	sent  map[string]string // the condition that was sent last, by server
	held  map[string]*heldState
	// changed says that sent or held differ from what was stored.
	changed bool
}

func newSettler(after time.Duration) *settler {
	return &settler{after: after, sent: map[string]string{}, held: map[string]*heldState{}}
}

// heldState is the state of a server that is kept back.
type heldState struct {
	occ       *events.Occurrence
	condition string
	since     time.Time
	leaving   bool // it was given out for delivery
}

// condition is what must last: a server that is down goes back and forth between several
// states.
func condition(state event.State) string {
	switch state {
	case event.Pending, event.Connecting, event.Backoff:
		return "down"
	}
	return string(state)
}

// hold takes over an event that is to be kept back; it returns whether it did. A state
// that leads back to what was sent last is dropped, with the one it ends.
func (s *settler) hold(o *events.Occurrence) bool {
	if o.Name != events.ServerState || s.after <= 0 {
		return false
	}
	state := event.State(o.Word())
	now := condition(state)
	s.changed = true
	before, known := s.held[o.Server]
	switch {
	case known && before.leaving:
		if before.condition == now {
			return true
		}
		s.sent[o.Server] = before.condition // as its delivery will not be the last
	case known && before.condition == now:
		if state == event.Backoff && event.State(before.occ.Word()) != event.Backoff {
			before.occ = o // it says why
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

// due returns the states that have lasted, in order, and when the next one will have;
// zero if none is kept back. Those that are returned stay stored until done is called.
func (s *settler) due(now time.Time) (ready []*events.Occurrence, next time.Time) {
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
	slices.SortFunc(ready, func(a, b *events.Occurrence) int { return cmp.Compare(a.Seq, b.Seq) })
	return ready, next
}

// done notes that an event that due returned was taken or given up.
func (s *settler) done(o *events.Occurrence) {
	s.changed = true
	if h := s.held[o.Server]; h != nil && h.occ == o {
		delete(s.held, o.Server)
	}
	if len(s.sent) >= maxStates {
		clear(s.sent) // of servers that come and go with the config
	}
	s.sent[o.Server] = condition(event.State(o.Word()))
}

// ids names the events that are kept back.
func (s *settler) ids() (ids []string) {
	for _, h := range s.held {
		ids = append(ids, h.occ.ID)
	}
	slices.Sort(ids)
	return ids
}
