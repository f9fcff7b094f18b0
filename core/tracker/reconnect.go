package tracker

import (
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	// A server is in a crash loop if this many sessions died within this time.
	crashLoopDeaths = 5
	crashLoopWithin = time.Minute
	// healthyAfter is how long a session must last for the next wait to be short again.
	healthyAfter = time.Minute
)

// retries counts the failures of one server and decides how long to wait after each.
type retries struct {
	maxWait time.Duration
	delays  *backoff.Backoff
	attempt int         // failures in a row
	deaths  []time.Time // when the last sessions died, at most crashLoopDeaths
	hurry   hurry
}

func newRetries(first, maxWait time.Duration) *retries {
	return &retries{maxWait: maxWait, delays: backoff.New(first, maxWait)}
}

// reset makes the next wait short again.
func (r *retries) reset() {
	r.attempt = 0
	r.delays.Reset()
	r.hurry.until = time.Time{}
}

// failed counts a failure and returns the state that the server is in now.
func (r *retries) failed(err error, reason string, now time.Time) event.ServerState {
	r.attempt++
	st := event.ServerState{State: event.Backoff, Reason: reason, Error: errorLine(err), Attempt: r.attempt}
	var least time.Duration
	if ra, ok := errors.AsType[*session.RetryAfter](err); ok {
		least, st.Reason = ra.Wait, "the server asked clients to wait"
	}
	wait := r.hurry.left(now)
	if wait <= 0 || least > 0 {
		wait = r.delays.NextAfter(least)
	}
	r.hurry.until, r.hurry.asked = now.Add(wait), least > 0
	if errors.Is(err, session.ErrAuth) {
		st.State, wait = event.NeedsAuth, min(backoff.Spread(r.maxWait), r.maxWait)
	}
	r.deaths = append(r.deaths, now)
	if over := len(r.deaths) - crashLoopDeaths; over > 0 {
		r.deaths = r.deaths[over:]
	}
	if _, died := errors.AsType[*session.EndError](err); died && len(r.deaths) == crashLoopDeaths && now.Sub(r.deaths[0]) < crashLoopWithin {
		st.Reason = "crashloop"
	}
	st.RetryIn = event.Milliseconds(wait)
	return st
}
