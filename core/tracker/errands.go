package tracker

import (
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
)

// errands are the requests that clients and the config have out in a session. A
// server that does one thing at a time answers no ping while it is at one of them,
// for as long as the request may take: many are written so, and a call of ten minutes
// must not be ended because of that. The price: a server that freezes during such a
// request is found dead only when the request has run out of time. The tracker's own
// requests are no excuse, and after one that got no answer neither are those that
// were begun later: else who asks again and again would hide a dead server for ever.
type errands struct {
	mu   sync.Mutex // guards all below
	last uint64     // number of the newest
	out  map[uint64]struct{}
	// unanswered is the oldest that has ended without an answer since the last sign
	// of life; 0: none.
	unanswered uint64
	sign       time.Time // when the last sign of life came
}

// begin notes a request and returns its number.
func (e *errands) begin() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	if e.out == nil {
		e.out = map[uint64]struct{}{}
	}
	e.out[e.last] = struct{}{}
	return e.last
}

// end notes how the request ended.
func (e *errands) end(n uint64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.out, n)
	switch {
	case isAnswer(err):
		e.unanswered, e.sign = 0, time.Now()
	case e.unanswered == 0 || n < e.unanswered:
		e.unanswered = n
	}
}

// alive notes a sign of life.
func (e *errands) alive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unanswered, e.sign = 0, time.Now()
}

// excuse reports whether a server that left a ping of that time unanswered may live.
func (e *errands) excuse(since time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sign.After(since) {
		return true
	}
	for n := range e.out {
		if e.unanswered == 0 || n < e.unanswered {
			return true
		}
	}
	return false
}

// isAnswer reports whether a request that ended so was answered.
func isAnswer(err error) bool {
	if err == nil {
		return true
	}
	if _, ok := errors.AsType[*session.InputRequiredError](err); ok {
		return true
	}
	_, ok := errors.AsType[*session.RPCError](err)
	return ok
}

// errand makes a request for a client or the config.
func errand[T any](c *connection, request func(*session.Session) (T, error)) (T, error) {
	n := c.errands.begin()
	answer, err := request(c.s)
	c.errands.end(n, err)
	return answer, err
}
