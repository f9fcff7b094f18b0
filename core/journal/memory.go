package journal

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/internal/wake"
)

// DefaultLag and DefaultLagBytes limit how far a follower of a [Memory] may fall behind by default,
// as a number of events and as the size of their texts in bytes.
const DefaultLag, DefaultLagBytes = 1 << 16, 64 << 20

// MemoryOptions configures a [Memory]. Zero values select the defaults.
type MemoryOptions struct {
	// Keep and KeepBytes limit how many events remain available to Read, Resume and Select, and the
	// total size of their texts and lists. The newest events are kept. The defaults are 1,024
	// events and 8 MiB.
	Keep, KeepBytes int
	// Lag and LagBytes limit the events that are kept beyond that because a follower has not received
	// them. The defaults are [DefaultLag] and [DefaultLagBytes].
	Lag, LagBytes int
	// KeepContent limits the total size of the texts in Contents, in bytes. If it is 0, no texts
	// are kept.
	KeepContent int64
}

// Memory is a [Log] that exists only in memory and is lost when the process exits. An appended
// event is visible immediately. Appending never fails before Close.
//
// All followers read the same events. One that falls behind by more than [MemoryOptions.Lag] events, or
// more than LagBytes, receives a gap with [ReasonSlow]. After the gap it receives the last event of
// every resource, list and server that had an event in the gap, with Again set. Memory use is limited by
// KeepBytes, by LagBytes, and by the number of resources; it does not depend on the number or size of
// the events. The last event of a removed resource or server is discarded after
// every follower has received the removal; a follower that later requests earlier events receives
// only the gap.
type Memory struct {
	opts     MemoryOptions
	epoch    string
	contents memoryContents

	mu     sync.Mutex // guards the fields below and all subscriptions; not held during I/O
	last   uint64
	unseen uint64 // number of events published after Close
	recent []held // the newest events up to last, oldest first, without holes
	bytes  int    // total size of recent
	latest map[subject]held
	sweep  int // when latest reaches this size, removals are discarded
	known  States
	subs   map[*Subscription]struct{}
	closed bool
}

// held is an event that the log keeps in memory.
type held struct {
	*event.Event
	stored time.Time
	size   int // in bytes, from MemoryOf
}

// subject identifies the resource, list or server whose state an event reports.
type subject struct {
	server, uri string
	about       event.Type // empty for a resource
}

// NewMemory returns an empty log with a random epoch.
func NewMemory(opts MemoryOptions) *Memory {
	opts.Keep, opts.KeepBytes, opts.Lag = cmp.Or(opts.Keep, 1<<10), cmp.Or(opts.KeepBytes, 8<<20), cmp.Or(opts.Lag, DefaultLag)
	opts.LagBytes = cmp.Or(opts.LagBytes, DefaultLagBytes)
	m := &Memory{opts: opts, epoch: NewEpoch(), latest: map[subject]held{}, subs: map[*Subscription]struct{}{},
		known: States{Resources: map[ResourceID]State{}, Lists: map[ListName]catalog.List{}}}
	m.contents.keep = opts.KeepContent
	return m
}

func (m *Memory) Epoch() string { return m.epoch }

// Publish appends the event and returns it with the id that the log assigned. The result is shared
// and must not be modified. After Close, the event is assigned a number but no reader receives it.
func (m *Memory) Publish(e event.Event) *event.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		return m.appendLocked(e)
	}
	late := e // a copy only here, so that other events are not copied twice
	m.unseen++
	late.Seq = m.last + m.unseen
	late.ID = event.FormatID(m.epoch, late.Seq)
	return &late
}

func (m *Memory) appendLocked(e event.Event) *event.Event {
	if r, st, ok := Known(&e); ok {
		m.rememberLocked(r, st)
	}
	for name, list := range KnownLists(&e) {
		m.rememberListLocked(name, list)
	}
	e = *WithoutDefinitions(&e)
	m.last++
	e.Seq, e.ID = m.last, event.FormatID(m.epoch, m.last)
	h := held{&e, time.Now(), MemoryOf(&e)}
	m.recent, m.bytes = append(m.recent, h), m.bytes+h.size
	m.trimLocked()
	m.latestLocked(h)
	for s := range m.subs {
		s.wake.Send()
	}
	return h.Event
}

