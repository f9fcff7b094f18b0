package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// errCancelled is the cause of a request that its client cancelled. Such a request is
// not answered.
var errCancelled = errors.New("cancelled by the client")

// inFlight holds the requests of one client that can be cancelled, by id. The zero
// value is ready to use.
type inFlight struct {
	mu   sync.Mutex
	byID map[string]context.CancelCauseFunc
}

// begin registers a request and returns its context; ok is false if the id is in use.
// The caller must call end when the request is done, and before it sends the answer: the
// client may use the id again then. Only the first call of end counts.
func (w *inFlight) begin(parent context.Context, id json.RawMessage) (ctx context.Context, end func(), ok bool) {
	key := idKey(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[key] != nil {
		return nil, nil, false
	}
	if w.byID == nil {
		w.byID = make(map[string]context.CancelCauseFunc)
	}
	ctx, cancel := context.WithCancelCause(parent)
	w.byID[key] = cancel
	return ctx, sync.OnceFunc(func() {
		w.mu.Lock()
		delete(w.byID, key)
		w.mu.Unlock()
		cancel(nil)
	}), true
}

// cancel cancels the request with this id, if there is one.
func (w *inFlight) cancel(id json.RawMessage) {
	w.mu.Lock()
	cancel := w.byID[idKey(id)]
	w.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

func wasCancelled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errCancelled) }

func errDuplicateID() *Error {
	return errorf(mcp.CodeInvalidRequest, "a request with this id is already in progress")
}

// waiting counts the requests that wait for a slot, and their bytes.
type waiting struct {
	mu           sync.Mutex
	count, bytes int
}

// begin counts a request of the given size; it reports false if a limit is reached.
// The caller must call end when the request waits no more.
func (w *waiting) begin(size int, o *Options) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= o.Stdio.MaxWaiting || w.bytes+size > 16*o.MaxMessage {
		return false
	}
	w.count, w.bytes = w.count+1, w.bytes+size
	return true
}

func (w *waiting) end(size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count, w.bytes = w.count-1, w.bytes-size
}
