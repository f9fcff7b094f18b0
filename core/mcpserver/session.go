package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// session is the session of one legacy HTTP client. It ends permanently when the client sends
// DELETE. It is removed from memory when it has been idle for too long, when its principal exceeds
// its limit, and when the server closes. If it is stored in a file, the client's next request
// restores it; otherwise it has then ended.
type session struct {
	id        string
	version   string
	principal string
	sub       *subscriptions.Subscriber
	ctx       context.Context // done when the session ends or leaves memory
	end       context.CancelCauseFunc
	inFlight  inFlight
	replay    replayLog
	calls     callStreams
	client    *Client
	file      *sessionFile // nil if the session is not stored
	// messages contains the messages to the client that are unrelated to any request, for the GET
	// streams.
	messages *mailbox

	// Guarded by sessions.mu.
	users int // number of requests in progress, including the GET stream
	idle  *time.Timer
	used  time.Time // time at which users became 0

	mu     sync.Mutex
	stream *getStream // the open GET stream; nil if there is none
	// seen contains, by method, the digest of each list as the client saw it last.
	seen map[string]string

	subscribing sync.Mutex // guards waiting and serializes changes to the subscriptions
	// waiting contains the URIs of a restored session to which it cannot subscribe yet, perhaps
	// because their server is not connected.
	waiting map[string]struct{}
}

var errSessionEnded = errors.New("the session has ended")

// openSession creates a session. The session counts as in use until the caller calls
// releaseSession.
func (s *Server) openSession(version, principal, name string, capabilities json.RawMessage) (*session, error) {
	ss, err := s.newSession(rand.Text(), version, principal, name, capabilities)
	if err != nil {
		return nil, err
	}
	ss.file = s.stored.create(ss)
	added, err := s.addSession(ss)
	if err != nil {
		ss.file.remove()
	}
	return added, err
}

func (s *Server) newSession(id, version, principal, name string, capabilities json.RawMessage) (*session, error) {
	sub, err := s.subs.Open(principal, s.opts.listsOffered())
	if err != nil {
		return nil, err
	}
	ss := &session{id: id, version: version, principal: principal, sub: sub, users: 1, messages: newMailbox(maxAsked)}
	epoch := rand.Text()[:8]
	ss.replay.epoch, ss.calls.epoch = epoch, epoch
	ss.ctx, ss.end = context.WithCancelCause(s.ctx)
	ss.client = newClient(ss.ctx, ss.ctx, name, nameDigest(id)[:8], capabilities, ss.queue)
	ss.client.drop = ss.messages.drop
	s.connected(ss.client)
	ss.client.remember = func() { ss.file.add(ss, sessionRecord{Memory: ss.client.Remembered()}) }
	return ss, nil
}

// addSession registers a session and returns it. If another request has meanwhile registered a
// session with the same id, it returns that session instead. The caller must call releaseSession.
func (s *Server) addSession(ss *session) (*session, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if known := s.sessions.byID[ss.id]; known != nil {
		ss.close()
		known.users++
		known.idle.Stop()
		return known, nil
	}
	for !s.sessions.room.Take(ss.principal) {
		oldest := s.idleLongest(ss.principal)
		if oldest == nil {
			ss.close()
			return nil, errors.New("too many sessions with these credentials are in use")
		}
		s.dropSession(oldest)
	}
	ss.idle = time.AfterFunc(s.opts.SessionIdle, func() { s.expireSession(ss) })
	s.sessions.byID[ss.id] = ss
	return ss, nil
}

// useSession returns the session with this id, which counts as in use until the caller calls
// releaseSession. It returns nil if there is no such session or if it belongs to another principal.
func (s *Server) useSession(id, principal string) (*session, error) {
	s.sessions.mu.Lock()
	ss := s.sessions.byID[id]
	if ss == nil {
		s.sessions.mu.Unlock()
		return s.restoreSession(id, principal)
	}
	defer s.sessions.mu.Unlock()
	if ss.principal != principal {
		return nil, nil
	}
	ss.users++
	ss.idle.Stop()
	return ss, nil
}

// restoreSession loads a session that is stored on disk but not in memory. It notifies the client
// of each list that differs from the one that the client saw last, and of all resources to which
// the client subscribes, because they may have changed.
func (s *Server) restoreSession(id, principal string) (*session, error) {
	file, was, uris := s.stored.take(id, principal)
	if file == nil {
		return nil, nil
	}
	ss, err := s.newSession(id, was.Version, principal, was.Client, was.Capabilities)
	if err != nil {
		return nil, err
	}
	ss.file, ss.seen, ss.waiting = file, was.Seen, uris
	ss.client.memory = was.Memory
	ss.sub.Restore(subscriptions.Batch{Lists: s.lists.changedSince(was.Seen)})
	added, err := s.addSession(ss)
	if err == nil {
		added.subscribeAgain()
	}
	return added, err
}

