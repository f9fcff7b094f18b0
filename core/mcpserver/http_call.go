package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// runFunc answers a POST with a function of the options: with plain JSON, or with an event stream
// if the function sends a notification first. Unless calls is nil, it is also an event stream if
// the function takes longer than openAfter, and calls holds its events, so that the client can
// resume it. parent is cancelled when the client cancels the request.
func (x *exchange) runFunc(parent context.Context, from caller, calls *callStreams) {
	s := x.srv
	from.after = new(afterwards)
	defer from.after.run()
	slot := s.slots.Take(x.principal)
	defer slot.Give()
	select {
	case <-slot.Ready():
	case <-x.r.Context().Done():
		return
	case <-s.ctx.Done():
		x.fail(http.StatusServiceUnavailable, x.m.id, errorf(mcp.CodeInternal, "%s", errClosed))
		return
	case <-parent.Done():
		x.finish(x.answer(nil, errorf(mcp.CodeInternal, "%s", context.Cause(parent))), wasCancelled(parent))
		return
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errClosed) })()

	// The function sends its notifications on notes to this goroutine, which owns the
	// connection. Unbuffered, so that the function waits while the client does not
	// read; never closed.
	notes := make(chan note)
	left := make(chan struct{}) // closed by this goroutine when the client has disconnected
	answered := make(chan reply, 1)
	go func() {
		reply := x.answer(nil, errorf(mcp.CodeInternal, "%s: internal error", x.m.method))
		defer func() { answered <- reply }() // also if the function calls runtime.Goexit
		n := newNotifier(ctx, func(ctx context.Context, message []byte) bool {
			written := make(chan bool, 1)
			select {
			case notes <- note{message, written}:
				return <-written
			case <-left:
			case <-ctx.Done():
			}
			return false
		})
		defer n.close()
		if accepts(x.r, typeEvents) {
			from.notes = n
		}
		result, failed := s.result(ctx, x.m, from)
		reply = x.answer(result, failed)
	}()

	var stream *eventStream
	var call *callStream // of stream; nil if the client cannot resume it
	var beats, opening <-chan time.Time
	if calls != nil {
		timer := time.NewTimer(openAfter)
		defer timer.Stop()
		opening = timer.C
	}
	gone, news, here := x.r.Context().Done(), notes, true
	leave := func() {
		gone, stream, opening, here = nil, nil, nil, false
		if call == nil { // the client cannot resume: later messages are dropped
			close(left)
			news = nil
		}
		if from.modern {
			cancel(context.Canceled)
		}
	}
	begin := func() error {
		stream, opening = s.newEventStream(x.w), nil
		beats = time.Tick(s.opts.Heartbeat)
		if err := stream.start(); err != nil || calls == nil {
			return err
		}
		call = calls.begin(x.m.id)
		return stream.prelude(call)
	}
	defer func() {
		if call != nil {
			calls.end(call)
		}
	}()
	number := 0 // of the last event
	write := func(message []byte, last bool) error {
		id := ""
		if call != nil {
			call.add(message, last)
			number++
			id = call.id(number, last)
		}
		if stream == nil {
			return nil
		}
		if err := stream.event(id, message); err != nil {
			return err
		}
		return stream.flush()
	}
	for {
		var err error
		select {
		case n := <-news:
			if stream == nil && call == nil {
				err = begin()
			}
			if err == nil || call != nil {
				err = cmp.Or(err, write(n.message, false))
			}
			n.written <- err == nil || call != nil // call has it: the client can resume
		case <-opening:
			err = begin()
		case <-beats:
			if stream != nil {
				err = stream.comment()
			}
		case <-gone:
			err = context.Cause(x.r.Context())
		case reply := <-answered:
			switch cancelled := wasCancelled(ctx); {
			case (stream != nil || call != nil) && !cancelled:
				_ = write(reply.message, true) // fails only if the client has disconnected
			case here && stream == nil:
				x.finish(reply, cancelled)
			}
			return
		}
		if err != nil && here {
			leave()
		}
	}
}

// note is a message of a function that runs.
type note struct {
	message []byte
	// written gets one value: whether the message was written or will be, when the client
	// resumes. Capacity 1; never closed.
	written chan bool
}

// reply is an answer and its HTTP status, which is used unless a stream has begun.
type reply struct {
	message []byte
	status  int
}

// answer encodes the answer of a function. Its errors have HTTP status 200, except the
// one for which the specification demands 400.
func (x *exchange) answer(result json.RawMessage, failed *Error) reply {
	status := http.StatusOK
	if failed != nil && failed.Code == mcp.CodeMissingCapability {
		status = http.StatusBadRequest
	}
	return reply{answer(x.m.id, result, failed), status}
}

// finish writes the answer of a request, unless the client has cancelled it.
func (x *exchange) finish(r reply, cancelled bool) {
	if cancelled {
		x.srv.deadline(x.rc)
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	x.reply(r.status, r.message)
}
