package tracker

import (
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
)

// requests are the requests in flight that clients and the config make in a session. Many
// servers handle one request at a time, and answer no ping while they work on one of these;
// that must not end a call of ten minutes. The price: a server that hangs during such a request
// counts as dead only after the request has timed out. The tracker's own requests do not count,
// and after one that got no answer neither do those that began later: otherwise a client that
// asks again and again would hide a dead server.
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

// do makes a request for a client or the config.
func do[T any](c *connection, request func(*session.Session) (T, error)) (T, error) {
	n := c.requests.begin()
	answer, err := request(c.s)
	c.requests.end(n, err)
	return answer, err
}
