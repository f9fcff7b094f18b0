package serve

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// replayWindow is how much is repeated to a client that opens another stream without a
// Last-Event-ID: about as long as it may take to notice that a stream is dead.
const replayWindow = time.Minute

// replayLog records, for each list and URI, the last event on a session's GET streams
// that announced its change, so that a client whose stream broke gets again what it may
// have missed. It holds one entry for each list and URI, and no events.
type replayLog struct {
	mu   sync.Mutex
	last uint64 // number of the last event
	sent map[topic]sentEvent
}

// topic is the subject of a notification: one list or one URI.
type topic struct {
	lists subscriptions.Lists
	uri   string
}

type sentEvent struct {
	number uint64
	at     time.Time
}

// next records a notification of a single list or URI and returns the id of its event.
func (t *replayLog) next(what subscriptions.Batch) string {
	if what.Empty() {
		return t.begin()
	}
	key := topic{lists: what.Lists}
	if len(what.URIs) > 0 {
		key.uri = what.URIs[0]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent == nil {
		t.sent = make(map[topic]sentEvent)
	}
	t.last++
	t.sent[key] = sentEvent{t.last, time.Now()}
	return strconv.FormatUint(t.last, 10)
}

// begin returns the id of an event without content, which precedes all events to come.
func (t *replayLog) begin() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	return strconv.FormatUint(t.last, 10)
}

// forget removes a URI that is no longer subscribed to.
func (t *replayLog) forget(uri string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sent, topic{uri: uri})
}

// find returns the number of the event with this id; known is false if there was none.
func (t *replayLog) find(id string) (number uint64, known bool) {
	number, err := strconv.ParseUint(id, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	return number, err == nil && number <= t.last
}

// after returns what was sent after the event with this id, in that order; for an
// unknown or empty id, what was sent within replayWindow.
func (t *replayLog) after(id string) (b subscriptions.Batch) {
	from, known := t.find(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	var again []topic
	for what, e := range t.sent {
		if known && e.number > from || !known && time.Since(e.at) < replayWindow {
			again = append(again, what)
		}
	}
	slices.SortFunc(again, func(a, b topic) int { return cmp.Compare(t.sent[a].number, t.sent[b].number) })
	for _, what := range again {
		if what.uri != "" {
			b.URIs = append(b.URIs, what.uri)
			continue
		}
		b.Lists.Tools = b.Lists.Tools || what.lists.Tools
		b.Lists.Prompts = b.Lists.Prompts || what.lists.Prompts
		b.Lists.Resources = b.Lists.Resources || what.lists.Resources
		b.Lists.Events = b.Lists.Events || what.lists.Events
	}
	return b
}
