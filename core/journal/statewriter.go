package journal

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"time"
)

const (
	flushEvery = time.Second
	flushAt    = 20_000 // states; each is a write in addition to those of the events
)

// stateWriter collects states, lists and notes, and stores them from time to time. Its memory
// is bounded by the number of resources and lists.
type stateWriter struct {
	store *store
	head  *head
	pub   *publisher // used by run only
	// full is signalled when flushAt states wait, to have them stored before flushEvery is
	// over. Capacity 1, never closed.
	full chan struct{}

	mu     sync.Mutex // guards all below
	dirty  map[Resource]sequenced
	notes  map[string]*note // by subject
	flying int              // taken from the maps and not stored yet
}

// note is the last version of a value that is remembered, other than the state of a resource.
type note struct {
	subject string // of its first part; the others have .1, .2, …
	parts   [][]byte
	ttl     time.Duration // 0: for ever
	lease   *Lease        // the lease it is stored under; nil: none is needed
}

type sequenced struct {
	State
	seq   uint64
	lease *Lease // the lease it is stored under; nil: none is needed
}

func newStateWriter(s *store, h *head) *stateWriter {
	return &stateWriter{store: s, head: h, full: make(chan struct{}, 1), dirty: map[Resource]sequenced{}, notes: map[string]*note{}}
}

func (s *stateWriter) open() (err error) {
	s.pub, err = newPublisher(s.store)
	return err
}

// put queues the state of an item, which reflects the events up to seq. If its lease is lost
// the state is dropped: its event may have been dropped as well, and a process that took the
// state as published would never publish it.
func (s *stateWriter) put(it *item, seq uint64) {
	if it.lease != nil && it.lease.isLost() {
		return
	}
	s.mu.Lock()
	if it.note != nil {
		s.notes[it.note.subject] = it.note
	} else {
		s.dirty[it.resource] = sequenced{it.state, seq, it.lease}
	}
	full := len(s.dirty) >= flushAt
	s.mu.Unlock()
	if full {
		s.hurry()
	}
}

// hurry requests that everything be stored soon.
func (s *stateWriter) hurry() {
	select {
	case s.full <- struct{}{}:
	default:
	}
}

// waiting returns how many values are not stored yet.
func (s *stateWriter) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty) + len(s.notes) + s.flying
}

func (s *stateWriter) take() (map[Resource]sequenced, map[string]*note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	states, notes := s.dirty, s.notes
	s.dirty, s.notes, s.flying = map[Resource]sequenced{}, map[string]*note{}, len(s.dirty)+len(s.notes)
	return states, notes
}

// landed ends a step that take began. It takes back the values that could not be stored, unless
// there are newer ones.
func (s *stateWriter) landed(states map[Resource]sequenced, notes map[string]*note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying = 0
	maps.Copy(states, s.dirty)
	maps.Copy(notes, s.notes)
	s.dirty, s.notes = states, notes
}

// run stores states every flushEvery until ctx ends, and once more then.
func (s *stateWriter) run(ctx context.Context) {
	defer s.pub.close()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.full:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.store.opts.Drain)
			s.flush(last)
			cancel()
			return
		}
		s.flush(ctx)
	}
}

// flush stores all waiting values. After a failure the rest waits for the next time; the writer
// of events repairs the store.
func (s *stateWriter) flush(ctx context.Context) {
	states, notes := s.take()
	defer func() { s.landed(states, notes) }()
	var records []*record
	var done []func() // for each record: a function to call once it is stored
	for r, st := range states {
		remove := func() { delete(states, r) }
		data, err := json.Marshal(stored{r.ServerID, r.URI, st.Digest.String(), st.Size, st.MimeType, st.When.UTC(), st.seq, s.head.id()})
		if err != nil || st.lease != nil && st.lease.isLost() {
			remove()
			continue
		}
		rec := &record{subject: s.store.subjects.of("state.") + r.token(), data: data}
		if st.Digest.IsZero() {
			rec.ttl = tombstoneTTL
		}
		records, done = append(records, rec), append(done, remove)
	}
	for subject, n := range notes {
		if n.lease != nil && n.lease.isLost() {
			delete(notes, subject)
			continue
		}
		for i, data := range n.parts {
			rec, stored := &record{subject: subject, data: data, ttl: n.ttl}, func() {}
			if i > 0 {
				rec.subject += "." + strconv.Itoa(i)
			}
			if i == len(n.parts)-1 {
				stored = func() { delete(notes, subject) }
			}
			records, done = append(records, rec), append(done, stored)
		}
	}
	for len(records) > 0 {
		n, err := s.pub.publish(ctx, records)
		for _, stored := range done[:n] {
			stored()
		}
		records, done = records[n:], done[n:]
		if err != nil {
			return
		}
	}
}
