package serve

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
)

// errCancelled is the cause of a request that its client cancelled: nobody waits
// for an answer.
var errCancelled = errors.New("cancelled by the client")

// inWork are the requests of one client that it can cancel. The zero value is
// ready.
type inWork struct {
	mu   sync.Mutex
	byID map[string]context.CancelCauseFunc
}

// begin notes a request. It reports false if its id is in use. The caller calls
// end when the request is over.
func (w *inWork) begin(parent context.Context, id json.RawMessage) (ctx context.Context, end func(), ok bool) {
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
	return ctx, func() {
		w.mu.Lock()
		delete(w.byID, key)
		w.mu.Unlock()
		cancel(nil)
	}, true
}

// cancel ends the context of a request, if there is one of the id.
func (w *inWork) cancel(id json.RawMessage) {
	w.mu.Lock()
	cancel := w.byID[idKey(id)]
	w.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

func wasCancelled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errCancelled) }

func busy() *Error { return refuse(CodeInvalidRequest, "a request with this id is in work") }
