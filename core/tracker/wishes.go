package tracker

import "container/list"

// wishes is a queue of keys that want to be read. A key stands in one of them, once.
type wishes struct{ queue list.List }

func (w *wishes) empty() bool { return w.queue.Len() == 0 }

// wish queues the key for a read of its role; one at a time for every key.
func (c *coalescer) wish(k *key) {
	if k.role == roleNone || k.flying || k.wishedIn != nil {
		return
	}
	k.wishedIn = &c.wishes[k.role.urgency()]
	k.place = k.wishedIn.queue.PushBack(k)
}

// unwish takes the wish back.
func (c *coalescer) unwish(k *key) {
	if k.wishedIn != nil {
		k.wishedIn.queue.Remove(k.place)
		k.wishedIn, k.place = nil, nil
	}
}

// urgentInARow is after how many urgent reads another one has its turn: what is
// announced all the time must not keep the rest from being read at all.
const urgentInARow = 7

// nextRead returns a key to read now, given how many reads may be in flight at
// once, or nil. Urgent ones may use all slots and come first, but for one in eight;
// the others use half of the slots at most.
func (c *coalescer) nextRead(slots int) (*key, role) {
	if c.flying[0]+c.flying[1] >= slots {
		return nil, roleNone
	}
	urgent, others := !c.wishes[0].empty(), !c.wishes[1].empty()
	if c.flying[1] >= max(1, slots/2) || c.ending && urgent {
		others = false
	}
	switch {
	case others && (!urgent || c.urgent >= urgentInARow):
		c.urgent = 0
		return c.take(1)
	case urgent:
		c.urgent++
		return c.take(0)
	}
	return nil, roleNone
}

// take takes the key that stands first.
func (c *coalescer) take(urgency int) (*key, role) {
	k := c.wishes[urgency].queue.Front().Value.(*key)
	c.unwish(k)
	return k, k.role
}