// trimLocked discards old events, except for the last one and those that a follower has not received.
func (m *Memory) trimLocked() {
	needed := m.neededLocked(m.last + 1)
	for len(m.recent) > 1 && (len(m.recent) > m.opts.Keep || m.bytes > m.opts.KeepBytes) &&
		(m.recent[0].Seq < needed || len(m.recent) > m.opts.Lag || m.bytes > m.opts.LagBytes) {
		m.bytes -= m.recent[0].size
		m.recent[0] = held{}
		m.recent = m.recent[1:]
	}
}

// neededLocked returns the number of the oldest event from number first on, or before it, that a follower
// has not received.
func (m *Memory) neededLocked(first uint64) uint64 {
	for s := range m.subs {
		first = min(first, s.from)
	}
	return first
}

func (m *Memory) latestLocked(e held) {
	at := subject{server: e.ServerID, uri: e.ResourceURI}
	if at.uri == "" {
		at.about = e.Type()
	}
	if at.about == event.TypeServerState && removal(e.Event) { // the server was removed from the config
		maps.DeleteFunc(m.latest, func(s subject, _ held) bool { return s.server == e.ServerID })
	}
	m.latest[at] = e
	if len(m.latest) > m.sweep {
		m.sweepLocked()
		m.sweep = max(1<<10, 2*len(m.latest)) // doubling keeps the average cost per event low
	}
}

// sweepLocked discards removals that are no longer in recent and that every subscriber has
// received. Without it, resources that are repeatedly created and removed would exhaust the memory.
func (m *Memory) sweepLocked() {
	needed := m.neededLocked(m.firstLocked())
	maps.DeleteFunc(m.latest, func(_ subject, e held) bool { return e.Seq < needed && removal(e.Event) })
}

func removal(e *event.Event) bool {
	switch p := e.Payload.(type) {
	case event.ResourceRemoved:
		return true
	case event.ServerState:
		return p.State == event.Stopping && p.Reason == "removed"
	}
	return false
}

func (m *Memory) Append(e *event.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.appendLocked(*e)
	return nil
}

func (m *Memory) Remember(r ResourceID, st State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.rememberLocked(r, st)
	return nil
}

func (m *Memory) rememberLocked(r ResourceID, st State) {
	if st.Text = nil; st.Digest.IsZero() {
		delete(m.known.Resources, r)
	} else {
		m.known.Resources[r] = st
	}
}

func (m *Memory) RememberList(name ListName, list catalog.List) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.rememberListLocked(name, list)
	return nil
}

func (m *Memory) rememberListLocked(name ListName, list catalog.List) {
	m.known.Lists[name] = StoredList(list)
}

func (m *Memory) States(_ context.Context, server string) (States, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := States{Resources: map[ResourceID]State{}, Lists: map[ListName]catalog.List{}}
	for r, st := range m.known.Resources {
		if server == "" || r.ServerID == server {
			out.Resources[r] = st
		}
	}
	for name, list := range m.known.Lists {
		if server == "" || name.ServerID == server {
			out.Lists[name] = list
		}
	}
	return out, nil
}

// Flush implements [Log]. It does nothing, because every event is stored immediately.
func (m *Memory) Flush(context.Context) error { return nil }

func (m *Memory) Bounds(context.Context) (Bounds, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Bounds{Epoch: m.epoch, First: m.firstLocked(), Last: m.last, Bytes: uint64(m.bytes)}, nil
}

// Last returns the number of the last event, or 0 if there is none yet.
func (m *Memory) Last() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

func (m *Memory) firstLocked() uint64 { return m.last + 1 - uint64(len(m.recent)) }

func (m *Memory) Read(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		m.mu.Lock()
		from, first := max(from, 1), m.firstLocked()
		var events []held
		if from <= m.last {
			events = slices.Clone(m.recent[max(from, first)-first:])
		}
		last := m.last
		m.mu.Unlock()
		if from < first && from <= last && !yield(GapEntry(m.epoch, from, first-1, ReasonRetention), nil) {
			return
		}
		for i, e := range events {
			if ctx.Err() != nil {
				yield(Entry{}, context.Cause(ctx))
				return
			}
			entry := e.entry()
			entry.More = i < len(events)-1
			if !yield(entry, nil) {
				return
			}
		}
	}
}

