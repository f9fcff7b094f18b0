package natslog

import (
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/event"
)

// recent keeps the last events that this process appended, by the ids of their messages, so that
// its readers also get the members that are not stored.
type recent struct {
	instance string // the first part of the ids of this process
	slots    [4096]atomic.Pointer[appended]
}

type appended struct {
	n     uint64
	event *event.Event
}

// put keeps the event that is stored with the id instance-n.
func (r *recent) put(n uint64, e *event.Event) {
	r.slots[n%uint64(len(r.slots))].Store(&appended{n, e})
}

// get returns nil if the event is not there.
func (r *recent) get(id string) *event.Event {
	instance, n, err := event.ParseID(id)
	if err != nil || instance != r.instance {
		return nil
	}
	if a := r.slots[n%uint64(len(r.slots))].Load(); a != nil && a.n == n {
		return a.event
	}
	return nil
}
