package serve

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// codeSession is the code with which the SDKs answer requests of an unknown session.
const codeSession = -32001

// legacy serves a message of the legacy era.
func (x *exchange) legacy() {
	if x.m.method == mcp.MethodInitialize && x.m.id != nil {
		x.initialize()
		return
	}
	ss := x.session(true)
	if ss == nil {
		return
	}
	defer x.srv.http.release(ss)
	m := x.m
	from := caller{version: ss.version, principal: x.principal, identity: x.identity, client: ss.client}
	switch {
	case m.id == nil || m.isAnswer(): // not answered
		if m.method == mcp.NotificationCancelled {
			ss.inFlight.cancel(m.fields["requestId"])
		} else {
			ss.client.receive(m)
		}
		x.w.WriteHeader(http.StatusAccepted)
	case !x.srv.opts.offers(m.method, false, x.srv.about.Load()):
		x.result(from)
	case m.method == mcp.MethodSubscribe || m.method == mcp.MethodUnsubscribe:
		if m.method == mcp.MethodUnsubscribe {
			ss.replay.forget(text(m.fields["uri"]))
		}
		x.reply(http.StatusOK, subscribe(ss.sub, m))
	case fromMemory(m.method):
		x.result(from)
	default:
		// The parent is the session: a lost connection does not cancel the request.
		ctx, end, ok := ss.inFlight.begin(ss.ctx, m.id)
		if !ok {
			x.fail(http.StatusOK, m.id, errDuplicateID())
			return
		}
		defer end()
		if m.method == mcp.MethodStreamEvents && x.srv.opts.Events.offered() {
			x.streamEvents(ctx, from)
			return
		}
		var call *callStream
		if ss.version >= mcp.LatestLegacy && accepts(x.r, typeEvents) {
			call = ss.calls.begin(m.id)
			defer ss.calls.end(call)
		}
		x.runFunc(ctx, from, call)
	}
}

func (x *exchange) initialize() {
	version, result, failed := x.srv.identity().initialized(x.m)
	if failed != nil {
		x.fail(http.StatusOK, x.m.id, failed)
		return
	}
	ss, err := x.srv.http.open(version, x.principal, x.m)
	if err != nil {
		x.w.Header().Set("Retry-After", "1")
		x.fail(http.StatusServiceUnavailable, x.m.id, errorf(mcp.CodeInternal, "%s", err))
		return
	}
	defer x.srv.http.release(ss)
	x.w.Header().Set(mcp.HeaderSession, ss.id)
	x.reply(http.StatusOK, answer(x.m.id, result, nil))
}

// session returns the session of a request, in use until the caller releases it. If
// there is none, it answers the request with the reason and returns nil. body says
// whether the request has a JSON-RPC body, whose id the answer carries.
func (x *exchange) session(body bool) *session {
	var id json.RawMessage
	if body {
		id = x.m.id
	}
	name, ok := single(x.r, mcp.HeaderSession)
	if !ok || name == "" {
		x.fail(http.StatusBadRequest, id, errorf(mcp.CodeInvalidRequest,
			"no %s: initialize first, or send %q in params._meta", mcp.HeaderSession, mcp.MetaProtocolVersion))
		return nil
	}
	if version, ok := single(x.r, mcp.HeaderProtocolVersion); !ok || version != "" && !mcp.IsLegacy(version) {
		x.fail(http.StatusBadRequest, id, &Error{
			Code: mcp.CodeUnsupportedVersion, Message: "unsupported protocol version",
			Data: map[string]any{"supported": mcp.Versions(), "requested": bounded(version)},
		})
		return nil
	}
	ss := x.srv.http.use(name, x.principal)
	if ss == nil {
		x.fail(http.StatusNotFound, id, errorf(codeSession, "session not found"))
	}
	return ss
}

// rejectModern rejects a request of the modern era whose HTTP method only the legacy era has,
// and reports whether it did.
func rejectModern(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get(mcp.HeaderProtocolVersion) != mcp.ModernVersion {
		return false
	}
	w.Header().Set("Allow", "POST")
	http.Error(w, r.Method+" is not part of this protocol version", http.StatusMethodNotAllowed)
	return true
}

// get serves the GET stream of a legacy session.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if rejectModern(w, r) {
		return
	}
	if !accepts(r, typeEvents) {
		http.Error(w, "the Accept header must include "+typeEvents, http.StatusNotAcceptable)
		return
	}
	x := &exchange{srv: s, w: w, r: r, rc: http.NewResponseController(w), principal: s.principal(r)}
	ss := x.session(false)
	if ss == nil {
		return
	}
	defer s.http.release(ss)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// A client that does not read must not delay the end of its session, nor the stream
	// that replaces this one.
	defer context.AfterFunc(ss.ctx, func() { cancel(errSessionEnded) })()
	defer context.AfterFunc(ctx, x.shortenDeadline)()
	if call, number, ok := ss.calls.find(r.Header.Get(mcp.HeaderLastEventID)); ok {
		_ = s.newEventStream(w).resume(ctx, call, number) // the client will resume again
		return
	}
	detach := ss.attach(cancel)
	defer detach()
	ss.sub.Restore(ss.replay.after(r.Header.Get(mcp.HeaderLastEventID)))
	if number, known := ss.replay.find(r.Header.Get(mcp.HeaderLastEventID)); known {
		ss.messages.received(number)
	}
	stream := s.newEventStream(w)
	if stream.start() != nil {
		return
	}
	if ss.version >= mcp.LatestLegacy && (stream.prime(ss.replay.begin()) != nil || stream.flush() != nil) {
		return
	}
	var last string // id of an event of this stream
	p := stream.pusher(ss.sub, func(what subscriptions.Batch) string {
		last = ss.replay.next(what)
		return last
	})
	p.messages, p.sent = ss.messages, func(message []byte) {
		number, _ := ss.replay.find(last) // it is known
		ss.messages.keep(message, number)
	}
	_ = p.run(ctx, s.ctx.Done()) // a failed stream is reopened by the client
}

// delete ends a legacy session.
func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	if rejectModern(w, r) {
		return
	}
	x := &exchange{srv: s, w: w, r: r, rc: http.NewResponseController(w), principal: s.principal(r)}
	ss := x.session(false)
	if ss == nil {
		return
	}
	defer s.http.release(ss)
	s.http.remove(ss)
	w.WriteHeader(http.StatusNoContent)
}