func (h held) entry() Entry {
	out := Entry{ID: h.ID, Seq: h.Seq, Stored: h.stored, event: h.Event}
	if g, ok := h.Payload.(event.Gap); ok && g.To == h.ID {
		out.Gap = &g
	}
	return out
}

// Follow implements [Log]. The subscription starts at the call, so the sequence includes every
// later event, even if the caller starts iterating later. The caller must iterate over the sequence
// or end ctx; otherwise the subscription is never released. When ctx ends, the sequence first
// yields the events that were appended before.
func (m *Memory) Follow(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	s := m.subscribe(ctx, max(from, 1))
	return func(yield func(Entry, error) bool) {
		defer s.Close()
		next := uint64(0)
		for batch := s.next(); batch != nil; batch = s.next() {
			for i, e := range batch {
				entry := e.entry()
				entry.Again, entry.More = entry.Seq < next, i < len(batch)-1
				next = max(next, entry.Seq+1)
				if !yield(entry, nil) {
					return
				}
			}
		}
		yield(Entry{}, cmp.Or[error](s.Err(), ErrClosed))
	}
}

func (m *Memory) Select(ctx context.Context, sel Selection) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range m.Read(ctx, 0) {
			if err == nil && (e.Gap != nil || !sel.selects(e)) {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (s Selection) selects(entry Entry) bool {
	e := entry.event
	if entry.Stored.Before(s.After) || s.ServerID != "" && e.ServerID != s.ServerID {
		return false
	}
	if s.ServerID == "" || s.URI == "" {
		return s.ServerID == "" || !s.Own || e.ResourceURI == ""
	}
	_, _, content := Known(e)
	return content && e.ResourceURI == s.URI
}

func (m *Memory) Resume(ctx context.Context, id string) (Resumption, error) {
	b, err := m.Bounds(ctx)
	return ResumeAt(b, id), err
}

func (m *Memory) Since(_ context.Context, t time.Time) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range m.recent {
		if !e.stored.Before(t) {
			return m.firstLocked() + uint64(i), nil
		}
	}
	return m.last + 1, nil
}

// KeepsContent reports whether Contents stores texts at all.
func (m *Memory) KeepsContent() bool { return m.contents.keep > 0 }

func (m *Memory) Contents() Contents { return &m.contents }

func (m *Memory) Err() error { return nil }

func (m *Memory) Stats() StoreStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return StoreStats{Stored: m.last}
}

// Close ends every subscription and iterator after its consumer has received the events appended
// before Close. It does not wait for the consumers. It may be called more than once.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for s := range m.subs {
		s.endLocked(nil)
	}
	return nil
}

// Subscribe starts a stream of all events that are appended from now on. The stream ends when ctx
// ends, the log is closed, or Subscription.Close is called.
func (m *Memory) Subscribe(ctx context.Context) *Subscription { return m.subscribe(ctx, 0) }

// subscribe starts a stream of all events whose number is at least from. If from is 0, the stream
// starts with the next new event.
func (m *Memory) subscribe(ctx context.Context, from uint64) *Subscription {
	s := &Subscription{log: m, wake: wake.New(), late: ReasonSlow}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.from = from; from == 0 {
		s.from = m.last + 1
	} else if from < m.firstLocked() {
		s.late = ReasonRetention
	}
	s.wake.Send()
	if m.closed {
		s.endLocked(nil)
		return s
	}
	m.subs[s] = struct{}{}
	s.stop = context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.endLocked(context.Cause(ctx))
	})
	return s
}

// Subscription delivers the events of a [Memory] to one consumer. The documentation of Memory
// describes what a slow consumer receives.
type Subscription struct {
	log  *Memory
	stop func() bool // stops watching the subscriber's context; nil if not watching

	wake wake.Channel // sent by the log: there may be something to take

	// The log's mutex guards all fields below.
	from  uint64 // number of the next event that the consumer is to receive
	late  string // reason of a gap before that
	ended bool   // the stream has ended
	rest  []held // what the consumer had not received by then
	err   error  // the result of Err
}

// Next waits for events and returns all new ones, oldest first. It returns nil after the end of
// the stream. The caller owns the slice.
func (s *Subscription) Next() []*event.Event { return events(s.next()) }

func (s *Subscription) next() []held {
	for {
		if batch, ended := s.take(); len(batch) > 0 || ended {
			return batch
		}
		<-s.wake
	}
}

