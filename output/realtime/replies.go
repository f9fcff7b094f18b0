package realtime

import (
	"fmt"
	"time"
)

// replies decides when the model is asked to answer: at most one response may
// write to a conversation at a time. The zero value is ready; it belongs to who
// holds its owner's lock.
type replies struct {
	wanted bool                // a message is to be answered
	active map[string]struct{} // responses that are running
	asked  string              // id of our response.create that nothing answered yet
	until  time.Time           // for that answer; zero: it is being sent
	hold   time.Time           // ask no earlier, unless a response ends
	count  int
}

// Bounds: maxActive is how many running responses are told apart; holdOff how long
// a response that we do not see is waited for.
const (
	maxActive = 64
	holdOff   = 30 * time.Second
)

// step returns the frame that asks for an answer when it is time, else how long it
// is not: 0 for until something happens.
func (r *replies) step(now time.Time, patience time.Duration) (frame []byte, wait time.Duration) {
	if r.asked != "" {
		if now.Before(r.until) {
			return nil, r.until.Sub(now)
		}
		r.asked = "" // an answer, if it came, was not recognised
	}
	switch {
	case !r.wanted || len(r.active) > 0:
		return nil, 0
	case now.Before(r.hold):
		return nil, r.hold.Sub(now)
	}
	r.count++
	e := responseCreate(fmt.Sprintf("%d_%d", now.UnixMilli(), r.count))
	frame, err := encode(e)
	if err != nil { // strings always encode
		return nil, holdOff
	}
	r.wanted, r.asked, r.until = false, e.EventID, now.Add(patience)
	return frame, 0
}

// busy reports whether something of ours is still to come.
func (r *replies) busy() bool { return r.wanted || r.asked != "" }

func (r *replies) created(id string) {
	r.asked = ""
	if r.active == nil {
		r.active = map[string]struct{}{}
	}
	if len(r.active) < maxActive {
		r.active[id] = struct{}{}
	}
}

// done ends a response; one without an id, and one that was not seen to begin,
// ends all.
func (r *replies) done(id string) {
	r.hold = time.Time{}
	if _, ok := r.active[id]; ok {
		delete(r.active, id)
		return
	}
	clear(r.active)
}

// refused ends our request. If a response is active that we did not see begin,
// there will be another request after it.
func (r *replies) refused(active bool, now time.Time) {
	r.asked = ""
	if active {
		r.wanted, r.hold = true, now.Add(holdOff)
	}
}

// reset is for a new connection. A request whose fate is not known is not repeated:
// an answer too many is heard, and one too few is not.
func (r *replies) reset() {
	r.asked, r.hold = "", time.Time{}
	clear(r.active)
}
