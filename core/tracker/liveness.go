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

// pingTimeout is how long a server may take to respond to a ping or otherwise show that it is
// alive.
const pingTimeout = 10 * time.Second

// liveness schedules the pings in one session. At most one ping is in flight, except after this
// process was suspended.
type liveness struct {
	// results receives the result of every ping. It has a capacity of 1 and is never closed.
	results chan pingResult
	next    time.Time // when the next ping is due
	since   time.Time // when the ping in flight was sent; zero if there is none
}

// pingResult holds the outcome of a ping.
type pingResult struct {
	since time.Time
	err   error
	late  bool // the ping timed out
}

func (l *liveness) due(now time.Time) bool { return l.since.IsZero() && !now.Before(l.next) }

// wakeAt returns when the next ping is due, or zero while one is in flight.
func (l *liveness) wakeAt() time.Time {
	if l.since.IsZero() {
		return l.next
	}
	return time.Time{}
}

// pingNow makes a ping due immediately. If a ping is in flight, its result will be ignored.
func (l *liveness) pingNow(now time.Time) { l.since, l.next = time.Time{}, now }

// pingSoon makes a ping due immediately, unless one is in flight.
func (l *liveness) pingSoon(now time.Time) {
	if l.since.IsZero() {
		l.next = now
	}
}

// ping starts a job that pings the server. The timeout is at most the request timeout.
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
		select { // after a suspension there may be two results; the second is discarded
		case f.liveness.results <- r:
		case <-ctx.Done():
		}
	})
}

// pinged handles the result of a ping. If it returns an error, the server is considered dead. It
// ignores the result of a ping that was replaced after this process was suspended, and a timeout
// while the server is working on a request (see requests). If the server is alive but did not
// answer the last subscription request, its resources are polled until a subscription succeeds.
func (f *sessionFollower) pinged(r pingResult) error {
	l := &f.liveness
	if !r.since.Equal(l.since) {
		return nil
	}
	l.since, l.next = time.Time{}, time.Now().Add(f.w.opts.Liveness)
	switch {
	case r.err == nil:
		f.conn.requests.alive()
		f.redescribe(time.Now())
	case errors.Is(r.err, session.ErrAuth):
		return r.err
	case r.late && f.conn.requests.excuse(r.since):
		f.w.log.Debug("no response to a ping; the server may be busy")
		l.next = time.Now().Add(min(f.w.opts.Liveness, pingTimeout/2)) // check again soon whether the server is dead
		return nil
	default:
		return fmt.Errorf("the server does not respond: %w", r.err)
	}
	if f.unsubscribed {
		f.unsubscribed = false
		f.coverage.poll()
		f.announceActive()
		f.planPolls(time.Now())
	}
	return nil
}

// redescribeEvery limits how often a session applies other capabilities or instructions of its
// server, because some servers have the time in their instructions.
const redescribeEvery = 5 * time.Minute

// redescribe applies the capabilities and instructions that the server has sent in response to a ping.
func (f *sessionFollower) redescribe(now time.Time) {
	if !f.ready || now.Before(f.redescribed.Add(redescribeEvery)) || !f.s.Redescribe() {
		return
	}
	f.redescribed, f.renewed = now, true // the next sync publishes it
	f.gap("the server describes itself differently", now)
}

// requests tracks the requests in flight in a session that were made by clients or by the config.
// Many servers handle one request at a time and do not answer pings while they work on a request;
// this must not abort a tool call that takes ten minutes. In exchange, a server that hangs during
// such a request is considered dead only after the request has timed out. The tracker's own
// requests are not tracked here. Requests that were started after an unanswered request do not
// postpone this decision either: otherwise a client that repeats its request would hide the fact
// that the server is dead.
type requests struct {
	mu       sync.Mutex // guards the fields below
	last     uint64     // number of the most recent request
	inFlight map[uint64]struct{}
	// unanswered is the number of the oldest request that has ended without a response since the
	// server last showed that it is alive; 0 if there is none.
	unanswered uint64
	sign       time.Time // when the server last showed that it is alive
}

// begin records the start of a request and returns its number.
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

// alive records that the server has shown that it is alive.
func (r *requests) alive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered, r.sign = 0, time.Now()
}

// excuse reports whether a server that has not answered a ping sent at the given time may be busy
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

// isAnswer reports whether err, the outcome of a request, shows that the server answered: it is
// nil, a JSON-RPC error, a request for input, or caused by a response that is too large.
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

// unanswered reports whether err means that a request was not answered by the server, which may be
// dead. An HTTP status of 500 or higher does not count as an answer, because it may come from a
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
