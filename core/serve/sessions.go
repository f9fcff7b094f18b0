package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// sessions are the legacy HTTP sessions of a server.
type sessions struct {
	srv *Server

	mu   sync.Mutex
	byID map[string]*session
}

// session is one client of the initialize era over HTTP. It ends by DELETE, when
// it is idle, when it has to make room, or with the server.
type session struct {
	id        string
	version   string
	principal string
	sub       *subscriptions.Subscriber
	ctx       context.Context // done when the session ends
	end       context.CancelCauseFunc
	inWork    inWork
	told      told

	// Guarded by sessions.mu.
	users int // requests and the stream
	idle  *time.Timer
	used  time.Time // when users became 0

	mu     sync.Mutex
	stream *attached
}

// attached is the GET stream of a session.
type attached struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the stream has put back what it did not send
}

var (
	errSessionEnded = errors.New("the session has ended")
	errReplaced     = errors.New("the client has opened another stream")
)

func (h *sessions) start(s *Server) { h.srv, h.byID = s, make(map[string]*session) }

// open makes a session, in use by the caller, who calls release.
func (h *sessions) open(version, principal string) (*session, error) {
	sub, err := h.srv.subs.Open(h.srv.listsOffered())
	if err != nil {
		return nil, err
	}
	ss := &session{id: rand.Text(), version: version, principal: principal, sub: sub, users: 1}
	ss.ctx, ss.end = context.WithCancelCause(h.srv.ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.byID) >= h.srv.opts.MaxSessions && !h.makeRoom() {
		ss.close(errSessionEnded)
		return nil, errors.New("too many sessions")
	}
	ss.idle = time.AfterFunc(h.srv.opts.SessionIdle, func() { h.expire(ss) })
	h.byID[ss.id] = ss
	return ss, nil
}

// use finds a session of the principal and keeps it until release. A session of
// somebody else is as good as none.
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
	delete(h.byID, ss.id)
	ss.idle.Stop()
	ss.close(errSessionEnded)
}

// expire runs when nobody used the session for long enough, or just begins to.
func (h *sessions) expire(ss *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ss.users == 0 && h.byID[ss.id] == ss && time.Since(ss.used) >= h.srv.opts.SessionIdle {
		h.drop(ss)
	}
}

// makeRoom ends the session that has been idle for longest; its client begins a
// new one with its next request. It reports false if none is idle.
func (h *sessions) makeRoom() bool {
	var oldest *session
	for _, ss := range h.byID {
		if ss.users == 0 && (oldest == nil || ss.used.Before(oldest.used)) {
			oldest = ss
		}
	}
	if oldest != nil {
		h.drop(oldest)
	}
	return oldest != nil
}

func (h *sessions) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ss := range h.byID {
		h.drop(ss)
	}
}

func (ss *session) close(why error) {
	ss.end(why)
	ss.sub.Close()
}

// attach makes a stream the one of the session and ends the one before: the
// client opens another because it lost that, maybe before we know. It returns when
// the one before has put back what it did not send. The caller calls detach.
func (ss *session) attach(cancel context.CancelCauseFunc) (detach func()) {
	mine := &attached{cancel: cancel, done: make(chan struct{})}
	ss.mu.Lock()
	before := ss.stream
	ss.stream = mine
	ss.mu.Unlock()
	if before != nil {
		before.cancel(errReplaced)
		<-before.done
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
