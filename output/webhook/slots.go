package webhook

import (
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
// Responders take turns: the one that holds the fewest slots is served first, and none takes the last free
// slot in addition to others.
type slots struct {
	prompt int // limit on prompt attempts
	late   int // limit on attempts that started late
	most   int // limit on all attempts

	mu       sync.Mutex
	isPrompt int // prompt attempts in progress
	isLate   int // late attempts in progress
	held     map[*responder]int
	waiting  []*slot // longest wait first
}

func newSlots(prompt, late, most int) *slots {
	return &slots{prompt: prompt, late: late, most: most, held: map[*responder]int{}}
}

// responder is an endpoint whose attempts the slots limit.
type responder struct {
	late atomic.Bool // the last attempt was late
}

// slot is permission to make one attempt, granted when ready is closed. The mutex of slots guards
// the fields after ready.
type slot struct {
	of    *slots
	who   *responder
	ready chan struct{} // closed by admit
	late  bool
	over  bool // released
}

// take waits for a slot. The returned error is the cause of ctx.
func (p *slots) take(ctx context.Context, who *responder) (*slot, error) {
	one := &slot{of: p, who: who, ready: make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, one)
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
		at := -1
		for i, one := range p.waiting {
			if p.room(one.who) && (at < 0 || p.held[one.who] < p.held[p.waiting[at].who]) {
				at = i
			}
		}
		if at < 0 {
			return
		}
		one := p.waiting[at]
		p.waiting = slices.Delete(p.waiting, at, at+1)
		one.late = one.who.late.Load()
		p.count(one, 1)
		close(one.ready)
	}
}

// room reports whether an attempt of a responder may start. p.mu must be held.
func (p *slots) room(who *responder) bool {
	switch {
	case who.late.Load():
		return p.isLate < p.late
	case p.held[who] == 0:
		return p.isPrompt < p.prompt
	default:
		return p.isPrompt < p.prompt-1
	}
}

func (p *slots) count(one *slot, n int) {
	if p.held[one.who] += n; p.held[one.who] == 0 {
		delete(p.held, one.who)
	}
	if one.late {
		p.isLate += n
	} else {
		p.isPrompt += n
	}
}

// setLate records that the attempt has become late. The slot must have been granted.
func (one *slot) setLate() {
	p := one.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if !one.late && !one.over {
		p.count(one, -1)
		one.late = true
		p.count(one, 1)
		p.admit()
	}
}

// release frees the slot, or removes it from the queue if it was not granted.
func (one *slot) release() {
	p := one.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, one); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	} else {
		p.count(one, -1)
	}
	one.over = true
	p.admit()
}
