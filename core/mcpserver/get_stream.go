package mcpserver

import (
	"context"
	"errors"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

var errReplaced = errors.New("the client has opened another stream")

// getStream is the GET stream of a session. A client may open another before the server notices that the connection of
// the first is dead, so the new one ends the one before, and repeats what it sent last.
type getStream struct {
	*eventStream

	session *session
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed after the stream has put back its unsent messages
}

// get serves a GET stream of a legacy session.
func (x *exchange) get() {
	if x.rejectModern() || !x.acceptsEvents() {
		return
	}
	ss := x.session()
	if ss == nil {
		return
	}
	defer x.srv.releaseSession(ss)
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	// A client that does not read must not delay the end of its session, nor the stream that
	// replaces this one.
	defer context.AfterFunc(ss.ctx, func() { cancel(errSessionEnded) })()
	defer context.AfterFunc(ctx, x.shortenDeadline)()
	last := x.r.Header.Get(mcp.HeaderLastEventID)
	if call, number, isCall := ss.calls.find(last); isCall {
		if call == nil {
			// If the stream merely ended without a response, the client would reopen it repeatedly;
			// a 404 would end the session. The specification allows no other answer than 405.
			x.w.Header().Set("Allow", "POST, DELETE")
			http.Error(x.w, "the request is complete: no events follow this one", http.StatusMethodNotAllowed)
			return
		}
		_ = x.srv.newEventStream(x.w).resume(ctx, call, number) // after an error, the client resumes again
		return
	}
	g := &getStream{eventStream: x.srv.newEventStream(x.w), session: ss, cancel: cancel, done: make(chan struct{})}
	g.attach(last)
	defer g.detach()
	if g.start() != nil {
		return
	}
	if ss.version >= mcp.LatestLegacy && g.prime(ss.replay.id(ss.replay.next(subscriptions.Batch{}))) != nil {
		return
	}
	_ = g.push(ctx) // after an error, the client reopens the stream
}

// attach makes this the stream of its session, and requeues the messages of earlier streams that the client has not
// received. last is the id of the last event that the client received, if any. The caller must call detach when the
// stream has ended.
func (g *getStream) attach(last string) {
	ss := g.session
	ss.mu.Lock()
	before := ss.stream
	ss.stream = g
	ss.mu.Unlock()
	if before != nil {
		before.cancel(errReplaced)
		<-before.done
	}
	after, known := ss.replay.find(last)
	ss.sub.Restore(ss.replay.lost(after, known))
	if known {
		ss.messages.received(after)
	}
}

// detach removes the stream from its session.
func (g *getStream) detach() {
	g.session.mu.Lock()
	if g.session.stream == g {
		g.session.stream = nil
	}
	g.session.mu.Unlock()
	close(g.done)
}

// push sends the session's messages on this stream.
func (g *getStream) push(ctx context.Context) error {
	ss := g.session
	var last uint64 // number of this stream's last event
	p := g.pusher(ss.sub, func(what subscriptions.Batch) string {
		last = ss.replay.next(what)
		return ss.replay.id(last)
	})
	p.messages, p.sent = ss.messages, func(message []byte) { ss.messages.keep(message, last) }
	p.beat = func() error {
		ss.file.touch()
		return g.comment()
	}
	return p.run(ctx, nil)
}

// replayWindow limits how far back messages are repeated on a new stream without Last-Event-ID:
// about as long as a client takes to notice a dead stream.
const replayWindow = time.Minute

// replayLog records the last event that announced a change to each list and URI on a session's GET
// streams, so that a client whose stream broke receives again any change that it may have missed.
// It stores one entry per list and URI, but no event contents.
type replayLog struct {
	epoch string // prefix of all event ids; see session

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

// getMark separates the epoch from the number in the id of an event on a GET stream. Numbers increase across all
// streams of a session.
const getMark = "-get-"

// id returns the event id for an event number.
func (t *replayLog) id(n uint64) string { return t.epoch + getMark + strconv.FormatUint(n, 10) }

// next allocates the number for the next event. It records that the event announces the single list or URI in what;
// what is empty for any other message.
func (t *replayLog) next(what subscriptions.Batch) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	if what.Empty() {
		return t.last
	}
	key := topic{lists: what.Lists}
	if len(what.URIs) > 0 {
		key.uri = what.URIs[0]
	}
	if t.sent == nil {
		t.sent = make(map[topic]sentEvent)
	}
	t.sent[key] = sentEvent{t.last, time.Now()}
	return t.last
}

// forget removes a URI to which the client no longer subscribes.
func (t *replayLog) forget(uri string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sent, topic{uri: uri})
}

// find returns the number of the event with this id. known is false if no such event was sent.
func (t *replayLog) find(id string) (n uint64, known bool) {
	rest, ok := strings.CutPrefix(id, t.epoch+getMark)
	n, err := strconv.ParseUint(rest, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	return n, ok && err == nil && n <= t.last
}

// lost returns the lists and URIs that were announced after the event last, or within replayWindow if known is false.
func (t *replayLog) lost(last uint64, known bool) (b subscriptions.Batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var again []topic
	for what, e := range t.sent {
		if known && e.number > last || !known && time.Since(e.at) < replayWindow {
			again = append(again, what)
		}
	}
	sort.Slice(again, func(i, j int) bool { return t.sent[again[i]].number < t.sent[again[j]].number })
	for _, what := range again {
		if what.uri != "" {
			b.URIs = append(b.URIs, what.uri)
			continue
		}
		b.Lists = b.Lists.Or(what.lists)
	}
	return b
}
