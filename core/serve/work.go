package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// work has a function of the options answer a POST. Without notifications the
// answer is plain JSON; the first one makes it an event stream. parent ends when
// the request is cancelled.
func (x *exchange) work(parent context.Context, who caller) {
	s := x.srv
	select {
	case s.work <- struct{}{}:
	case <-x.r.Context().Done():
		return
	case <-s.ctx.Done():
		x.fail(http.StatusServiceUnavailable, x.m.id, refuse(CodeInternal, "%s", errClosed))
		return
	case <-parent.Done():
		x.finish(nil, x.answer(nil, refuse(CodeInternal, "%s", context.Cause(parent))), wasCancelled(parent))
		return
	}
	defer func() { <-s.work }()
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errClosed) })()

	// notes come from the function and go to this goroutine, which owns the
	// connection. Unbuffered: the function waits while the client does not read.
	notes := make(chan []byte)
	left := make(chan struct{}) // closed by this goroutine when the client has left
	answered := make(chan reply, 1)
	go func() {
		reply := x.answer(nil, refuse(CodeInternal, "%s: internal error", x.m.method))
		defer func() { answered <- reply }() // also if the function ends its goroutine
		n := newNotifier(ctx, func(ctx context.Context, message []byte) {
			select {
			case notes <- message:
			case <-left:
			case <-ctx.Done():
			}
		})
		defer n.close()
		if accepts(x.r, typeEvents) {
			who.notify = n.notify
		}
		result, failed := s.result(ctx, x.m, who)
		reply = x.answer(result, failed)
	}()

	var stream *sse
	var beats <-chan time.Time
	gone, news, here := x.r.Context().Done(), notes, true
	leave := func() {
		close(left)
		gone, news, stream, here = nil, nil, nil, false
		if who.modern {
			cancel(context.Canceled)
		}
	}
	for {
		var err error
		select {
		case message := <-news:
			if stream == nil {
				stream = s.newSSE(x.w)
				err = stream.start()
				beat := time.NewTicker(s.opts.Heartbeat)
				defer beat.Stop()
				beats = beat.C
			}
			if err == nil {
				err = stream.event("", message)
			}
			if err == nil {
				err = stream.flush()
			}
		case <-beats:
			if stream != nil {
				err = stream.comment()
			}
		case <-gone:
			err = context.Cause(x.r.Context())
		case reply := <-answered:
			if here {
				x.finish(stream, reply, wasCancelled(ctx))
			}
			return
		}
		if err != nil && here {
			leave()
		}
	}
}

// reply is an answer and its HTTP status, if that is still to be sent.
type reply struct {
	message []byte
	status  int
}

// answer is that of a function, whose errors are no failures of HTTP but for one,
// of which the specification says so.
func (x *exchange) answer(result json.RawMessage, failed *Error) reply {
	status := http.StatusOK
	if failed != nil && failed.Code == CodeMissingCapability {
		status = http.StatusBadRequest
	}
	return reply{answer(x.m.id, result, failed), status}
}

// finish answers a request, unless its client has cancelled it.
func (x *exchange) finish(stream *sse, r reply, cancelled bool) {
	switch {
	case stream != nil && !cancelled:
		if stream.event("", r.message) == nil {
			_ = stream.flush() // an error is the client's
		}
	case stream != nil:
	case cancelled:
		x.srv.deadline(x.rc)
		x.w.WriteHeader(http.StatusAccepted)
	default:
		x.reply(r.status, r.message)
	}
}
