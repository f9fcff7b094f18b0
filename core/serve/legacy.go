package serve

import (
	"context"
	"encoding/json"
	"net/http"
)

// codeSession is what SDKs answer for a session that is not there.
const codeSession = -32001

// legacy serves a message of the initialize era.
func (x *exchange) legacy() {
	if x.m.method == methodInitialize && x.m.id != nil {
		x.initialize()
		return
	}
	ss := x.session(true)
	if ss == nil {
		return
	}
	defer x.srv.http.release(ss)
	m := x.m
	who := caller{version: ss.version, principal: x.principal}
	switch {
	case m.id == nil || m.isAnswer(): // nothing is expected of it
		if m.method == noteCancelled {
			ss.inWork.cancel(m.fields["requestId"])
		}
		x.w.WriteHeader(http.StatusAccepted)
	case !x.srv.offers(m.method, false):
		x.result(who)
	case m.method == methodSubscribe || m.method == methodUnsubscribe:
		if m.method == methodUnsubscribe {
			ss.told.forget(text(m.fields["uri"]))
		}
		x.reply(http.StatusOK, subscribe(ss.sub, m))
	case quick(m.method):
		x.result(who)
	default:
		// A lost connection does not cancel: only the client or its session does.
		ctx, end, ok := ss.inWork.begin(ss.ctx, m.id)
		if !ok {
			x.fail(http.StatusOK, m.id, busy())
			return
		}
		defer end()
		x.work(ctx, who)
	}
}

func (x *exchange) initialize() {
	version, result, failed := x.srv.initialized(x.m)
	if failed != nil {
		x.fail(http.StatusOK, x.m.id, failed)
		return
	}
	ss, err := x.srv.http.open(version, x.principal)
	if err != nil {
		x.w.Header().Set("Retry-After", "1")
		x.fail(http.StatusServiceUnavailable, x.m.id, refuse(CodeInternal, "%s", err))
		return
	}
	defer x.srv.http.release(ss)
	x.w.Header().Set(headerSession, ss.id)
	x.reply(http.StatusOK, answer(x.m.id, result, nil))
}

// session finds the session of a request and keeps it until release; otherwise it
// answers why there is none. body tells whether a JSON-RPC answer is expected.
func (x *exchange) session(body bool) *session {
	var id json.RawMessage
	if body {
		id = x.m.id
	}
	name, ok := single(x.r, headerSession)
	if !ok || name == "" {
		x.fail(http.StatusBadRequest, id, refuse(CodeInvalidRequest,
			"no %s: initialize first, or send %q in params._meta", headerSession, metaVersion))
		return nil
	}
	if version, ok := single(x.r, headerVersion); !ok || version != "" && !isLegacy(version) {
		x.fail(http.StatusBadRequest, id, &Error{
			Code: CodeUnsupportedVersion, Message: "unsupported protocol version",
			Data: map[string]any{"supported": supported(), "requested": bounded(version)},
		})
		return nil
	}
	ss := x.srv.http.use(name, x.principal)
	if ss == nil {
		x.fail(http.StatusNotFound, id, refuse(codeSession, "session not found"))
	}
	return ss
}

// refusedByEra refuses the methods that only the legacy era has.
func refusedByEra(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get(headerVersion) != modernVersion {
		return false
	}
	w.Header().Set("Allow", "POST")
	http.Error(w, "this version of the protocol has no "+r.Method, http.StatusMethodNotAllowed)
	return true
}

// get opens the stream of a legacy session.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if refusedByEra(w, r) {
		return
	}
	if !accepts(r, typeEvents) {
		http.Error(w, "the client must accept "+typeEvents, http.StatusNotAcceptable)
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
	// Whoever ends the session or replaces the stream does not wait for long for a
	// client that does not read.
	defer context.AfterFunc(ss.ctx, func() { cancel(errSessionEnded) })()
	defer context.AfterFunc(ctx, x.hurry)()
	detach := ss.attach(cancel)
	defer detach()
	ss.sub.Restore(ss.told.after(r.Header.Get("Last-Event-ID")))
	stream := s.newSSE(w)
	if stream.start() != nil {
		return
	}
	if ss.version >= latestLegacy && (stream.prime(ss.told.begin()) != nil || stream.flush() != nil) {
		return
	}
	_ = stream.pusher(ss.sub, ss.told.next).run(ctx, s.ctx.Done()) // the client will open another
}

// delete ends a legacy session.
func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	if refusedByEra(w, r) {
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
