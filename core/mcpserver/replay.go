package mcpserver

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
)

// replayWindow is how much is repeated to a client that opens another stream without a
// Last-Event-ID: about as long as it may take to notice that a stream is dead.
const replayWindow = time.Minute

// replayLog records, for each list and URI, the last event on a session's GET streams
// that announced its change, so that a client whose stream broke gets again what it may
// have missed. It holds one entry for each list and URI, and no events.
type replayLog struct {
	epoch string // begins the ids of all events; see session

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
	eventNumber

	at time.Time
}

// eventNumber identifies an event of a GET stream. The numbers of events rise over all streams of
// the session.
type eventNumber struct {
	stream int
	event  uint64
}

// getMark follows the epoch in the ids of events of GET streams.
const getMark = "-get-"

// id returns the id of an event.
func (t *replayLog) id(n eventNumber) string {
	return t.epoch + getMark + strconv.Itoa(n.stream) + "-" + strconv.FormatUint(n.event, 10)
}

// next records a notification of a single list or URI, or another message if what is empty, and
// returns the number of its event on a stream.
func (t *replayLog) next(stream int, what subscriptions.Batch) eventNumber {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	n := eventNumber{stream, t.last}
	if what.Empty() {
		return n
	}
	key := topic{lists: what.Lists}
	if len(what.URIs) > 0 {
		key.uri = what.URIs[0]
	}
	if t.sent == nil {
		t.sent = make(map[topic]sentEvent)
	}
	t.sent[key] = sentEvent{n, time.Now()}
	return n
}

// forget removes a URI that is no longer subscribed to.
func (t *replayLog) forget(uri string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sent, topic{uri: uri})
}

// find returns the number of the event with this id; known is false if there was none.
func (t *replayLog) find(id string) (n eventNumber, known bool) {
	rest, ok := strings.CutPrefix(id, t.epoch+getMark)
	stream, event, _ := strings.Cut(rest, "-")
	var failed, failedToo error
	n.stream, failed = strconv.Atoi(stream)
	n.event, failedToo = strconv.ParseUint(event, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	return n, ok && failed == nil && failedToo == nil && n.event <= t.last
}

// lost returns what was sent on streams that are not open, in that order: after the given event, or
// if that is not known, within replayWindow.
func (t *replayLog) lost(last eventNumber, known bool, open func(stream int) bool) subscriptions.Batch {
	return t.batch(func(e sentEvent) bool {
		return !open(e.stream) && (known && e.event > last.event || !known && time.Since(e.at) < replayWindow)
	})
}

// sentOn returns what was sent on a stream since then.
func (t *replayLog) sentOn(stream int, since time.Time) subscriptions.Batch {
	return t.batch(func(e sentEvent) bool { return e.stream == stream && !e.at.Before(since) })
}

// received records that the client has what was sent on a stream so far: it is never repeated.
func (t *replayLog) received(stream int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.sent, func(_ topic, e sentEvent) bool { return e.stream == stream })
}

func (t *replayLog) batch(wanted func(sentEvent) bool) (b subscriptions.Batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var again []topic
	for what, e := range t.sent {
		if wanted(e) {
			again = append(again, what)
		}
	}
	slices.SortFunc(again, func(a, b topic) int { return cmp.Compare(t.sent[a].event, t.sent[b].event) })
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
