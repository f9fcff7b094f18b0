package eventsource

import "hash/maphash"

// maxSeen is how many of a subscription's last events are recognised if they come again.
const maxSeen = 10_000

// seen are the events that came last, by the hash of their ids: ids may be long. The zero
// value is ready.
type seen struct {
	seed maphash.Seed
	set  map[uint64]struct{}
	ring []uint64 // oldest at next, once it is full
	next int
}

// add notes an event and reports whether it came before.
func (s *seen) add(id string) (again bool) {
	if s.set == nil {
		s.seed, s.set = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	h := maphash.String(s.seed, id)
	if _, again = s.set[h]; again {
		return true
	}
	s.set[h] = struct{}{}
	if len(s.ring) < maxSeen {
		s.ring = append(s.ring, h)
		return false
	}
	delete(s.set, s.ring[s.next])
	s.ring[s.next] = h
	s.next = (s.next + 1) % maxSeen
	return false
}
