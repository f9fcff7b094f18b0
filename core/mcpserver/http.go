package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// bodyTimeout is how long a client may take to send a message.
const bodyTimeout = 30 * time.Second

// ServeHTTP is the MCP endpoint for both eras, on any path. It returns when everything
// it started has ended. When a legacy client disconnects during a call, ServeHTTP returns
// only when the call has ended: a lost connection cancels nothing in that era.
//
// ServeHTTP sets the deadlines of its connection itself and bounds bodies by MaxMessage.
// Clients that do not accept text/event-stream are served without notifications.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.wg.Done()
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		s.delete(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	x := &exchange{srv: s, w: w, r: r, rc: http.NewResponseController(w)}
	defer context.AfterFunc(s.ctx, x.shortenDeadline)()
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != typeJSON || r.Header.Get("Content-Encoding") != "" {
		http.Error(w, "the Content-Type must be "+typeJSON+", without Content-Encoding", http.StatusUnsupportedMediaType)
		return
	}
	if !accepts(r, typeJSON) {
		http.Error(w, "the Accept header must include "+typeJSON+" and "+typeEvents, http.StatusNotAcceptable)
		return
	}
	body, err := x.body()
	if err != nil {
		w.Header().Set("Connection", "close") // instead of reading the rest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			http.Error(w, "the message is larger than "+strconv.Itoa(s.opts.MaxMessage)+" bytes", http.StatusRequestEntityTooLarge)
		} else {
			http.Error(w, "the request body could not be read", http.StatusBadRequest)
		}
		return
	}
	m, failed := parse(body)
	if failed != nil {
		x.fail(http.StatusBadRequest, m.id, failed)
		return
	}
	x.m, x.principal = m, s.principal(r)
	if identify := s.opts.Events.Identify; identify != nil {
		x.identity = identify(r)
	}
	if isModern(r, m) {
		x.modern()
	} else {
		x.legacy()
	}
}

// exchange is one POST and its answer. Only the handler's goroutine uses it.
type exchange struct {
	srv *Server
	w   http.ResponseWriter
	r   *http.Request
	rc  *http.ResponseController

	m         *message
	principal string
	identity  string // the lasting name of the client
}

// body reads the message. The deadline is removed afterwards: when it passed, the
// client would seem to have disconnected.
func (x *exchange) body() ([]byte, error) {
	_ = x.rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	b, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, int64(x.srv.opts.MaxMessage)))
	_ = x.rc.SetReadDeadline(time.Time{})
	return b, err
}

// reply answers with one message.
func (x *exchange) reply(status int, message []byte) {
	h := x.w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(message)))
	x.srv.deadline(x.rc)
	x.w.WriteHeader(status)
	_, _ = x.srv.writer(x.w).Write(message) // fails only if the client has disconnected
}

func (x *exchange) fail(status int, id json.RawMessage, failed *Error) {
	x.reply(status, answer(id, nil, failed))
}

// shortenDeadline bounds a write that is in progress.
func (x *exchange) shortenDeadline() { _ = x.rc.SetWriteDeadline(time.Now().Add(drainTimeout)) }

// result answers a request from memory.
func (x *exchange) result(from caller) {
	result, failed := x.srv.result(x.r.Context(), x.m, from)
	x.reply(http.StatusOK, answer(x.m.id, result, failed))
}

// modern serves a message of the modern era, which has no session.
func (x *exchange) modern() {
	m := x.m
	if m.id == nil || m.isAnswer() { // not answered
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	if failed := x.check(); failed != nil {
		x.fail(http.StatusBadRequest, m.id, failed)
		return
	}
	from := caller{version: mcp.ModernVersion, modern: true, principal: x.principal, identity: x.identity}
	switch {
	case !x.srv.opts.offers(m.method, true, x.srv.about.Load()):
		_, failed := x.srv.result(x.r.Context(), m, from)
		x.fail(http.StatusNotFound, m.id, failed)
	case m.method == mcp.MethodListen:
		x.listen()
	case m.method == mcp.MethodStreamEvents && x.srv.opts.Events.offered():
		x.streamEvents(x.r.Context(), from)
	case fromMemory(m.method):
		x.result(from)
	default:
		x.runFunc(x.r.Context(), from, nil)
	}
}

// check validates the headers and _meta of a modern request. Of several errors it
// returns the one that explains most.
func (x *exchange) check() *Error {
	if failed := checkVersion(x.r, x.m); failed != nil {
		return failed
	}
	if failed := checkMeta(x.m); failed != nil {
		return failed
	}
	if failed := checkHeaders(x.r, x.m); failed != nil {
		return failed
	}
	if x.m.method == mcp.MethodCallTool {
		return x.srv.checkMirrored(x.r, x.m)
	}
	return nil
}

// listen serves a subscriptions/listen. It ends with its result when the server closes,
// and without one when the client disconnects.
func (x *exchange) listen() {
	if !accepts(x.r, typeEvents) {
		http.Error(x.w, "the Accept header must include "+typeEvents, http.StatusNotAcceptable)
		return
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	l, failed := x.srv.listen(ctx, x.m, x.principal)
	if failed != nil {
		status := http.StatusBadRequest
		if failed.Code == mcp.CodeInternal { // a limit is reached
			status = http.StatusServiceUnavailable
			x.w.Header().Set("Retry-After", "1")
		}
		x.fail(status, x.m.id, failed)
		return
	}
	defer l.sub.Close()
	stream := x.srv.newEventStream(x.w)
	if stream.start() != nil || stream.event("", l.ack) != nil || stream.flush() != nil {
		return
	}
	if !l.empty {
		p := stream.pusher(l.sub, nil)
		p.tag, p.messages = x.m.id, l.messages
		if p.run(x.r.Context(), x.srv.ctx.Done()) != nil {
			return
		}
	}
	if stream.event("", answer(x.m.id, l.end, nil)) == nil {
		_ = stream.flush() // fails only if the client has disconnected
	}
}
