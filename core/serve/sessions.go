package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/fair"
	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// sessions holds the legacy HTTP sessions of a server.
type sessions struct {
	srv *Server

	mu   sync.Mutex
	byID map[string]*session
	room fair.Limit
}

// session is one legacy HTTP client. It ends by DELETE, when it is idle for too long, when its
// principal opens more than it may have, or with the server.
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
	// messages are those for the GET stream that belong to no request.
	messages *mailbox

	// Guarded by sessions.mu.
	users int // requests in progress, including the GET stream
	idle  *time.Timer
	used  time.Time // when users became 0

	mu     sync.Mutex
	stream *attached // nil: none is open
}

// attached is the GET stream of a session.
type attached struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the stream has put back what it could not send
}

var (
	errSessionEnded = errors.New("the session has ended")
	errReplaced     = errors.New("the client has opened another stream")
)

func (h *sessions) start(s *Server) {
	h.srv, h.byID, h.room.Max = s, make(map[string]*session), s.opts.MaxSessions
}

// open creates a session. It counts as in use until the caller calls release.
func (h *sessions) open(version, principal string, m *message) (*session, error) {
	sub, err := h.srv.subs.OpenFor(principal, h.srv.opts.listsOffered())
	if err != nil {
		return nil, err
	}
	ss := &session{id: rand.Text(), version: version, principal: principal, sub: sub, users: 1}
	ss.ctx, ss.end = context.WithCancelCause(h.srv.ctx)
	ss.messages = newMailbox(maxAsked)
	ss.client = newClient(ss.ctx, ss.ctx, m, ss.queue)
	ss.client.drop = ss.messages.drop
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.room.Take(principal) {
		if !h.makeRoom(principal) {
			ss.close(errSessionEnded)
			return nil, errors.New("too many sessions with these credentials are in use")
		}
	}
	ss.idle = time.AfterFunc(h.srv.opts.SessionIdle, func() { h.expire(ss) })
	h.byID[ss.id] = ss
	return ss, nil
}

// use returns the session with this id, which counts as in use until the caller calls
// release. It returns nil if there is none, or if it belongs to another principal.
func (h *sessions) use(id, principal string) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	ss := h.byID[id]
	if ss == nil || ss.principal != principal {
		return nil
	}
	ss.users++
	ss.idle.Stop()
	return ss
}

func (h *sessions) release(ss *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ss.users--; ss.users == 0 && h.byID[ss.id] == ss {
		ss.used = time.Now()
		ss.idle.Reset(h.srv.opts.SessionIdle)
	}
}

// remove ends a session.
func (h *sessions) remove(ss *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(ss)
}

func (h *sessions) drop(ss *session) {
	if h.byID[ss.id] != ss {
		return // two requests ended it
	}
	delete(h.byID, ss.id)
	h.room.Give(ss.principal)
	ss.idle.Stop()
	ss.close(errSessionEnded)
}

// expire ends a session that was idle for long enough. A request may have begun to use
// it while the timer fired.
func (h *sessions) expire(ss *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ss.users == 0 && h.byID[ss.id] == ss && time.Since(ss.used) >= h.srv.opts.SessionIdle {
		h.drop(ss)
	}
}

// makeRoom ends the session of a principal that has been idle for longest; its client starts a
// new one with its next request. It reports false if none is idle. h.mu must be held.
func (h *sessions) makeRoom(principal string) bool {
	var oldest *session
	for _, ss := range h.byID {
		if ss.users == 0 && ss.principal == principal && (oldest == nil || ss.used.Before(oldest.used)) {
			oldest = ss
		}
	}
	if oldest != nil {
		h.drop(oldest)
	}
	return oldest != nil
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
	defer h.mu.Unlock()
	for _, ss := range h.byID {
		h.drop(ss)
	}
}

// queue queues a message for the GET stream, if there is one.
func (ss *session) queue(message []byte) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.stream != nil && ss.messages.put(message, "")
}

func (ss *session) close(why error) {
	ss.end(why)
	ss.sub.Close()
}

// attach makes a stream, which cancel ends, the GET stream of the session and ends the
// previous one: a client opens another stream when it has lost the first, possibly before
// the server notices. attach returns when the previous stream has put back what it did not
// send. The caller must call detach when its stream has ended.
func (ss *session) attach(cancel context.CancelCauseFunc) (detach func()) {
	mine := &attached{cancel: cancel, done: make(chan struct{})}
	ss.mu.Lock()
	previous := ss.stream
	ss.stream = mine
	ss.mu.Unlock()
	if previous != nil {
		previous.cancel(errReplaced)
		<-previous.done
	}
	return func() {
		ss.mu.Lock()
		if ss.stream == mine {
			ss.stream = nil
		}
		ss.mu.Unlock()
		close(mine.done)
	}
}