func (s *Server) releaseSession(ss *session) {
	s.sessions.mu.Lock()
	if ss.users--; ss.users == 0 && s.sessions.byID[ss.id] == ss {
		ss.used = time.Now()
		ss.idle.Reset(s.opts.SessionIdle)
	}
	s.sessions.mu.Unlock()
	ss.file.touch()
}

// endSession ends a session permanently.
func (s *Server) endSession(ss *session) {
	ss.file.remove()
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	s.dropSession(ss)
}

// dropSession removes a session from memory. The caller must hold s.sessions.mu.
func (s *Server) dropSession(ss *session) {
	if s.sessions.byID[ss.id] != ss {
		return // another request has already removed it
	}
	delete(s.sessions.byID, ss.id)
	s.sessions.room.Give(ss.principal)
	ss.idle.Stop()
	ss.close()
}

// expireSession drops a session that has been idle for too long, unless a request started to use it
// when the timer fired.
func (s *Server) expireSession(ss *session) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if ss.users == 0 && s.sessions.byID[ss.id] == ss && time.Since(ss.used) >= s.opts.SessionIdle {
		s.dropSession(ss)
	}
}

// idleLongest returns the principal's session that has been idle longest, or nil if none is idle.
// Once it is dropped, the client's next request restores it or starts a new session. The caller
// must hold s.sessions.mu.
func (s *Server) idleLongest(principal string) *session {
	var oldest *session
	for _, ss := range s.sessions.byID {
		if ss.users == 0 && ss.principal == principal && (oldest == nil || ss.used.Before(oldest.used)) {
			oldest = ss
		}
	}
	return oldest
}

// resubscribe retries the waiting subscriptions of all sessions after the catalog has changed.
func (s *Server) resubscribe() {
	if s.stored == nil {
		return
	}
	s.sessions.mu.Lock()
	all := slices.Collect(maps.Values(s.sessions.byID))
	s.sessions.mu.Unlock()
	for _, ss := range all {
		ss.subscribeAgain()
	}
}

// EndSessions ends the legacy HTTP sessions of all principals for which holds returns false, and
// cancels their requests in flight. Sessions of clients without credentials continue.
func (s *Server) EndSessions(holds func(principal string) bool) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, ss := range s.sessions.byID {
		if ss.principal != "" && !holds(ss.principal) {
			s.dropSession(ss)
		}
	}
}

func (s *Server) closeSessions() {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, ss := range s.sessions.byID {
		s.dropSession(ss)
	}
}

// queue queues a message for the GET stream. It reports false if there is no GET stream or
// the queue is full.
func (ss *session) queue(message []byte) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.stream != nil && ss.messages.put(message, "")
}

func (ss *session) close() {
	ss.end(errSessionEnded)
	ss.sub.Close()
}

// subscribe executes a resources/subscribe or resources/unsubscribe request and returns the encoded
// response.
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
		ss.file.add(ss, sessionRecord{Remove: uri})
	} else if there {
		ss.file.add(ss, sessionRecord{Add: uri})
	}
	return reply
}

// subscribeAgain retries the subscriptions to the waiting URIs. It notifies the client of the
// resources for which it succeeds, because they may have changed.
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

// saw records the digest of a list that was sent to the client.
func (ss *session) saw(method, digest string) {
	ss.mu.Lock()
	known := ss.seen[method]
	if ss.seen == nil {
		ss.seen = map[string]string{}
	}
	ss.seen[method] = digest
	ss.mu.Unlock()
	if known != digest {
		ss.file.add(ss, sessionRecord{Seen: map[string]string{method: digest}})
	}
}

// records returns the complete content of the session's file.
func (ss *session) records() []sessionRecord {
	ss.mu.Lock()
	seen := maps.Clone(ss.seen)
	ss.mu.Unlock()
	all := []sessionRecord{{Version: ss.version, Client: ss.client.name, Capabilities: ss.client.Capabilities, Seen: seen, Memory: ss.client.Remembered()}}
	ss.subscribing.Lock()
	defer ss.subscribing.Unlock()
	for _, uri := range slices.Concat(ss.sub.URIs(), slices.Collect(maps.Keys(ss.waiting))) {
		all = append(all, sessionRecord{Add: uri})
	}
	return all
}

