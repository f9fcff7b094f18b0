package webhook

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// lateAfter is how long an attempt may last before it is late.
const lateAfter = time.Second

// slots limit the concurrent attempts, to one host or in total, so that endpoints that respond late
// or never take no slots from the others. An attempt is late once it has lasted for lateAfter, and
// from the start if the last attempt of its responder was late. There are slots for prompt attempts,
// and a few more for attempts that start late. An attempt that becomes late frees its prompt slot,
// unless the total of both kinds has reached its limit.
//
// Responders take turns: the one with the fewest slots is first. While others may need a slot, a
// responder holds at most one slot before its first prompt response, and never the last one in
// addition to others.
type slots struct {
	prompt int // limit of prompt attempts
	late   int // limit of attempts that started late
	most   int // limit of all attempts

	mu       sync.Mutex
	isPrompt int // prompt attempts in progress
	isLate   int // late attempts in progress
	usages   map[*responder]*usage
	waiting  list.List // of *usage, the longest wait first
}

func newSlots(prompt, late, most int) *slots {
	return &slots{prompt: prompt, late: late, most: most, usages: map[*responder]*usage{}}
}

// responder is an endpoint as slots see it.
type responder struct {
	late   atomic.Bool // the last attempt was late
	proven atomic.Bool // an attempt got a prompt response
}

// usage is what one responder holds and waits for.
type usage struct {
	responder *responder
	held      int
	queue     []*slot       // waiting, in order
	at        *list.Element // in slots.waiting; nil if the queue is empty
}

// slot is the right to make one attempt, once ready is closed. The lock of its slots guards the
// fields after ready.
type slot struct {
	of    *slots
	usage *usage
	ready chan struct{} // closed by admit
	held  bool
	late  bool
}

// take waits for a slot. The error is the cause of ctx.
func (p *slots) take(ctx context.Context, who *responder) (*slot, error) {
	p.mu.Lock()
	u := p.usages[who]
	if u == nil {
		u = &usage{responder: who}
		p.usages[who] = u
	}
	one := &slot{of: p, usage: u, ready: make(chan struct{})}
	u.queue = append(u.queue, one)
	if u.at == nil {
		u.at = p.waiting.PushBack(u)
	}
	p.admit()
	p.mu.Unlock()
	select {
	case <-one.ready:
		return one, nil
	case <-ctx.Done():
		one.release()
		return nil, context.Cause(ctx)
	}
}

// admit admits everyone for whom there is room. p.mu must be held.
func (p *slots) admit() {
	for p.isPrompt+p.isLate < p.most {
		var next *usage
		for e := p.waiting.Front(); e != nil && (next == nil || next.held > 0); e = e.Next() {
			if u := e.Value.(*usage); p.room(u) && (next == nil || u.held < next.held) {
				next = u
			}
		}
		if next == nil {
			return
		}
		one := next.queue[0]
		one.held, one.late = true, next.responder.late.Load()
		p.count(one, 1)
		p.waiting.MoveToBack(next.at)
		next.leave(one)
		close(one.ready)
	}
}

// room reports whether the first waiting attempt of a responder may start. p.mu must be held.
func (p *slots) room(u *usage) bool {
	switch {
	case u.responder.late.Load():
		return p.isLate < p.late
	case u.held == 0:
		return p.isPrompt < p.prompt
	default:
		return u.responder.proven.Load() && p.isPrompt < p.prompt-1
	}
}

func (p *slots) count(one *slot, n int) {
	one.usage.held += n
	if one.late {
		p.isLate += n
	} else {
		p.isPrompt += n
	}
}

// leave removes a slot from the queue.
func (u *usage) leave(one *slot) {
	i := slices.Index(u.queue, one)
	if u.queue = slices.Delete(u.queue, i, i+1); len(u.queue) == 0 {
		one.of.waiting.Remove(u.at)
		u.at = nil
	}
}

// setLate records that the attempt has become late.
func (one *slot) setLate() {
	p := one.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.held && !one.late {
		p.count(one, -1)
		one.late = true
		p.count(one, 1)
		p.admit()
	}
}

// release frees the slot, or stops waiting for it.
func (one *slot) release() {
	p, u := one.of, one.usage
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.held {
		p.count(one, -1)
		one.held = false
	} else {
		u.leave(one)
	}
	if u.held == 0 && len(u.queue) == 0 {
		delete(p.usages, u.responder)
	}
	p.admit()
}
