package webhook

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// lateAfter is the duration after which an attempt counts as late.
const lateAfter = time.Second

// slots limits concurrent attempts, to one host or in total, so that endpoints that respond late or
// never do not block the others. An attempt is late after it has lasted for lateAfter, or from its
// start if its responder's previous attempt was late. Most slots are for prompt attempts, and a
// small number are reserved for attempts that start late. An attempt that becomes late frees its
// prompt slot, unless the total of both kinds has reached its limit.
//
// Responders take turns: the one that holds the fewest slots is served first. While other
// responders may need a slot, a responder holds at most one slot until its first prompt response,
// and never takes the last free slot in addition to others.
type slots struct {
	prompt int // limit on prompt attempts
	late   int // limit on attempts that started late
	most   int // limit on all attempts

	mu       sync.Mutex
	isPrompt int // prompt attempts in progress
	isLate   int // late attempts in progress
	usages   map[*responder]*usage
	waiting  list.List // elements are *usage, longest wait first
}

func newSlots(prompt, late, most int) *slots {
	return &slots{prompt: prompt, late: late, most: most, usages: map[*responder]*usage{}}
}

// responder is an endpoint whose attempts the slots limit.
type responder struct {
	late   atomic.Bool // the last attempt was late
	proven atomic.Bool // at least one attempt had a prompt response
}

// usage counts the slots that one responder holds, and queues the ones it waits for.
type usage struct {
	responder *responder
	held      int
	queue     []*slot       // waiting slots, in order
	at        *list.Element // its element in slots.waiting; nil if queue is empty
}

// slot is permission to make one attempt, granted when ready is closed. The mutex of slots guards
// the fields after ready.
type slot struct {
	of    *slots
	usage *usage
	ready chan struct{} // closed by admit
	held  bool
	late  bool
}

// take waits for a slot. The returned error is the cause of ctx.
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

// admit grants as many waiting slots as the limits allow. p.mu must be held.
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

// leave removes a slot from the responder's queue.
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

// release frees the slot, or removes it from the queue if it was not granted.
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
