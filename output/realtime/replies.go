package realtime

import (
	"fmt"
	"time"
)

// replies decides when to ask the model to respond: never while a response is active, while the
// user is speaking, or between a function call and its output. The zero value is ready to use. The
// owner's lock must be held.
type replies struct {
	wanted   bool                 // messages are waiting for a response
	active   map[string]struct{}  // responses in progress
	asked    string               // ID of our unanswered response.create; empty if none
	until    time.Time            // deadline for the answer to asked
	hold     time.Time            // earliest time to ask, unless a response ends before
	speaking time.Time            // when the user started speaking; zero while silent
	calls    map[string]time.Time // times of function calls, by ID; zero once a call has its output
	count    int
}

const (
	// maxActive limits the number of tracked responses, and of tracked function calls.
	maxActive = 64
	// holdOff is how long to wait for the end of a response whose start was not observed.
	holdOff = 30 * time.Second
	// turnGrace is how long to wait for the endpoint, after the user's turn, or the application,
	// after a function's output, to start a response.
	turnGrace = 2 * time.Second
	// maxBlocked limits how long to wait for the user to stop speaking, or for a function's output.
	maxBlocked = 5 * time.Minute
)

// step returns the frame that requests a response if one is due, and otherwise how long to wait; 0
// means until something changes. timeout limits the wait for the answer to the request.
func (r *replies) step(now time.Time, timeout time.Duration) (frame []byte, wait time.Duration) {
	if r.asked != "" {
		if now.Before(r.until) {
			return nil, r.until.Sub(now)
		}
		r.asked = "" // any answer was not recognized
	}
	if !r.wanted || len(r.active) > 0 {
		return nil, 0
	}
	if wait := r.blocked(now); wait > 0 {
		return nil, wait
	}
	if now.Before(r.hold) {
		return nil, r.hold.Sub(now)
	}
	r.count++
	frame, r.asked = newResponseCreate(fmt.Sprintf("%d_%d", now.UnixMilli(), r.count))
	r.wanted, r.until = false, now.Add(timeout)
	return frame, 0
}

// blocked returns the maximum time for which no response may be requested because the user is
// speaking or a function has no output yet. It returns 0 if a response may be requested now.
func (r *replies) blocked(now time.Time) (wait time.Duration) {
	if !r.speaking.IsZero() {
		wait = r.speaking.Add(maxBlocked).Sub(now)
	}
	for _, at := range r.calls {
		if !at.IsZero() {
			wait = max(wait, at.Add(maxBlocked).Sub(now))
		}
	}
	return wait
}

// busy reports whether a response is wanted or has been requested.
func (r *replies) busy() bool { return r.wanted || r.asked != "" }

func (r *replies) created(id string) {
	r.asked, r.hold = "", time.Time{}
	if r.active == nil {
		r.active = map[string]struct{}{}
	}
	if len(r.active) < maxActive {
		r.active[id] = struct{}{}
	}
}

// done records the end of a response. If it has no ID, or the response's start was not observed,
// all responses count as ended.
func (r *replies) done(id string) {
	r.hold = time.Time{}
	if _, ok := r.active[id]; ok {
		delete(r.active, id)
		return
	}
	clear(r.active)
}

// speech records that the user has started or stopped speaking.
func (r *replies) speech(begins bool, now time.Time) {
	if begins {
		r.speaking = now
		return
	}
	r.speaking = time.Time{}
	if len(r.active) == 0 {
		r.hold = later(r.hold, now.Add(turnGrace))
	}
}

// item records function calls and their outputs. Each may be reported several times.
func (r *replies) item(e serverEvent, now time.Time) {
	id := e.Item.CallID
	switch e.Item.Type {
	case "function_call":
		if _, ok := r.calls[id]; ok {
			return
		}
		if r.calls == nil {
			r.calls = map[string]time.Time{}
		}
		for old, at := range r.calls {
			if len(r.calls) >= maxActive && (at.IsZero() || now.Sub(at) > maxBlocked) {
				delete(r.calls, old)
			}
		}
		if len(r.calls) < maxActive {
			r.calls[id] = now
		}
	case "function_call_output":
		if r.calls[id].IsZero() {
			return // repeated, or the call is unknown
		}
		r.calls[id] = time.Time{}
		r.hold = later(r.hold, now.Add(turnGrace))
	}
}

// refused handles an error for our response.create. active means that another response, whose start
// was not observed, is active; our request is then repeated after it.
func (r *replies) refused(active bool, now time.Time) {
	r.asked = ""
	if active {
		r.wanted, r.hold = true, now.Add(holdOff)
	}
}

// reset prepares for a new connection. A request whose outcome is unknown is not repeated, because
// a second response would disturb users more than a missing one.
func (r *replies) reset() {
	r.asked, r.hold, r.speaking = "", time.Time{}, time.Time{}
	clear(r.active)
	clear(r.calls)
}
