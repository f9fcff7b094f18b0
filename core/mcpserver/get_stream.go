package mcpserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// maxGetStreams limits the open GET streams per session. Opening another stream closes the oldest.
const maxGetStreams = 4

var errReplaced = errors.New("the client has opened another stream")

// getStream is one GET stream of a session. A client may open several, or reconnect before the
// server notices that the first connection is dead. The newest stream sends the messages; the older
// ones send only heartbeats until it ends.
type getStream struct {
	*eventStream

	session *session
	number  int
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed after the stream has put back its unsent messages

	// resumed reports that the client resumes after an event of this stream, so it is known what the client has
	// received. Guarded by session.mu.
	resumed bool
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
	if ss.version >= mcp.LatestLegacy && g.prime(ss.replay.id(ss.replay.next(g.number, subscriptions.Batch{}))) != nil {
		return
	}
	for err := error(nil); err == nil; { // after an error, the client reopens the stream
		newest, until := g.turn()
		if newest {
			err = g.push(ctx, until)
		} else {
			err = g.wait(ctx, until)
		}
	}
}

// attach makes this the newest stream of its session, and requeues the messages of earlier streams
// that the client has not received. last is the id of the last event that the client received, if
// any; the stream of that event is considered lost. The caller must call detach when the stream has
// ended.
func (g *getStream) attach(last string) {
	ss := g.session
	after, known := ss.replay.find(last)
	ss.mu.Lock()
	var over *getStream
	if len(ss.streams) == maxGetStreams {
		over = ss.streams[0]
	}
	for _, other := range ss.streams {
		if known && other.number == after.stream {
			over, other.resumed = other, true
		}
	}
	ss.opened++
	g.number = ss.opened
	ss.streams = append(ss.streams, g)
	ss.nextTurn()
	ss.mu.Unlock()
	if over != nil {
		over.cancel(errReplaced)
		<-over.done
	}
	ss.mu.Lock()
	open := map[int]bool{}
	for _, other := range ss.streams {
		open[other.number] = true
	}
	ss.mu.Unlock()
	ss.sub.Restore(ss.replay.lost(after, known, func(stream int) bool { return open[stream] }))
	if known {
		ss.messages.received(after)
	}
}

// detach removes the stream from its session.
func (g *getStream) detach() {
	ss := g.session
	ss.mu.Lock()
	repeat := g.mustRepeat()
	ss.streams = slices.DeleteFunc(ss.streams, func(other *getStream) bool { return other == g })
	ss.nextTurn()
	ss.mu.Unlock()
	if repeat {
		ss.sub.Restore(ss.replay.sentOn(g.number))
	}
	close(g.done)
}

// mustRepeat reports whether a newer stream must send again what was announced on this one last, because the client
// has not said what of that it received. The caller must hold ss.mu.
func (g *getStream) mustRepeat() bool {
	return !g.resumed && g.session.streams[len(g.session.streams)-1] != g
}

// nextTurn wakes the session's streams so that each checks whether it is now the newest. The caller
// must hold ss.mu.
func (ss *session) nextTurn() {
	close(ss.turn)
	ss.turn = make(chan struct{})
}

// turn reports whether the stream is the newest. until is closed when that may have changed.
func (g *getStream) turn() (newest bool, until <-chan struct{}) {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	return g.session.streams[len(g.session.streams)-1] == g, g.session.turn
}

// push sends the session's messages on this stream.
func (g *getStream) push(ctx context.Context, until <-chan struct{}) error {
	ss := g.session
	var last eventNumber // number of this stream's last event
	p := g.pusher(ss.sub, func(what subscriptions.Batch) string {
		last = ss.replay.next(g.number, what)
		return ss.replay.id(last)
	})
	p.messages, p.sent = ss.messages, func(message []byte) { ss.messages.keep(message, last) }
	p.beat = func() error {
		ss.file.touch()
		return g.comment()
	}
	return p.run(ctx, until)
}

// wait sends only heartbeats while a newer stream sends the messages. The client may have opened it because it
// lost this one, so the newer stream repeats what was sent here last.
func (g *getStream) wait(ctx context.Context, until <-chan struct{}) error {
	ss := g.session
	ss.mu.Lock()
	repeat := g.mustRepeat()
	ss.mu.Unlock()
	if repeat {
		ss.sub.Restore(ss.replay.sentOn(g.number))
	}
	beats := time.NewTicker(g.srv.opts.Heartbeat)
	defer beats.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-until:
			return nil
		case <-beats.C:
			if err := g.comment(); err != nil {
				return err
			}
		}
	}
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
	eventNumber

	at time.Time
}

// eventNumber identifies an event on a GET stream. Event numbers increase across all streams of a
// session.
type eventNumber struct {
	stream int
	event  uint64
}

// getMark separates the epoch from the rest of the event id on GET streams.
const getMark = "-get-"

// id returns the event id for an event number.
func (t *replayLog) id(n eventNumber) string {
	return t.epoch + getMark + strconv.Itoa(n.stream) + "-" + strconv.FormatUint(n.event, 10)
}

// next allocates the number for the next event on a stream. It records that the event announces the
// single list or URI in what; what is empty for any other message.
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

// forget removes a URI to which the client no longer subscribes.
func (t *replayLog) forget(uri string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sent, topic{uri: uri})
}

// find returns the number of the event with this id. known is false if no such event was sent.
func (t *replayLog) find(id string) (n eventNumber, known bool) {
	rest, ok := strings.CutPrefix(id, t.epoch+getMark)
	stream, event, _ := strings.Cut(rest, "-")
	var badStream, badEvent error
	n.stream, badStream = strconv.Atoi(stream)
	n.event, badEvent = strconv.ParseUint(event, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	return n, ok && badStream == nil && badEvent == nil && n.event <= t.last
}

// lost returns the lists and URIs that were announced on streams that are no longer open: after the
// event last, or within replayWindow if known is false.
func (t *replayLog) lost(last eventNumber, known bool, open func(stream int) bool) subscriptions.Batch {
	return t.batch(func(e sentEvent) bool {
		return !open(e.stream) && (known && e.event > last.event || !known && time.Since(e.at) < replayWindow)
	})
}

// sentOn returns the lists and URIs that were announced on a stream within replayWindow.
func (t *replayLog) sentOn(stream int) subscriptions.Batch {
	return t.batch(func(e sentEvent) bool { return e.stream == stream && time.Since(e.at) < replayWindow })
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
	sort.Slice(again, func(i, j int) bool { return t.sent[again[i]].event < t.sent[again[j]].event })
	for _, what := range again {
		if what.uri != "" {
			b.URIs = append(b.URIs, what.uri)
			continue
		}
		b.Lists = b.Lists.Or(what.lists)
	}
	return b
}
