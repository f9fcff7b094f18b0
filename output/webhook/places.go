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

// places bound the attempts in progress, to one host or in all, so that endpoints which answer
// late or never take nothing from others. An attempt is late once it has lasted for lateAfter, and
// from the beginning if the last one of its caller was. There are places for prompt attempts, and a
// few in addition for those that begin late. An attempt that becomes late leaves its place to
// others, as long as there are not too many of both.
//
// Callers get places in turn: those that hold fewest first. While others may need one, a caller
// holds no more than one place before its first prompt answer, and never the last one in
// addition to others.
type places struct {
	prompt int // places for prompt attempts
	late   int // attempts that began late
	most   int // attempts

	mu       sync.Mutex
	isPrompt int // places of prompt attempts that are held
	isLate   int // late attempts in progress
	turns    map[*caller]*turn
	waiting  list.List // of *turn, the one that waits for longest first
}

func newPlaces(prompt, late, most int) *places {
	return &places{prompt: prompt, late: late, most: most, turns: map[*caller]*turn{}}
}

// caller is whoever makes attempts at one endpoint.
type caller struct {
	late   atomic.Bool // the last attempt was
	proven atomic.Bool // an attempt was answered promptly
}

// turn is the use that a caller makes of places.
type turn struct {
	caller *caller
	held   int
	queue  []*place      // that wait, the first one first
	at     *list.Element // in places.waiting; nil if the queue is empty
}

// place is the right to one attempt, once ready is closed. The fields after ready are guarded by
// the lock of its places.
type place struct {
	of    *places
	turn  *turn
	ready chan struct{} // closed by admit
	held  bool
	late  bool
}

// take waits for a place. The error is the cause of ctx.
func (p *places) take(ctx context.Context, c *caller) (*place, error) {
	p.mu.Lock()
	t := p.turns[c]
	if t == nil {
		t = &turn{caller: c}
		p.turns[c] = t
	}
	one := &place{of: p, turn: t, ready: make(chan struct{})}
	t.queue = append(t.queue, one)
	if t.at == nil {
		t.at = p.waiting.PushBack(t)
	}
	p.admit()
	p.mu.Unlock()
	select {
	case <-one.ready:
		return one, nil
	case <-ctx.Done():
		one.give()
		return nil, context.Cause(ctx)
	}
}

// admit lets all in for whom there is room. p.mu must be held.
func (p *places) admit() {
	for p.isPrompt+p.isLate < p.most {
		var next *turn
		for e := p.waiting.Front(); e != nil && (next == nil || next.held > 0); e = e.Next() {
			if t := e.Value.(*turn); p.room(t) && (next == nil || t.held < next.held) {
				next = t
			}
		}
		if next == nil {
			return
		}
		one := next.queue[0]
		one.held, one.late = true, next.caller.late.Load()
		p.count(one, 1)
		p.waiting.MoveToBack(next.at)
		next.leave(one)
		close(one.ready)
	}
}

// room reports whether the first attempt of a turn may begin. p.mu must be held.
func (p *places) room(t *turn) bool {
	switch {
	case t.caller.late.Load():
		return p.isLate < p.late
	case t.held == 0:
		return p.isPrompt < p.prompt
	default:
		return t.caller.proven.Load() && p.isPrompt < p.prompt-1
	}
}

func (p *places) count(one *place, n int) {
	one.turn.held += n
	if one.late {
		p.isLate += n
	} else {
		p.isPrompt += n
	}
}

// leave removes a place from those that wait.
func (t *turn) leave(one *place) {
	i := slices.Index(t.queue, one)
	if t.queue = slices.Delete(t.queue, i, i+1); len(t.queue) == 0 {
		one.of.waiting.Remove(t.at)
		t.at = nil
	}
}

// overdue says that the attempt is late from now on.
func (one *place) overdue() {
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

// give gives the place back, or stops waiting for it.
func (one *place) give() {
	p, t := one.of, one.turn
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.held {
		p.count(one, -1)
		one.held = false
	} else {
		t.leave(one)
	}
	if t.held == 0 && len(t.queue) == 0 {
		delete(p.turns, t.caller)
	}
	p.admit()
}
