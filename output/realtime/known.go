package realtime

import (
	"hash/fnv"
	"io"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// known is what a queue remembers about the updates of a resource.
type known struct {
	position position  // of the newest update
	sent     time.Time // when a message about the resource was last sent; zero: never
	at       uint64    // the number, in the queue, of the update that set position
	item     string    // id of the item with the last message that was delivered; "": none
}

// position orders the updates of one resource: by event id within one epoch, else by
// time. A clock that is set back does not reorder the events of an epoch.
type position struct {
	epoch string
	seq   uint64
	ms    int64
	text  uint32 // hash of what the message says
}

func (m *Message) position() position {
	h := fnv.New32a()
	for _, part := range m.Parts {
		_, _ = io.WriteString(h, part.Text) // never fails
	}
	p := position{ms: m.Timestamp.UnixMilli(), text: h.Sum32()}
	if epoch, seq, err := event.ParseID(m.EventID); err == nil {
		p.epoch, p.seq = epoch, seq
	}
	return p
}

// before reports whether a message is newer than the newest known update: its position is
// later, and its text or its time differs. Numbers of different epochs cannot be compared: an
// event of another epoch counts as newer.
func (k known) before(m *Message) bool {
	was, is := k.position, m.position()
	switch {
	case was.ms == is.ms && was.text == is.text:
		return false
	case was.epoch == "" || is.epoch == "":
		return was.ms < is.ms
	case was.epoch == is.epoch:
		return was.seq < is.seq
	}
	return true
}

func (k *known) update(m *Message, number uint64) { k.position, k.at = m.position(), number }

// forget removes an eighth of the known resources, except keep. It prefers resources whose
// newest update is old, but does not sort them, which would be too expensive.
func (q *queue) forget(keep key) {
	n := len(q.known) / 8
	limit := q.number - min(q.number, uint64(q.opts.Remember)/2)
	for k, v := range q.known {
		if n <= 0 {
			return
		}
		if k != keep && v.at <= limit && q.waiting[k] == nil {
			delete(q.known, k)
			n--
		}
	}
	for k := range q.known {
		if len(q.known) <= q.opts.Remember {
			return
		}
		if k != keep {
			delete(q.known, k)
		}
	}
}
