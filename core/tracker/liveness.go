package tracker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
)

// pingTimeout is how long a server may take to give a sign of life.
const pingTimeout = 10 * time.Second

// liveness pings the server of one session. At most one ping is in flight, except
// after a suspension of this process.
type liveness struct {
	conn  *connection
	jobs  *jobs
	log   *slog.Logger
	every time.Duration

	// results receives the result of every ping and is never closed. Capacity 1.
	results chan pingResult
	next    time.Time // when the next ping is due
	since   time.Time // when the ping in flight began; zero: none is in flight
}

// pingResult is how a ping ended.
type pingResult struct {
	since time.Time
	err   error
	late  bool // there was no answer in time
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

// pingNow makes a ping due at once; the result of a ping in flight is ignored.
func (l *liveness) pingNow(now time.Time) { l.since, l.next = time.Time{}, now }

// pingSoon makes a ping due at once, unless one is in flight.
func (l *liveness) pingSoon(now time.Time) {
	if l.since.IsZero() {
		l.next = now
	}
}

// ping pings the server, with a limit of at most the request timeout.
func (l *liveness) ping(now time.Time, requestTimeout time.Duration) {
	l.since = now
	wait := pingTimeout
	if requestTimeout > 0 {
		wait = min(wait, requestTimeout)
	}
	l.jobs.start(func(ctx context.Context) {
		pctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		r := pingResult{since: now, err: l.conn.s.Ping(pctx)}
		r.late = r.err != nil && time.Since(now) >= wait
		select { // after a suspension there may be two results, of which nobody receives the second
		case l.results <- r:
		case <-ctx.Done():
		}
	})
}

// ended handles a result; an error means that the server counts as dead. The result of a ping
// that was replaced after a suspension of this process is ignored, and so is a missing answer
// while the server works on a request: see requests.
func (l *liveness) ended(r pingResult) error {
	if !r.since.Equal(l.since) {
		return nil
	}
	l.since = time.Time{}
	l.next = time.Now().Add(l.every)
	switch {
	case r.err == nil:
		l.conn.requests.alive()
		return nil
	case errors.Is(r.err, session.ErrAuth):
		return r.err
	case r.late && l.conn.requests.excuse(r.since):
		l.log.Debug("no answer to a ping: the server may be busy")
		l.next = time.Now().Add(min(l.every, pingTimeout/2)) // whether it is dead will be known soon
		return nil
	}
	return fmt.Errorf("the server does not respond: %w", r.err)
}
