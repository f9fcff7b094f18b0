package mcpserver

import (
	"encoding/json"
	"net/http"

	"github.com/mcptrack/mcptrack/core/mcp"
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
	from := caller{version: ss.version, principal: x.principal, identity: x.identity, client: ss.client, sub: ss.sub}
	if ss.file != nil {
		from.saw = ss.saw
	}
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
		x.reply(http.StatusOK, ss.subscribe(m))
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
		var calls *callStreams // nil: the client cannot resume
		if ss.version >= mcp.LatestLegacy && accepts(x.r, typeEvents) {
			calls = &ss.calls
		}
		x.runFunc(ctx, from, calls)
	}
}

func (x *exchange) initialize() {
	version, result, failed := x.srv.identity().initialized(x.m)
	if failed != nil {
		x.fail(http.StatusOK, x.m.id, failed)
		return
	}
	ss, err := x.srv.http.open(version, x.principal, x.m.fields["capabilities"])
	if err != nil {
		x.busy(x.m.id, err)
		return
	}
	defer x.srv.http.release(ss)
	x.w.Header().Set(mcp.HeaderSession, ss.id)
	x.reply(http.StatusOK, answer(x.m.id, result, nil))
}

// busy answers that there is no room for a session now.
func (x *exchange) busy(id json.RawMessage, err error) {
	x.w.Header().Set("Retry-After", "1")
	x.fail(http.StatusServiceUnavailable, id, errorf(mcp.CodeInternal, "%s", err))
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
	ss, err := x.srv.http.use(name, x.principal)
	switch {
	case err != nil:
		x.busy(id, err)
	case ss == nil:
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
