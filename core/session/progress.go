package session

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const methodProgress = "notifications/progress"

// maxExtended is how long a request may go on because its server tells of progress.
const maxExtended = time.Hour

// Progress is what notifications/progress tells of a request.
type Progress struct {
	Progress float64 // finite
	Total    float64 // 0: not known
	Message  string  // hostile, as everything from a server
}

type progressKey struct{}

// WithProgress asks for reports on the requests that are made with the context that
// it returns: servers may send some, or none. f is called on the goroutine that
// reads from the server, one call at a time and not after the request returned; it
// must return at once. A request whose server reports goes on beyond the request
// timeout, for as long as a report comes within each, up to an hour.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

func progressOf(ctx context.Context) func(Progress) {
	f, _ := ctx.Value(progressKey{}).(func(Progress))
	return f
}

// progressWatch knows who waits for reports, by the token of the request. The zero
// value is ready.
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

// tell hands a report on; it runs on the transport's reader. Reports that nobody
// waits for are late or made up, and those without a number are none.
func (w *progressWatch) tell(n mcp.JSONRPCNotification) {
	fields := n.Params.AdditionalFields
	token, _ := fields["progressToken"].(string)
	now, ok := fields["progress"].(float64)
	if !ok || math.IsNaN(now) || math.IsInf(now, 0) {
		return
	}
	p := Progress{Progress: now}
	if total, ok := fields["total"].(float64); ok && total > 0 && !math.IsInf(total, 0) {
		p.Total = total
	}
	p.Message, _ = fields["message"].(string)
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.watch[token]; f != nil {
		f(p)
	}
}

// watchProgress lets f see the reports on the request with the id, and ends the
// context when for as long as limit there was none.
func (s *Session) watchProgress(ctx context.Context, id string, f func(Progress), limit time.Duration, late error) (context.Context, func()) {
	ctx, cancelMax := context.WithTimeoutCause(ctx, maxExtended, late)
	ctx, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(limit, func() { cancel(late) })
	first, last := true, 0.0
	s.progress.add(id, func(p Progress) {
		if !first && p.Progress <= last {
			return // the specification wants it to rise: what does not proves nothing
		}
		first, last = false, p.Progress
		idle.Reset(limit)
		f(p)
	})
	return ctx, func() {
		s.progress.remove(id)
		idle.Stop()
		cancel(nil)
		cancelMax()
	}
}
