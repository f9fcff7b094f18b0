package webhook

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpevents"
)

// maxStates limits the number of servers for which a webhook remembers the last sent state.
const maxStates = 10_000

// stateDebouncer holds back server states until they have lasted for a minimum time, so that a
// server that flaps is reported once. It is not safe for concurrent use; its state is stored with
// the webhook's watermark.
type stateDebouncer struct {
	after   time.Duration
	sent    map[string]string // last sent condition, by server
	held    map[string]*heldState
	changed bool // sent or held differs from its stored form
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
	s.changed = true
	before, known := s.held[o.Server]
	switch {
	case known && before.leaving:
		if before.condition == now {
			return true
		}
		s.sent[o.Server] = before.condition // the held state was sent, but another one follows
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
// next is zero if none is held. Returned states remain stored until done is called.
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

// done records that an event returned by due was accepted by the endpoint or abandoned.
func (s *stateDebouncer) done(o *mcpevents.Occurrence) {
	s.changed = true
	if h := s.held[o.Server]; h != nil && h.occ == o {
		delete(s.held, o.Server)
	}
	if len(s.sent) >= maxStates {
		clear(s.sent) // bounds the map: the config may replace servers often
	}
	s.sent[o.Server] = condition(event.State(o.ListOrState()))
}

// ids returns the IDs of the held-back events.
func (s *stateDebouncer) ids() (ids []string) {
	for _, h := range s.held {
		ids = append(ids, h.occ.ID)
	}
	slices.Sort(ids)
	return ids
}

// findWait limits how long a new reader may take to open its log.
const findWait = 10 * time.Second

// restoreStates makes a debouncer with the stored states. lost reports whether some of the held events
// are no longer in the log.
func (w *worker) restoreStates(ctx context.Context, p progress) (lost bool, err error) {
	w.states = newStateDebouncer(w.settle, p.Sent)
	for _, id := range p.Held {
		epoch, seq, err := event.ParseID(id)
		if err != nil || seq == 0 {
			continue
		}
		b, err := w.find(ctx, mcpevents.Position{Epoch: epoch, Seq: seq - 1})
		if err != nil {
			return false, err
		}
		lost = lost || b.Truncated
		for _, o := range b.Occurrences {
			if !w.states.hold(o) {
				lost = true // debouncing is now disabled, and the watermark is past this event
			}
		}
	}
	return lost, nil
}

// find returns the event directly after a position. The batch is Truncated if the event is no
// longer in the log, or if the log does not open within findWait.
func (w *worker) find(ctx context.Context, at mcpevents.Position) (mcpevents.Batch, error) {
	over := time.NewTimer(findWait)
	defer over.Stop()
	for {
		b, moved, err := w.reader.Look(ctx, at, func(*mcpevents.Occurrence) bool { return true }, 1)
		if err != nil || b.At != at || b.Truncated {
			return b, err
		}
		select {
		case <-moved:
		case <-over.C:
			return mcpevents.Batch{At: at, Truncated: true}, nil
		case <-ctx.Done():
			return b, context.Cause(ctx)
		}
	}
}
