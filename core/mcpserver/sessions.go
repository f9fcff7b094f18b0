package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// sessions holds the legacy HTTP sessions of a server.
type sessions struct {
	srv  *Server
	kept *keptSessions // nil: sessions end with the server

	mu   sync.Mutex
	byID map[string]*session
	room fair.Limit
}

// session is one legacy HTTP client. It ends by DELETE. It also leaves memory when it is idle for
// too long, when its principal opens more than it may have, and with the server: then it ends,
// too, unless it is kept in a file, from which the next request of the client takes it over.
type session struct {
	id        string
	version   string
	principal string
	sub       *subscriptions.Subscriber
	ctx       context.Context // cancelled when the session ends
	end       context.CancelCauseFunc
	inFlight  inFlight
	replay    replayLog
	calls     callStreams
	client    *Client
	file      *keptFile // nil: the session is not kept
	// messages are those for the GET streams that belong to no request.
	messages *mailbox

	// Guarded by sessions.mu.
	users int // requests in progress, including the GET streams
	idle  *time.Timer
	used  time.Time // when users became 0

	mu      sync.Mutex
	streams []*getStream // open, the newest last: it gets the messages
	opened  int          // number of the last stream
	turn    chan struct{}
	// seen are the digests of the lists that the client has seen last, by method.
	seen map[string]string

	subscribing sync.Mutex // guards waiting, and orders what changes the subscriptions
	// waiting are URIs that the client subscribed to before the session was taken over and that
	// cannot be subscribed to now, perhaps because their server is not there yet.
	waiting map[string]struct{}
}

var errSessionEnded = errors.New("the session has ended")

func (h *sessions) start(s *Server) {
	h.srv, h.byID, h.room.Max = s, make(map[string]*session), s.opts.MaxSessions
	if s.opts.SessionDir != "" {
		h.kept = openKept(s.opts.SessionDir, 2*s.opts.MaxSessions, s.opts.Logger)
	}
}

// open creates a session. It counts as in use until the caller calls release.
func (h *sessions) open(version, principal string, capabilities json.RawMessage) (*session, error) {
	ss, err := h.newSession(rand.Text(), version, principal, capabilities)
	if err != nil {
		return nil, err
	}
	if ss.file = h.kept.create(ss); ss.file != nil {
		ss.client.remember = func() { ss.file.add(keptLine{Memory: ss.client.Remembered()}, ss.lines) }
	}
	added, err := h.add(ss)
	if err != nil {
		ss.file.remove()
	}
	return added, err
}

func (h *sessions) newSession(id, version, principal string, capabilities json.RawMessage) (*session, error) {
	sub, err := h.srv.subscriber(principal, capabilities, h.srv.opts.listsOffered())
	if err != nil {
		return nil, err
	}
	ss := &session{id: id, version: version, principal: principal, sub: sub, users: 1, turn: make(chan struct{}), messages: newMailbox(maxAsked)}
	epoch := rand.Text()[:8]
	ss.replay.epoch, ss.calls.epoch = epoch, epoch
	ss.ctx, ss.end = context.WithCancelCause(h.srv.ctx)
	ss.client = newClient(ss.ctx, ss.ctx, capabilities, ss.queue)
	ss.client.drop = ss.messages.drop
	return ss, nil
}

// add makes a session known, and returns it, or the one with the same id that another request has
// added meanwhile. The caller must call release.
func (h *sessions) add(ss *session) (*session, error) {
	h.mu.Lock()
	var gone []*session
	added, err := h.addLocked(ss, &gone)
	h.mu.Unlock()
	for _, ss := range gone {
		h.kept.park(ss.file)
	}
	if added != ss {
		ss.close(errSessionEnded)
	}
	return added, err
}

func (h *sessions) addLocked(ss *session, gone *[]*session) (*session, error) {
	if known := h.byID[ss.id]; known != nil {
		known.users++
		known.idle.Stop()
		return known, nil
	}
	for !h.room.Take(ss.principal) {
		oldest := h.idleLongest(ss.principal)
		if oldest == nil {
			return nil, errors.New("too many sessions with these credentials are in use")
		}
		h.drop(oldest)
		*gone = append(*gone, oldest)
	}
	ss.idle = time.AfterFunc(h.srv.opts.SessionIdle, func() { h.expire(ss) })
	h.byID[ss.id] = ss
	return ss, nil
}

// use returns the session with this id, which counts as in use until the caller calls
// release. It returns nil if there is none, or if it belongs to another principal.
func (h *sessions) use(id, principal string) (*session, error) {
	h.mu.Lock()
	ss := h.byID[id]
	if ss != nil && ss.principal == principal {
		ss.users++
		ss.idle.Stop()
	}
	h.mu.Unlock()
	switch {
	case ss == nil:
		return h.takeOver(id, principal)
	case ss.principal != principal:
		return nil, nil
	}
	return ss, nil
}

// takeOver continues a session that is kept, but not in memory. Its client is notified of the lists
// that are no longer what it saw, and of all resources that it is subscribed to, as they may have
// changed.
func (h *sessions) takeOver(id, principal string) (*session, error) {
	file, was := h.kept.take(id, principal)
	if file == nil {
		return nil, nil
	}
	ss, err := h.newSession(id, was.version, principal, was.capabilities)
	if err != nil {
		h.kept.park(file)
		return nil, err
	}
	ss.file, ss.seen, ss.waiting = file, was.seen, was.uris
	ss.client.memory = was.memory
	ss.client.remember = func() { ss.file.add(keptLine{Memory: ss.client.Remembered()}, ss.lines) }
	changed, same := h.srv.lists.changedSince(was.seen, ss.sub.Variant())
	ss.sub.Listed(same)
	ss.sub.Restore(subscriptions.Batch{Lists: changed})
	added, err := h.add(ss)
	if err != nil {
		h.kept.park(file)
		return nil, err
	}
	added.subscribeAgain()
	return added, nil
}

