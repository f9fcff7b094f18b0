package webhook

import (
	"errors"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// changed takes over what processes on the cluster wrote. It is called by one goroutine.
func (c *Cluster) changed(ch journal.Changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	if ch.All {
		clear(c.unreadable)
		clear(c.removed)
	}
	for _, rec := range ch.Records {
		if rec.Key == pageOfSubscriptions && rec.Value != nil {
			c.readPageLocked(rec)
		}
	}
	for _, rec := range ch.Records {
		if id, ok := strings.CutPrefix(rec.Key, keyOfSubscription); ok {
			known[id] = true
			c.readLocked(id, rec)
		}
	}
	if ch.All {
		c.s.mu.Lock()
		for id, sub := range c.s.byID {
			if !known[id] && sub.revision <= ch.Last {
				c.advances[id] = advance{id, sub.Life, sub.progress} // it may only have come late
				c.s.dropLocked(sub)
			}
		}
		c.s.mu.Unlock()
	}
	c.read, c.last = true, ch.Last
	close(c.moved)
	c.moved = make(chan struct{})
}

// readPageLocked reads how far the deliveries are, if another process makes them.
func (c *Cluster) readPageLocked(rec journal.Record) {
	s, err := c.page.parse(rec.Value)
	if err != nil {
		return // whoever is to deliver reports it
	}
	c.s.mu.Lock()
	own := c.s.ctx != nil
	c.s.mu.Unlock()
	if !own {
		c.advanceLocked(s.Advances)
	}
}

// advanceLocked takes over how far the deliveries are.
func (c *Cluster) advanceLocked(all []advance) {
	clear(c.advances)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, a := range all {
		c.advances[a.ID] = a
		if sub := c.s.byID[a.ID]; sub != nil && sub.Life == a.Life {
			sub.progress = a.progress
		}
	}
}

// readLocked takes over one record.
func (c *Cluster) readLocked(id string, rec journal.Record) {
	if rec.Value == nil {
		delete(c.unreadable, id)
		delete(c.removed, id)
		delete(c.advances, id)
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if sub := c.s.byID[id]; sub != nil && sub.revision < rec.Revision {
			c.s.dropLocked(sub)
		}
		return
	}
	if rec.Revision <= c.removed[id] {
		return
	}
	r, err := c.keys.open(id, rec.Value)
	if other, ok := errors.AsType[*otherKeyError](err); ok {
		if c.unreadable[id] = other.key; len(c.unreadable) == 1 {
			c.log.Error("this process cannot decrypt webhook subscriptions, so it delivers no webhooks", "err", other)
		}
		return
	}
	delete(c.unreadable, id)
	if err != nil {
		c.log.Warn("a stored webhook subscription is ignored", "id", printable.Line(id, 40), "reason", err.Error())
		return
	}
	c.applyLocked(r, rec.Revision)
}

// applyLocked makes or changes a subscription as its record says.
func (c *Cluster) applyLocked(r record, revision uint64) {
	if a, ok := c.advances[r.ID]; ok && a.Life == r.Life {
		r.progress = a.progress // if it is new here; else what is known stays
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if sub := c.s.byID[r.ID]; sub != nil && revision <= sub.revision {
		return
	}
	sub, err := c.s.applyLocked(r, revision)
	if err != nil {
		c.log.Warn("a stored webhook subscription is ignored", "id", printable.Line(r.ID, 40), "reason", err.Error())
		return
	}
	if !sub.answered {
		time.AfterFunc(answerWait, func() { c.presume(sub) })
	}
}

// presume delivers to a subscription of which no process said that its client has the
// answer.
func (c *Cluster) presume(sub *subscription) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !sub.answered && !sub.removed {
		sub.answered = true
		sub.wakeLocked()
	}
}

// loaded is the number of the write by which the page was loaded.
func (p *page) loaded() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision
}
