package realtime

import (
	"slices"

	"github.com/mcptrack/mcptrack/core/event"
)

// Progress is how far a session is in a log of events, to be kept for the next
// run: everything up to Cursor was handled, and of what follows it the events in
// Done. A message that fails counts as handled.
type Progress struct {
	Cursor string   `json:"cursor"`
	Done   []string `json:"done,omitempty"`
}

// maxDone is how many ids after the cursor are kept. More would need as many
// messages to overtake one that waits.
const maxDone = 4096

// progress notes which events were handled. The zero value is ready; it belongs to
// who holds its owner's lock.
type progress struct{ done map[string]struct{} }

func (p *progress) has(id string) bool {
	_, ok := p.done[id]
	return ok
}

func (p *progress) add(id string) {
	if id == "" {
		return
	}
	if p.done == nil {
		p.done = map[string]struct{}{}
	}
	p.done[id] = struct{}{}
}

// upTo forgets what the cursor covers and returns what is left, oldest first. Ids
// of another epoch than the cursor's are of a log that is gone.
func (p *progress) upTo(cursor string) Progress {
	epoch, last, err := event.ParseID(cursor)
	if err != nil {
		clear(p.done)
		return Progress{}
	}
	type done struct {
		seq uint64
		id  string
	}
	var left []done
	for id := range p.done {
		e, seq, err := event.ParseID(id)
		if err != nil || e != epoch || seq <= last {
			delete(p.done, id)
			continue
		}
		left = append(left, done{seq, id})
	}
	slices.SortFunc(left, func(a, b done) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	out := Progress{Cursor: cursor}
	for i, d := range left {
		if len(left)-i > maxDone {
			delete(p.done, d.id)
			continue
		}
		out.Done = append(out.Done, d.id)
	}
	return out
}
