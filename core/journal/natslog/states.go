package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

const flushEvery = time.Second // how long a value waits, so that several versions of it become one write

// value is data of which the store keeps only the latest version: the state of a resource, a list,
// or the announcement about a server.
type value interface {
	// subject returns the subject on which the value is stored, relative to the "state." prefix.
	subject() string
	// encode returns the stored form of the value, and its time to live; 0 means forever.
	encode(at position) (data []byte, ttl time.Duration, err error)
}

// position specifies which events a stored value reflects: all events up to number Seq of the log
// with the given Epoch.
type position struct {
	Seq   uint64 `json:"seq"`
	Epoch string `json:"epoch,omitempty"`
}

// stateWriter collects values and stores them periodically. Its memory use is limited by the number
// of resources, lists and servers.
type stateWriter struct {
	store    *store
	pub      *publisher       // used only by the run goroutine
	progress storing.Progress // tracks each value from when it is put until it is stored or dropped
	// soon receives a token if all values are to be stored without waiting for flushEvery to pass.
	soon wake.Channel

	mu    sync.Mutex            // guards dirty
	dirty map[string]remembered // values that wait to be stored, by subject
}

type remembered struct {
	value value
	at    position
	lease *Lease // lease that must be held to store it; nil if none
	// sure is an earlier value that can be stored without a lease. It is stored instead if the
	// lease is lost. It is nil if there is none.
	sure *remembered
}

// over returns r as the replacement of the waiting value old. If r requires a lease, it keeps the
// earlier value that requires none.
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

// current returns the value that can be stored now. ok is false if there is none because the lease
// was lost.
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
	return &stateWriter{store: s, pub: newPublisher(s, callTimeout/2), soon: wake.New(), dirty: map[string]remembered{}}
}

// put queues a value, which replaces a waiting value with the same subject. If lease is or becomes
// lost, the value is dropped: the event to which it belongs is not stored either, and if the value
// were stored, another process would assume that the event had been published and would never
// publish it.
func (s *stateWriter) put(v value, lease *Lease, at position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	subject := v.subject()
	s.dirty[subject] = remembered{v, at, lease, nil}.over(s.dirty[subject])
	s.progress.Begin()
}

// settle waits until all values that were put before are stored, or until ctx ends.
func (s *stateWriter) settle(ctx context.Context) error {
	s.soon.Send()
	return s.progress.Wait(ctx)
}

// take removes and returns the waiting values. begun is the number of values that were put so far.
func (s *stateWriter) take() (values map[string]remembered, begun uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, s.dirty = s.dirty, map[string]remembered{}
	begun, _ = s.progress.Count()
	return values, begun
}

// takeBack queues values again that could not be stored, unless newer values have replaced them.
func (s *stateWriter) takeBack(values map[string]remembered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for subject, r := range s.dirty {
		values[subject] = r.over(values[subject])
	}
	s.dirty = values
}

