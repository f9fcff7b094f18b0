package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// bodyTimeout is how long a client may take to send a message.
const bodyTimeout = 30 * time.Second

// ServeHTTP is the MCP endpoint for both eras, whatever its path. It returns when
// all that it started has ended, which for a legacy client that has left means:
// when its call is answered, as a lost connection cancels nothing in that era.
//
// It sets the deadlines of its connection itself, and bounds bodies by MaxMessage.
// Clients that do not accept text/event-stream are served, but get no
// notifications.
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
	defer context.AfterFunc(s.ctx, x.hurry)()
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != typeJSON || r.Header.Get("Content-Encoding") != "" {
		http.Error(w, "a body must be plain "+typeJSON, http.StatusUnsupportedMediaType)
		return
	}
	if !accepts(r, typeJSON) {
		http.Error(w, "the client must accept "+typeJSON+" and "+typeEvents, http.StatusNotAcceptable)
		return
	}
	body, err := x.body()
	if err != nil {
		w.Header().Set("Connection", "close") // instead of reading the rest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			http.Error(w, "a message has more than "+strconv.Itoa(s.opts.MaxMessage)+" bytes", http.StatusRequestEntityTooLarge)
		} else {
			http.Error(w, "the body did not arrive", http.StatusBadRequest)
		}
		return
	}
	m, failed := parse(body)
	if failed != nil {
		x.fail(http.StatusBadRequest, m.id, failed)
		return
	}
	x.m, x.principal = m, s.principal(r)
	if isModern(r, m) {
		x.modern()
	} else {
		x.legacy()
	}
}

// exchange is one POST and its answer. It belongs to the goroutine of the handler.
type exchange struct {
	srv *Server
	w   http.ResponseWriter
	r   *http.Request
	rc  *http.ResponseController

	m         *message
	principal string
}

// body reads the message. The deadline must not outlive it: it would look like a
// client that has left.
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
	_ = x.srv.write(x.w, x.rc, message) // an error is the client's
}

func (x *exchange) fail(status int, id json.RawMessage, failed *Error) {
	x.reply(status, answer(id, nil, failed))
}

// hurry bounds a write that is under way.
func (x *exchange) hurry() { _ = x.rc.SetWriteDeadline(time.Now().Add(goodbye)) }

// result answers a request from memory.
func (x *exchange) result(who caller) {
	result, failed := x.srv.result(x.r.Context(), x.m, who)
	x.reply(http.StatusOK, answer(x.m.id, result, failed))
}

// modern serves a message that stands for itself.
func (x *exchange) modern() {
	m := x.m
	if m.id == nil || m.isAnswer() { // nothing is expected of it
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	if failed := x.check(); failed != nil {
		x.fail(http.StatusBadRequest, m.id, failed)
		return
	}
	who := caller{version: modernVersion, modern: true, principal: x.principal}
	switch {
	case !x.srv.offers(m.method, true):
		_, failed := x.srv.result(x.r.Context(), m, who)
		x.fail(http.StatusNotFound, m.id, failed)
	case m.method == methodListen:
		x.listen()
	case quick(m.method):
		x.result(who)
	default:
		x.work(x.r.Context(), who)
	}
}

// check refuses a modern request that is not as it should be, the most telling
// reason first.
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
	if x.m.method == methodCall {
		return x.srv.checkMirrored(x.r, x.m)
	}
	return nil
}

// listen is a stream of the modern era. It ends with its result when the server
// closes, and is cancelled by its client's leaving.
func (x *exchange) listen() {
	if !accepts(x.r, typeEvents) {
		http.Error(x.w, "the client must accept "+typeEvents, http.StatusNotAcceptable)
		return
	}
	l, failed := x.srv.listen(x.m)
	if failed != nil {
		status := http.StatusBadRequest
		if failed.Code == CodeInternal { // no room
			status = http.StatusServiceUnavailable
			x.w.Header().Set("Retry-After", "1")
		}
		x.fail(status, x.m.id, failed)
		return
	}
	defer l.sub.Close()
	stream := x.srv.newSSE(x.w)
	if stream.start() != nil || stream.event("", l.ack) != nil || stream.flush() != nil {
		return
	}
	if !l.empty {
		p := stream.pusher(l.sub, nil)
		p.tag = x.m.id
		if p.run(x.r.Context(), x.srv.ctx.Done()) != nil {
			return
		}
	}
	if stream.event("", answer(x.m.id, l.end, nil)) == nil {
		_ = stream.flush() // an error is the client's
	}
}
