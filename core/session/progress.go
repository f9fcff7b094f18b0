package session

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// maxExtended bounds how long progress reports can extend a request.
const maxExtended = time.Hour

// Progress is the content of a notifications/progress.
type Progress struct {
	Progress float64 // finite
	Total    float64 // 0: unknown
	Message  string  // hostile, as everything from a server
}

type progressKey struct{}

// WithProgress requests progress reports for requests made with the returned context; a server
// may send none. f is called on the goroutine that reads from the server, one call at a time
// and not after the request returned; it must return at once.
//
// A report extends the request: it fails when the server has been silent for the request
// timeout, and in any case after an hour (or the request timeout, if that is longer).
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

func progressOf(ctx context.Context) func(Progress) {
	f, _ := ctx.Value(progressKey{}).(func(Progress))
	return f
}

// limits bound one request.
type limits struct {
	silence  time.Duration  // how long the server may be silent; 0: the request timeout
	progress func(Progress) // called with each report; may be nil
}

// bound returns the context of a request with the id. It ends when the server was
// silent for too long, and at the latest after maxExtended: a server must not keep a
// request for ever by reporting. This is the only policy for timeouts and progress;
// see [WithProgress]. The caller calls stop once the request is over.
func (r *requester) bound(ctx context.Context, id string, l limits) (_ context.Context, stop func()) {
	silence := cmp.Or(max(l.silence, 0), r.requestTimeout())
	late := fmt.Errorf("%w (%s)", errDeadline, silence)
	if l.progress == nil {
		return context.WithTimeoutCause(ctx, silence, late)
	}
	longest := max(maxExtended, silence)
	ctx, cancelLongest := context.WithTimeoutCause(ctx, longest, fmt.Errorf("%w (%s, with progress)", errDeadline, longest))
	ctx, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(silence, func() { cancel(late) })
	first, last := true, 0.0
	r.progress.add(id, func(p Progress) {
		if !first && p.Progress <= last {
			return // the specification requires it to increase
		}
		first, last = false, p.Progress
		idle.Reset(silence)
		l.progress(p)
	})
	return ctx, func() {
		r.progress.remove(id)
		idle.Stop()
		cancel(nil)
		cancelLongest()
	}
}

// progressWatch holds the callbacks of requests, by progress token. The zero value is ready to
// use.
type progressWatch struct {
	mu    sync.Mutex // guards watch; held while a callback runs, so that none runs late
	watch map[string]func(Progress)
}

func (w *progressWatch) add(token string, f func(Progress)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watch == nil {
		w.watch = map[string]func(Progress){}
	}
	w.watch[token] = f
}

func (w *progressWatch) remove(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watch, token)
}

// report passes a report on; it runs on the goroutine that reads from the server. It ignores
// reports with an unknown token, which are late or made up, and those without a number.
func (w *progressWatch) report(n *wire.Notification) {
	if n.Progress == nil || math.IsInf(*n.Progress, 0) {
		return
	}
	p := Progress{Progress: *n.Progress, Message: n.Message}
	if n.Total > 0 && !math.IsInf(n.Total, 0) {
		p.Total = n.Total
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.watch[n.ProgressToken]; f != nil {
		f(p)
	}
}
