package session

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// getWatch follows the notification stream of a legacy HTTP session, which the
// transport reopens every second without telling anybody.
type getWatch struct {
	s *Session
	// first has room for one: the outcome of the first attempt (0: no answer),
	// sent by the transport's goroutine; never closed.
	first chan int

	mu       sync.Mutex
	status   int // of the last attempt
	tried    bool
	opened   bool // at least once
	public   bool // the session is in the caller's hands
	failures int  // attempts in a row that got no answer
}

// maxGETFailures is how often the stream may be unreachable, a second apart,
// until the server counts as gone.
const maxGETFailures = 3

func newGetWatch(s *Session) *getWatch { return &getWatch{s: s, first: make(chan int, 1)} }

// wait returns the outcome of the first attempt, or 0.
func (w *getWatch) wait(ctx context.Context) int {
	t := time.NewTimer(getPatience)
	defer t.Stop()
	select {
	case status := <-w.first:
		return status
	case <-t.C:
	case <-ctx.Done():
	}
	return 0
}

// refused reports whether the stream was asked for and not granted.
func (w *getWatch) refused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tried && !w.opened
}

// publish marks the point from which on changes are told to the session's owner.
func (w *getWatch) publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.public = true
	if w.opened {
		w.s.setPush(true)
	}
}

func (w *getWatch) answered(status int, err error) {
	w.mu.Lock()
	again, public := w.opened, w.public
	if !w.tried {
		w.tried = true
		w.first <- status
	}
	w.status = status
	if status == http.StatusOK {
		w.opened, w.failures = true, 0
	} else if status == 0 {
		w.failures++
	}
	failures := w.failures
	w.mu.Unlock()

	switch {
	case status == http.StatusOK && again:
		w.gap("the notification stream was reopened")
	case status == http.StatusOK && public:
		w.s.setPush(true)
		w.gap("the notification stream was opened")
	case status == http.StatusOK || !again:
	case status == 0 && failures < maxGETFailures:
	case status == 0:
		w.s.lose(&EndError{Reason: "the server cannot be reached", ExitCode: -1, Err: cleanURLError(w.s.redact, err)})
	default:
		// Whatever the status is, nothing would ever be pushed again.
		w.s.lose(&EndError{Reason: fmt.Sprintf("the notification stream was refused (HTTP status %d)", status), ExitCode: -1, Err: err})
	}
}

func (w *getWatch) ended(err error) {
	w.mu.Lock()
	public := w.public
	w.mu.Unlock()
	if public {
		w.gap("the notification stream ended")
	}
}

// gap forgets what was subscribed: the server may be a new one.
func (w *getWatch) gap(reason string) {
	w.s.subscriber.legacy.invalidate()
	w.s.signals.raiseGap(reason)
}
