package webhook

import (
	"cmp"
	"context"
	"slices"
)

// alone is the store of a process that has its subscriptions for itself, in a file or in
// memory.
type alone struct {
	s    *Subscriptions
	file bool
}

func (a *alone) durable() bool { return a.file }

func (a *alone) keep(ctx context.Context, next record) (before *record, after record, err error) {
	a.s.mu.Lock()
	sub := a.s.byID[next.ID]
	if sub != nil && a.s.phaseLocked(sub) == over {
		a.s.dropLocked(sub)
		sub = nil
	}
	if sub != nil {
		was := sub.record
		before = &was
	}
	sub, err = a.s.applyLocked(next.after(before), 0)
	if err == nil {
		after = sub.record
	}
	a.s.mu.Unlock()
	if err != nil {
		return nil, record{}, err
	}
	if err = a.s.save(ctx); err != nil && before == nil {
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		a.s.dropLocked(sub)
	}
	return before, after, err
}

func (a *alone) answered(r record) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if sub := a.s.byID[r.ID]; sub != nil && sub.Life == r.Life && !sub.answered {
		sub.answered, sub.Unanswered = true, false
		sub.wakeLocked()
	}
}

func (a *alone) remove(ctx context.Context, id string) (found bool, err error) {
	a.s.mu.Lock()
	sub := a.s.byID[id]
	if sub != nil {
		a.s.dropLocked(sub)
	}
	a.s.mu.Unlock()
	if sub != nil {
		_ = a.s.save(ctx) // it was logged; the subscription ends at its time then
	}
	return sub != nil, nil
}

func (a *alone) drop(_ context.Context, sub *subscription) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	switch {
	case sub.removed:
	case a.s.phaseLocked(sub) < revoked: // it was refreshed meanwhile
		return errLook
	default:
		a.s.dropLocked(sub)
	}
	return nil
}

func (a *alone) run(ctx context.Context) error { return a.s.deliverAll(ctx, nil) }

func (a *alone) snapshotLocked() stored {
	var out []record
	for _, sub := range a.s.byID {
		out = append(out, sub.record)
	}
	slices.SortFunc(out, func(a, b record) int { return cmp.Compare(a.ID, b.ID) })
	return stored{Subscriptions: out}
}
