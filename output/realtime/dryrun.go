package realtime

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// DryRun writes the client events that would be sent as NDJSON, with one item per update and
// without merging or delays. It is not safe for concurrent use.
type DryRun struct {
	W       io.Writer
	Message MessageOptions
	Respond bool // write a response.create after each message
	Dialect Dialect
	Session string // ID of a running session; see [Endpoint]

	queue *queue // detects updates that are not newer than the last one; nil before the first Write
}

// Write writes the client events for one event with a single call to W.Write, and reports whether
// there were any. There are none if the event is not an update, or is not newer than the last
// update of its resource.
func (d *DryRun) Write(e *event.Event) (bool, error) {
	m, ok := newMessage(e, d.Message)
	if !ok {
		return false, nil
	}
	if d.queue == nil {
		d.queue = newQueue(QueueOptions{Window: -1, Every: -1})
		d.queue.hasten = true // messages are due immediately
	}
	now := time.Now()
	if !d.queue.offer(m, now) {
		return false, nil
	}
	batch, _ := d.queue.take(now, limits{messages: 1})
	lang, err := (&Endpoint{Dialect: d.Dialect, Session: d.Session}).dialect()
	if err != nil {
		return false, err
	}
	out, err := encode(lang.create(m.ItemID, d.Message.Role, batch))
	if err != nil {
		return false, err
	}
	out = append(out, '\n')
	if d.Respond && lang.responds {
		r, _ := newResponseCreate(strings.TrimPrefix(m.ItemID, itemPrefix))
		out = append(append(out, r...), '\n')
	}
	if _, err := d.W.Write(out); err != nil {
		return false, fmt.Errorf("write client event: %w", err)
	}
	return true, nil
}
