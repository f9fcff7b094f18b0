package tracker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
)

// pingTimeout is how long a server may take to give a sign of life.
const pingTimeout = 10 * time.Second

// liveness is when the server of one session is pinged. At most one ping is in flight, except
// after a suspension of this process.
type liveness struct {
	// results receives the result of every ping and is never closed. Capacity 1.
	results chan pingResult
	next    time.Time // when the next ping is due
	since   time.Time // when the ping in flight began; zero: none is in flight
}

// pingResult is how a ping ended.
type pingResult struct {
	since time.Time
	err   error
	late  bool // it timed out
}

// due reports whether a ping should be sent now.
func (l *liveness) due(now time.Time) bool { return l.since.IsZero() && !now.Before(l.next) }

// wakeAt returns when the next ping is due, zero while one is in flight.
func (l *liveness) wakeAt() time.Time {
	if l.since.IsZero() {
		return l.next
	}
	return time.Time{}
}

// pingNow makes a ping due immediately; the result of a ping in flight is ignored.
func (l *liveness) pingNow(now time.Time) { l.since, l.next = time.Time{}, now }

// pingSoon makes a ping due immediately, unless one is in flight.
func (l *liveness) pingSoon(now time.Time) {
	if l.since.IsZero() {
		l.next = now
	}
}

// ping pings the server, with a limit of at most the request timeout.
func (f *sessionFollower) ping(now time.Time) {
	f.liveness.since = now
	wait := pingTimeout
	if limit := f.w.srv.RequestTimeout; limit > 0 {
		wait = min(wait, limit)
	}
	f.jobs.start(func(ctx context.Context) {
		pctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		r := pingResult{since: now, err: f.s.Ping(pctx)}
		r.late = r.err != nil && time.Since(now) >= wait
		select { // after a suspension there may be two results, and nobody receives the second
		case f.liveness.results <- r:
		case <-ctx.Done():
		}
	})
}

// pinged handles the result of a ping; an error means that the server counts as dead. It ignores
// the result of a ping that was replaced after a suspension of this process, and a missing answer
// while the server works on a request: see requests. If the server is alive but did not answer the
// last request to subscribe, it is polled until a subscription succeeds.
func (f *sessionFollower) pinged(r pingResult) error {
	l := &f.liveness
	if !r.since.Equal(l.since) {
		return nil
	}
	l.since, l.next = time.Time{}, time.Now().Add(f.w.opts.Liveness)
	switch {
	case r.err == nil:
		f.conn.requests.alive()
	case errors.Is(r.err, session.ErrAuth):
		return r.err
	case r.late && f.conn.requests.excuse(r.since):
		f.w.log.Debug("no answer to a ping: the server may be busy")
		l.next = time.Now().Add(min(f.w.opts.Liveness, pingTimeout/2)) // find out soon whether it is dead
		return nil
	default:
		return fmt.Errorf("the server does not respond: %w", r.err)
	}
	if f.unsubscribed {
		f.unsubscribed = false
		f.coverage.poll()
		f.announceMode()
		f.planPolls(time.Now())
	}
	return nil
}

// requests are the requests in flight that clients and the config make in a session. Many
// servers handle one request at a time, and answer no ping while they work on one of these;
// that must not end a call that takes ten minutes. The price: a server that hangs during such a
// request counts as dead only after the request has timed out. The tracker's own requests do not
// count. Neither do requests that began after one that got no answer: otherwise a client that
// repeats its request would hide a dead server.
type requests struct {
	mu       sync.Mutex // guards all below
	last     uint64     // number of the newest request
	inFlight map[uint64]struct{}
	// unanswered is the number of the oldest request that has ended without an answer since the
	// last sign of life; 0: none.
	unanswered uint64
	sign       time.Time // of the last sign of life
}

// begin records a request and returns its number.
func (r *requests) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	if r.inFlight == nil {
		r.inFlight = map[uint64]struct{}{}
	}
	r.inFlight[r.last] = struct{}{}
	return r.last
}

// end records how the request ended.
func (r *requests) end(n uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inFlight, n)
	switch {
	case isAnswer(err):
		r.unanswered, r.sign = 0, time.Now()
	case r.unanswered == 0 || n < r.unanswered:
		r.unanswered = n
	}
}

// alive records a sign of life.
func (r *requests) alive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered, r.sign = 0, time.Now()
}

// excuse reports whether a server that has not answered a ping sent at that time may be busy
// rather than dead.
func (r *requests) excuse(since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sign.After(since) {
		return true
	}
	for n := range r.inFlight {
		if r.unanswered == 0 || n < r.unanswered {
			return true
		}
	}
	return false
}

// isAnswer reports whether err, with which a request ended, means that the server answered
// it: nil, a JSON-RPC error, a demand for input, or an answer that is too large.
func isAnswer(err error) bool {
	if err == nil {
		return true
	}
	if _, ok := errors.AsType[*session.InputRequiredError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*session.TooLargeError](err); ok {
		return true
	}
	_, ok := errors.AsType[*session.RPCError](err)
	return ok
}

// unanswered reports whether err means that a request got no answer from the server, which may
// be dead. An HTTP status of 500 or more is not an answer from the server: it may come from a
// load balancer.
func unanswered(err error) bool {
	if err == nil || isAnswer(err) || isUnsupported(err) || errors.Is(err, session.ErrAuth) {
		return false
	}
	if _, ok := errors.AsType[*session.RetryAfter](err); ok {
		return false
	}
	if h, ok := errors.AsType[*session.HTTPError](err); ok {
		return h.Status >= http.StatusInternalServerError
	}
	return true
}