// legacy handles a message of the legacy era.
func (x *exchange) legacy() {
	if x.m.method == mcp.MethodInitialize && x.m.id != nil {
		x.initialize()
		return
	}
	ss := x.session()
	if ss == nil {
		return
	}
	defer x.srv.releaseSession(ss)
	m := x.m
	from := caller{version: ss.version, principal: x.principal, identity: x.identity, client: ss.client, sub: ss.sub}
	if ss.file != nil {
		from.saw = ss.saw
	}
	switch {
	case m.id == nil || m.isAnswer(): // nothing to answer
		if m.method == mcp.NotificationCancelled {
			ss.inFlight.cancel(m.fields["requestId"])
		} else {
			x.srv.receive(ss.client, m)
		}
		x.w.WriteHeader(http.StatusAccepted)
	case !x.srv.offers(m.method, false):
		x.result(from)
	case m.method == mcp.MethodSubscribe || m.method == mcp.MethodUnsubscribe:
		x.reply(http.StatusOK, ss.subscribe(m))
	case x.srv.fromMemory(m.method):
		x.result(from)
	default:
		// The parent context is the session's, because a lost connection does not cancel the
		// request.
		ctx, end, ok := ss.inFlight.begin(ss.ctx, m.id)
		if !ok {
			x.fail(http.StatusOK, errDuplicateID())
			return
		}
		defer end()
		if m.method == mcp.MethodStreamEvents && x.srv.opts.Events.offered() {
			x.streamEvents(ctx, from)
			return
		}
		var calls *callStreams // nil if the client cannot resume streams
		if ss.version >= mcp.LatestLegacy && accepts(x.r, typeEvents) {
			calls = &ss.calls
		}
		x.runFunc(ctx, from, calls, end)
	}
}

func (x *exchange) initialize() {
	version, result, failed := x.srv.initialized(x.r.Context(), x.m)
	if failed != nil {
		x.fail(http.StatusOK, failed)
		return
	}
	ss, err := x.srv.openSession(version, x.principal, clientName(x.m.fields["clientInfo"]), x.m.fields["capabilities"])
	if err != nil {
		x.busy(err)
		return
	}
	defer x.srv.releaseSession(ss)
	x.w.Header().Set(mcp.HeaderSession, ss.id)
	x.reply(http.StatusOK, answer(x.m.id, result, nil))
}

// busy responds that no further session can be opened at the moment.
func (x *exchange) busy(err error) {
	x.w.Header().Set("Retry-After", "1")
	x.fail(http.StatusServiceUnavailable, errorf(mcp.CodeInternal, "%s", err))
}

// session returns the session to which the request belongs, which counts as in use until the caller
// releases it. If there is no such session, it responds with an error and returns nil.
func (x *exchange) session() *session {
	name, ok := single(x.r, mcp.HeaderSession)
	if !ok || name == "" {
		x.fail(http.StatusBadRequest, errorf(mcp.CodeInvalidRequest,
			"no %s: initialize first, or send %q in params._meta", mcp.HeaderSession, mcp.MetaProtocolVersion))
		return nil
	}
	if version, ok := single(x.r, mcp.HeaderProtocolVersion); !ok || version != "" && !mcp.IsLegacy(version) {
		x.fail(http.StatusBadRequest, &Error{
			Code: mcp.CodeUnsupportedVersion, Message: "unsupported protocol version",
			Data: map[string]any{"supported": mcp.Versions(), "requested": bounded(version)},
		})
		return nil
	}
	ss, err := x.srv.useSession(name, x.principal)
	switch {
	case err != nil:
		x.busy(err)
	case ss == nil:
		x.fail(http.StatusNotFound, errorf(mcp.CodeSessionUnknown, "session not found"))
	}
	return ss
}

// rejectModern rejects a modern request whose HTTP method exists only in the legacy era. It reports
// whether it rejected the request.
func (x *exchange) rejectModern() bool {
	if x.r.Header.Get(mcp.HeaderProtocolVersion) != mcp.ModernVersion {
		return false
	}
	x.w.Header().Set("Allow", "POST")
	http.Error(x.w, x.r.Method+" is not part of this protocol version", http.StatusMethodNotAllowed)
	return true
}

// delete ends a legacy session.
func (x *exchange) delete() {
	if x.rejectModern() {
		return
	}
	ss := x.session()
	if ss == nil {
		return
	}
	defer x.srv.releaseSession(ss)
	x.srv.endSession(ss)
	x.w.WriteHeader(http.StatusNoContent)
}
