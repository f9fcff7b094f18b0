package natslog

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
)

const (
	flushEvery = time.Second
	flushAt    = 20_000 // values; each is a write in addition to the events
)

// value is the last version of something that is remembered: the state of a resource, a list, or
// the announcement about a server.
type value interface {
	// subject is where it is stored, below "state.".
	subject() string
	// encode returns its parts, of at most limit bytes, and how long they are stored; 0: for ever.
	// The first part is stored on the subject, the others below it as 1, 2, …
	encode(at position, limit int) (parts [][]byte, ttl time.Duration, err error)
}

// position says which events a stored value reflects: those up to number Seq of the log with
// that Epoch.
type position struct {
	Seq   uint64 `json:"seq"`
	Epoch string `json:"epoch,omitempty"`
}

// stateWriter collects values, and stores them from time to time. Its memory is bounded by the
// number of resources, lists and servers.
type stateWriter struct {
	store    *store
	pub      *publisher // used by run only
	progress progress   // of values: put, and stored or dropped
	// soon is signalled to have everything stored before flushEvery is over. Capacity 1, never
	// closed.
	soon chan struct{}

	mu    sync.Mutex            // guards below
	dirty map[string]remembered // by subject
	// found has, by subject, lists that no event told and that may not be stored: the number of
	// each in progress.
	found map[string]uint64
}

type remembered struct {
	value value
	at    position
	lease *Lease // the lease it is stored under; nil: none is needed
	// sure is an earlier value that needs no lease, and is stored if the lease is lost.
	sure *remembered
}

// over returns what waits once r was put after old.
func (r remembered) over(old remembered) remembered {
	switch {
	case r.lease == nil || r.sure != nil:
	case old.lease != nil:
		r.sure = old.sure
	case old.value != nil:
		r.sure = &old
	}
	return r
}

// current returns what is to be stored now, if anything.
func (r remembered) current() (now remembered, ok bool) {
	switch {
	case r.lease == nil || !r.lease.isLost():
		return r, true
	case r.sure != nil:
		return *r.sure, true
	}
	return remembered{}, false
}

func newStateWriter(s *store) *stateWriter {
	return &stateWriter{store: s, soon: make(chan struct{}, 1), dirty: map[string]remembered{}, found: map[string]uint64{}}
}

func (s *stateWriter) open() (err error) {
	s.pub, err = newPublisher(s.store, callTimeout/2)
	return err
}

// put queues a value. If its lease is lost the value is dropped, also later: its event, if there
// is one, is not stored, and a process that took the value for published would never publish it.
// found says that no event tells the value.
func (s *stateWriter) put(v value, lease *Lease, at position, found bool) {
	s.mu.Lock()
	subject := v.subject()
	s.dirty[subject] = remembered{v, at, lease, nil}.over(s.dirty[subject])
	n := s.progress.begin()
	if _, list := v.(knownList); list && found {
		s.found[subject] = n
	}
	full := len(s.dirty) >= flushAt
	s.mu.Unlock()
	if full {
		s.hurry()
	}
}

// known waits until a list is stored that no event told: changes are applied to it only then. It
// waits for a store that does not answer for callTimeout at most, so that the log continues.
func (s *stateWriter) known(ctx context.Context, subject string) {
	s.mu.Lock()
	n, ok := s.found[subject]
	delete(s.found, subject)
	s.mu.Unlock()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s.hurry()
	_ = s.progress.reach(ctx, n)
}

// hurry requests that everything be stored soon.
func (s *stateWriter) hurry() {
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// take returns the values that wait, and how many were put until now.
func (s *stateWriter) take() (values map[string]remembered, begun uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, s.dirty = s.dirty, map[string]remembered{}
	return values, s.progress.count()
}

// takeBack takes back values that could not be stored, unless there are newer ones.
func (s *stateWriter) takeBack(values map[string]remembered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for subject, r := range s.dirty {
		values[subject] = r.over(values[subject])
	}
	s.dirty = values
}

// run stores values every flushEvery until ctx ends, and once more then.
func (s *stateWriter) run(ctx context.Context) {
	defer s.pub.close()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.soon:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.store.opts.Drain)
			s.flush(last)
			cancel()
			return
		}
		s.flush(ctx)
	}
}

// flush stores all values that wait. After a failure the rest waits for the next time; the
// writer of events repairs the store.
func (s *stateWriter) flush(ctx context.Context) {
	values, begun := s.take()
	var records []*record
	var ends []string // for each record: the subject of the value that is stored with it, or ""
	limit := s.store.largest()
	// In order, so that what is owed is stored before the list of resources: see changeLists.
	for _, subject := range slices.Sorted(maps.Keys(values)) {
		r, ok := values[subject].current()
		if !ok {
			delete(values, subject)
			continue
		}
		parts, ttl, err := r.value.encode(r.at, limit)
		if slices.ContainsFunc(parts, func(data []byte) bool { return len(data) > limit }) {
			err = journal.ErrTooLarge
		}
		if err != nil {
			s.store.opts.Logger.Error("what is known of a resource, a list or a server cannot be stored", "err", err)
			delete(values, subject)
			continue
		}
		at := s.store.subjects.of("state." + subject)
		for i, data := range parts {
			rec, end := &record{subject: at, data: data, ttl: ttl}, ""
			if i > 0 {
				rec.subject += "." + strconv.Itoa(i)
			}
			if i == len(parts)-1 {
				end = subject
			}
			records, ends = append(records, rec), append(ends, end)
		}
	}
	for len(records) > 0 {
		n, err := s.pub.publish(ctx, records)
		for _, subject := range ends[:n] {
			delete(values, subject)
		}
		if records, ends = records[n:], ends[n:]; err != nil {
			s.takeBack(values)
			return
		}
	}
	s.progress.finish(begun)
}