// Take is a version of Next that does not wait. It returns the events that are there now, possibly
// none. If ended is true, the stream has ended and no events will follow.
func (s *Subscription) Take() (batch []*event.Event, ended bool) {
	held, ended := s.take()
	return events(held), ended
}

func (s *Subscription) take() (batch []held, ended bool) {
	m := s.log
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.ended {
		batch, s.rest = s.rest, nil
		return batch, true
	}
	batch = s.newLocked()
	m.trimLocked()
	return batch, false
}

// newLocked returns the events that the consumer has not received.
func (s *Subscription) newLocked() (batch []held) {
	m := s.log
	if s.from > m.last {
		return nil
	}
	first := m.firstLocked()
	if s.from < first {
		batch = m.missedLocked(s.from, first-1, s.late)
	}
	batch = append(batch, m.recent[max(s.from, first)-first:]...)
	s.from, s.late = m.last+1, ReasonSlow
	return batch
}

// events extracts the events of a batch. It returns nil for an empty batch.
func events(batch []held) (out []*event.Event) {
	for _, e := range batch {
		out = append(out, e.Event)
	}
	return out
}

// missedLocked returns the replacement for the events from first to last that a consumer has
// missed: a gap, followed by the last event of every subject that had an event in that range,
// oldest first.
func (m *Memory) missedLocked(first, last uint64, reason string) []held {
	gap := GapEntry(m.epoch, first, last, reason).event
	out := []held{{gap, gap.Timestamp, MemoryOf(gap)}}
	for _, e := range m.latest {
		if first <= e.Seq && e.Seq <= last {
			out = append(out, e)
		}
	}
	sort.Slice(out[1:], func(i, j int) bool { return out[1+i].Seq < out[1+j].Seq })
	return out
}

// Ready returns a channel that receives a value when Take may have something to return. It is for
// consumers that also wait for other channels. Every event that is appended after a Take is
// signalled, but a signal may refer to events that Take has already returned. The channel has
// capacity 1; only the log sends to it, and it is never closed.
func (s *Subscription) Ready() <-chan struct{} { return s.wake }

// Events returns an iterator over the stream that ends with the stream. Err then returns the
// reason.
func (s *Subscription) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		for batch := s.Next(); batch != nil; batch = s.Next() {
			for _, e := range batch {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Err returns the reason why the stream ended: nil if the log was closed, or the cause of the
// subscriber's context. Before the end it returns nil.
func (s *Subscription) Err() error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.err
}

// Close ends the stream. It may be called more than once.
func (s *Subscription) Close() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.endLocked(context.Canceled)
}

func (s *Subscription) endLocked(err error) {
	if !s.ended {
		s.ended, s.rest, s.err = true, s.newLocked(), err
		delete(s.log.subs, s)
		if s.stop != nil {
			s.stop()
		}
	}
	s.wake.Send()
}

// memoryContents implements [Contents] for a [Memory].
type memoryContents struct {
	keep int64

	mu      sync.Mutex // guards the fields below
	texts   map[catalog.Digest]string
	order   []catalog.Digest // order in which the texts were put, oldest first
	bytes   int64
	dropped uint64
}

func (c *memoryContents) Put(d catalog.Digest, text string) {
	if c.keep <= 0 || d.IsZero() || len(text) > MaxContent {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.texts[d]; ok {
		return
	}
	if int64(len(text)) > c.keep {
		c.dropped++
		return
	}
	if c.texts == nil {
		c.texts = map[catalog.Digest]string{}
	}
	c.texts[d], c.order, c.bytes = text, append(c.order, d), c.bytes+int64(len(text))
	for c.bytes > c.keep {
		oldest := c.order[0]
		c.order = c.order[1:]
		c.bytes -= int64(len(c.texts[oldest]))
		delete(c.texts, oldest)
	}
}

func (c *memoryContents) Get(_ context.Context, d catalog.Digest) (string, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.texts[d]
	return text, ok, nil
}

func (c *memoryContents) Stored(_ context.Context, digests []catalog.Digest) (map[catalog.Digest]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[catalog.Digest]bool{}
	for _, d := range digests {
		if _, ok := c.texts[d]; ok {
			out[d] = true
		}
	}
	return out, nil
}

func (c *memoryContents) Dropped() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}
