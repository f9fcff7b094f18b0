package webhook

import (
	"context"
	"errors"

	"github.com/mcptrack/mcptrack/core/journal"
)

// keep is that of store. Whoever was faster is seen, and the request is applied to that.
func (c *Cluster) keep(ctx context.Context, next record) (before *record, after record, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	rec := journal.Record{Key: keyOfSubscription + next.ID}
	for {
		var last uint64
		var known bool
		if before, rec.Revision, last, known, err = c.current(next.ID); err != nil {
			return nil, record{}, err
		}
		after = next.after(before)
		if rec.Value, err = c.keys.seal(after); err != nil {
			return nil, record{}, err
		}
		switch full := c.full(&next); {
		case !known:
			err = journal.ErrChanged
		case before != nil:
			rec.Revision, err = c.records.Put(ctx, rec)
		case full != nil:
			return nil, record{}, full
		default: // the limits hold as long as nothing else was written
			rec.Revision, err = c.records.PutAfter(ctx, rec, last)
		}
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.applyLocked(after, rec.Revision)
			return before, after, nil
		}
		if !errors.Is(err, journal.ErrChanged) || !c.wait(ctx, last) {
			return nil, record{}, err
		}
	}
}

// current returns a record with what is known of its deliveries, nil if there is none or
// its time is over, its revision, and the number of the last write that is known, if any is.
func (c *Cluster) current(id string) (r *record, revision, last uint64, known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, ok := c.unreadable[id]; ok {
		return nil, 0, 0, false, &otherKeyError{other}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if sub := c.s.byID[id]; sub != nil && !sub.expired() {
		now := sub.record
		return &now, sub.revision, c.last, c.read, nil
	}
	return nil, 0, c.last, c.read, nil
}

// full returns why the client of a record may make no other one.
func (c *Cluster) full(next *record) *fullError {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	own, all := 0, 0
	for _, sub := range c.s.byID {
		if sub.ID == next.ID || sub.expired() {
			continue
		}
		all++
		if sub.Principal == next.Principal {
			own++
		}
	}
	return c.s.opts.limit(own, all)
}

func (c *Cluster) answered(r record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.mu.Lock()
	if sub := c.s.byID[r.ID]; sub != nil && sub.Life == r.Life && !sub.answered {
		sub.answered = true
		sub.wakeLocked()
	}
	c.s.mu.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil {
		return
	}
	ctx := c.ctx
	c.answers.Go(func() { c.tell(ctx, r) })
}

// tell says in the record that the answer was written. If that fails, the process that
// delivers waits for answerWait.
func (c *Cluster) tell(ctx context.Context, r record) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for {
		last := c.seen()
		rec, err := c.records.Get(ctx, keyOfSubscription+r.ID)
		if err != nil || rec.Value == nil {
			return
		}
		now, err := c.keys.open(r.ID, rec.Value)
		if err != nil || now.Life != r.Life || !now.Unanswered {
			return
		}
		now.Unanswered = false
		if rec.Value, err = c.keys.seal(now); err != nil {
			return
		}
		if _, err = c.records.Put(ctx, rec); !errors.Is(err, journal.ErrChanged) || !c.wait(ctx, last) {
			return
		}
	}
}

func (c *Cluster) remove(ctx context.Context, id string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	for {
		last := c.seen()
		rec, err := c.records.Get(ctx, keyOfSubscription+id)
		if err != nil || rec.Value == nil {
			return false, err
		}
		if err = c.records.Remove(ctx, rec); err == nil {
			c.forget(id, rec.Revision)
			return true, nil
		}
		if !errors.Is(err, journal.ErrChanged) || !c.wait(ctx, last) {
			return false, err
		}
	}
}

func (c *Cluster) drop(ctx context.Context, sub *subscription) error {
	c.s.mu.Lock()
	revision := sub.revision
	c.s.mu.Unlock()
	if err := c.records.Remove(ctx, journal.Record{Key: keyOfSubscription + sub.ID, Revision: revision}); err != nil {
		return err // if it has changed, that is applied soon
	}
	c.forget(sub.ID, revision)
	return nil
}

// forget removes a subscription whose record was removed.
func (c *Cluster) forget(id string, revision uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed[id] = revision
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if sub := c.s.byID[id]; sub != nil && sub.revision <= revision {
		c.s.dropLocked(sub)
	}
}