// run stores the waiting values every flushEvery until ctx ends. Then it stores them one last time
// and returns.
func (s *stateWriter) run(ctx context.Context) {
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

// flush stores all waiting values. If that fails, the remaining values stay queued for the next
// flush, and the stream is created again if it was deleted.
func (s *stateWriter) flush(ctx context.Context) {
	values, begun := s.take()
	var records []*record
	prefix := s.store.subjects.of("state.")
	// Sort the subjects, so that the Pending list is stored before the list of resources; see
	// pendingLists.
	for _, subject := range slices.Sorted(maps.Keys(values)) {
		r, ok := values[subject].current()
		if !ok {
			delete(values, subject)
			continue
		}
		data, ttl, err := r.value.encode(r.at)
		if err == nil && len(data) > s.store.largest() {
			err = storing.ErrTooLarge
		}
		if err != nil {
			s.store.opts.Logger.Error("the state of a resource, list or server cannot be stored", "err", err)
			delete(values, subject)
			continue
		}
		records = append(records, &record{subject: prefix + subject, data: data, ttl: ttl})
	}
	for len(records) > 0 {
		n, err := s.pub.publish(ctx, records)
		for _, r := range records[:n] {
			delete(values, strings.TrimPrefix(r.subject, prefix))
		}
		if records = records[n:]; err != nil {
			s.takeBack(values)
			_ = s.store.ensureStates(ctx) // if this fails, the next flush fails too
			return
		}
	}
	s.progress.Finish(begun)
}

// resourceState is the JSON form in which the state of a resource is stored.
type resourceState struct {
	ServerID string    `json:"serverId"`
	URI      string    `json:"uri"`
	Digest   string    `json:"digest"`
	Size     int64     `json:"size,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	When     time.Time `json:"when"`
	position           // set by encode when the state is stored
}

func newResourceState(r journal.ResourceID, st journal.State) *resourceState {
	return &resourceState{ServerID: r.ServerID, URI: r.URI, Digest: st.Digest.String(), Size: st.Size, MimeType: st.MimeType, When: st.When.UTC()}
}

// tombstoneTTL is how long the store keeps the information that a resource was removed. It is much
// longer than the time for which events about the resource are stored, so no old event can bring it
// back.
const tombstoneTTL = 30 * 24 * time.Hour

func (s *resourceState) resource() journal.ResourceID {
	return journal.ResourceID{ServerID: s.ServerID, URI: s.URI}
}

func (s *resourceState) subject() string { return resourceToken(s.resource()) }

func (s *resourceState) encode(at position) (data []byte, ttl time.Duration, err error) {
	out := *s
	out.position = at
	data, err = json.Marshal(out)
	if d, _ := catalog.ParseDigest(s.Digest); d.IsZero() {
		ttl = tombstoneTTL
	}
	return data, ttl, err
}

// covers reports whether a value already reflects the message m from the log with the given epoch.
// p is the position of the value, and when is the time at which the value was stored. If p has
// another epoch, covers compares times instead of numbers, because a new epoch starts when events
// were lost and reuses their numbers.
func (p position) covers(when time.Time, m message, epoch string) bool {
	if p.Epoch == epoch {
		return m.seq <= p.Seq
	}
	return !m.stored.After(when)
}

// States implements [journal.Log]. It first waits until everything that was appended before is
// stored.
func (l *Log) States(ctx context.Context, server string) (out journal.States, err error) {
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	defer func() { err = storing.Cause(ctx, err) }()
	wait, done := context.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer done()
	if err := l.settle(wait); err != nil {
		return journal.States{}, err
	}
	of := "*" // subject token of the server; * for all servers
	if server != "" {
		of = serverToken(server)
	}
	out.Resources = map[journal.ResourceID]journal.State{}
	lists, removed, err := l.readStored(ctx, of, out.Resources)
	if err != nil {
		return journal.States{}, err
	}
	if err := l.changeLists(ctx, of, lists); err != nil {
		return journal.States{}, fmt.Errorf("event log: read the last changes of lists: %w", err)
	}
	out.Lists = make(map[journal.ListName]catalog.List, len(lists))
	for _, list := range lists {
		out.Lists[list.name] = list.items()
		for _, r := range removed { // the removal event does not report whether the resource is still listed; if it is, it is marked as gone
			if _, listed := list.keys[r.URI]; listed && list.name == (journal.ListName{ServerID: r.ServerID, Kind: catalog.Resources}) {
				out.Resources[r] = journal.State{Digest: catalog.Gone()}
			}
		}
	}
	return out, nil
}

// readStored reads the stored states of resources into resources, and applies newer events to them.
// It returns the stored lists by subject, and the resources that an event has removed and whose
// stored states do not reflect that yet.
func (l *Log) readStored(ctx context.Context, server string, resources map[journal.ResourceID]journal.State) (_ map[string]*listState, removed []journal.ResourceID, _ error) {
	set := func(r journal.ResourceID, st journal.State) {
		if resources[r] = st; st.Digest.IsZero() {
			delete(resources, r)
		}
	}
	lists := map[string]*listState{}
	type reflected struct {
		position
		when time.Time
	}
	covered := map[string]reflected{} // positions of the stored states, by resource token
	prefix := l.store.subjects.of("state.")
	err := l.store.latest(ctx, l.store.opts.Stream+"_states", func(m message) {
		below := strings.TrimPrefix(m.subject, prefix)
		if strings.Contains(below, listToken) {
			if list := readList(m.data); list != nil && (knownList{name: list.name}).subject() == below {
				lists[below] = list
			}
			return
		}
		var s resourceState
		if json.Unmarshal(m.data, &s) != nil || s.subject() != below {
			return // not the state of a resource
		}
		d, err := catalog.ParseDigest(s.Digest)
		if err != nil {
			return
		}
		set(s.resource(), journal.State{Digest: d, Size: s.Size, MimeType: s.MimeType, When: s.When})
		covered[below] = reflected{s.position, s.When}
	}, prefix+server+".>")
	if err != nil {
		return nil, nil, fmt.Errorf("event log: read the stored states of servers and resources: %w", err)
	}
	prefix = l.store.subjects.of("content.")
	err = l.store.latest(ctx, l.store.opts.Stream, func(m message) {
		by, ok := covered[strings.TrimPrefix(m.subject, prefix)]
		if ok && by.covers(by.when, m, l.Epoch()) {
			return // already reflected, like most events; decoding them all would slow down startup
		}
		var e event.Event
		if json.Unmarshal(m.data, &e) != nil {
			return
		}
		if r, st, ok := journal.Known(&e); ok {
			if set(r, st); st.Digest.IsZero() {
				removed = append(removed, r)
			}
		}
	}, prefix+server+".*")
	if err != nil {
		return nil, nil, fmt.Errorf("event log: read the last events: %w", err)
	}
	return lists, removed, nil
}

// AnnouncementTTL is how long the store keeps an announcement that is not repeated.
const AnnouncementTTL = time.Hour

// Announcement is the latest status of a server, as published by the process that holds the
// server's lease. The other processes on the cluster read it.
type Announcement struct {
	ServerID string `json:"serverId"`
	// Status is the status of the server in JSON. It is null if the server was removed.
	Status json.RawMessage `json:"status"`
}

func (a Announcement) subject() string { return serverToken(a.ServerID) + ".server" }

func (a Announcement) encode(position) (data []byte, ttl time.Duration, err error) {
	data, err = json.Marshal(a)
	return data, AnnouncementTTL, err
}

// Announce publishes a as the new announcement about its server, unless the lease was lost. It
// never waits. It returns [journal.ErrClosed], or an error if Status is not valid JSON.
func (l *Lease) Announce(a Announcement) error {
	if a.Status != nil && !json.Valid(a.Status) {
		return errors.New("event log: the status of a server is not JSON")
	}
	return l.log.remember(a, l)
}

// Announcements yields the latest announcement about every server, and then every new one. Some
// announcements may be repeated. The sequence ends with an error: the cause of ctx or
// [journal.ErrClosed].
func (l *Log) Announcements(ctx context.Context) iter.Seq2[Announcement, error] {
	return func(yield func(Announcement, error) bool) {
		ctx, cancel := l.life.Begin(ctx)
		defer cancel()
		for ctx.Err() == nil {
			err := l.store.followAnnouncements(ctx, func(a Announcement) bool { return yield(a, nil) })
			if errors.Is(err, storing.ErrStop) {
				return
			}
			backoff.Sleep(ctx, bucketRetry)
		}
		yield(Announcement{}, context.Cause(ctx))
	}
}

// followAnnouncements yields announcements from one consumer until that fails, or yield returns false.
func (s *store) followAnnouncements(ctx context.Context, yield func(Announcement) bool) error {
	c, err := s.consumer(ctx, s.opts.Stream+"_states", jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{s.subjects.of("state.*.server")},
	})
	if err != nil {
		return err
	}
	defer c.close()
	for err == nil {
		err = c.fetch(ctx, 0, func(m message) error {
			var a Announcement
			if json.Unmarshal(sanitize(m.data), &a) == nil && a.ServerID != "" && !yield(a) {
				return storing.ErrStop
			}
			return nil
		})
	}
	return err
}