func (h *sessions) release(ss *session) {
	h.mu.Lock()
	if ss.users--; ss.users == 0 && h.byID[ss.id] == ss {
		ss.used = time.Now()
		ss.idle.Reset(h.srv.opts.SessionIdle)
	}
	h.mu.Unlock()
	ss.file.touch()
}

// remove ends a session for good.
func (h *sessions) remove(ss *session) {
	h.mu.Lock()
	h.drop(ss)
	h.mu.Unlock()
	ss.file.remove()
}

// drop takes a session out of memory. h.mu must be held.
func (h *sessions) drop(ss *session) {
	if h.byID[ss.id] != ss {
		return // two requests ended it
	}
	delete(h.byID, ss.id)
	h.room.Give(ss.principal)
	ss.idle.Stop()
	ss.close(errSessionEnded)
}

// expire drops a session that was idle for long enough. A request may have begun to use
// it while the timer fired.
func (h *sessions) expire(ss *session) {
	h.mu.Lock()
	over := ss.users == 0 && h.byID[ss.id] == ss && time.Since(ss.used) >= h.srv.opts.SessionIdle
	if over {
		h.drop(ss)
	}
	h.mu.Unlock()
	if over {
		h.kept.park(ss.file)
	}
}

// idleLongest returns the session of a principal that has been idle for longest; its client starts
// a new one with its next request, or takes it over. It returns nil if none is idle. h.mu must be
// held.
func (h *sessions) idleLongest(principal string) *session {
	var oldest *session
	for _, ss := range h.byID {
		if ss.users == 0 && ss.principal == principal && (oldest == nil || ss.used.Before(oldest.used)) {
			oldest = ss
		}
	}
	return oldest
}

// catalogSet is called after the catalog was set: what could not be subscribed to may be there now.
func (h *sessions) catalogSet() {
	if h.kept == nil {
		return
	}
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.byID))
	h.mu.Unlock()
	for _, ss := range all {
		ss.subscribeAgain()
	}
}

// EndSessions ends the legacy HTTP sessions of principals that are not held any more, with what is
// in progress in them. Those of clients without credentials stay.
func (s *Server) EndSessions(holds func(principal string) bool) {
	s.http.mu.Lock()
	defer s.http.mu.Unlock()
	for _, ss := range s.http.byID {
		if ss.principal != "" && !holds(ss.principal) {
			s.http.drop(ss)
		}
	}
}

func (h *sessions) close() {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.byID))
	for _, ss := range all {
		h.drop(ss)
	}
	h.mu.Unlock()
	for _, ss := range all {
		ss.file.used()
	}
}

// queue queues a message for the newest GET stream, if there is one.
func (ss *session) queue(message []byte) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.streams) > 0 && ss.messages.put(message, "")
}

func (ss *session) close(why error) {
	ss.end(why)
	ss.sub.Close()
}

// subscribe executes resources/subscribe and resources/unsubscribe, and returns the encoded answer.
func (ss *session) subscribe(m *message) []byte {
	uri := text(m.fields["uri"])
	if m.method == mcp.MethodUnsubscribe {
		ss.replay.forget(uri)
	}
	ss.subscribing.Lock()
	reply := subscribe(ss.sub, m)
	there := ss.sub.Has(uri)
	if there || m.method == mcp.MethodUnsubscribe {
		delete(ss.waiting, uri)
	}
	ss.subscribing.Unlock()
	if m.method == mcp.MethodUnsubscribe {
		ss.file.add(keptLine{Remove: uri}, ss.lines)
	} else if there {
		ss.file.add(keptLine{Add: uri}, ss.lines)
	}
	return reply
}

// subscribeAgain subscribes to the URIs that wait, and notifies the client of those for which that
// succeeded: they may have changed.
func (ss *session) subscribeAgain() {
	ss.subscribing.Lock()
	defer ss.subscribing.Unlock()
	var again []string
	for _, uri := range slices.Sorted(maps.Keys(ss.waiting)) {
		if ss.sub.Add(uri) == nil {
			delete(ss.waiting, uri)
			again = append(again, uri)
		}
	}
	ss.sub.Restore(subscriptions.Batch{URIs: again})
}

// saw records that the client was sent a list with this digest.
func (ss *session) saw(method, digest string) {
	ss.mu.Lock()
	known := ss.seen[method]
	if ss.seen == nil {
		ss.seen = map[string]string{}
	}
	ss.seen[method] = digest
	ss.mu.Unlock()
	if known != digest {
		ss.file.add(keptLine{Seen: map[string]string{method: digest}}, ss.lines)
	}
}

// lines are what is kept of the session.
func (ss *session) lines() []keptLine {
	ss.mu.Lock()
	seen := maps.Clone(ss.seen)
	ss.mu.Unlock()
	all := []keptLine{{Version: ss.version, Capabilities: ss.client.Capabilities, Seen: seen, Memory: ss.client.Remembered()}}
	ss.subscribing.Lock()
	defer ss.subscribing.Unlock()
	for _, uri := range slices.Concat(ss.sub.URIs(), slices.Collect(maps.Keys(ss.waiting))) {
		all = append(all, keptLine{Add: uri})
	}
	return all
}
