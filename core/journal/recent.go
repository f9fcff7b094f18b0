package journal

import (
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/event"
)

// recent keeps the last appended events, by their ids on the bus, so that readers in this
// process also get the members that are not stored.
type recent struct {
	slots [4096]atomic.Pointer[event.Event]
}

func (r *recent) put(e *event.Event) { r.slots[e.Seq%uint64(len(r.slots))].Store(e) }

func (r *recent) get(id string) *event.Event {
	_, seq, err := event.ParseID(id)
	if err != nil {
		return nil
	}
	if e := r.slots[seq%uint64(len(r.slots))].Load(); e != nil && e.ID == id {
		return e
	}
	return nil
}
