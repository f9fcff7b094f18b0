package realtime

import (
	"cmp"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcptrack/mcptrack/core/event"
)

// QueueOptions limits how many messages are sent, because every message stays in the conversation
// and is billed again with every later response. Zero fields have their defaults.
type QueueOptions struct {
	// MaxPending limits how many resources may have pending messages. The default is 1,024. Beyond it,
	// the oldest pending message is dropped. The newest update is remembered for four times as many
	// resources.
	MaxPending int
	// Window is the period after a message during which further updates of the same resource are
	// merged into one message, which is sent at its end. The default is 2 s. If negative, only
	// updates whose message is still pending are merged.
	Window time.Duration
	// Every and Burst limit the rate of items, each of which may contain messages for many
	// resources: one item per Every, 2 s by default, and up to Burst items after a pause, 5 by
	// default. A negative Every means no limit.
	Every time.Duration
	Burst int
}

func (o QueueOptions) withDefaults() QueueOptions {
	o.MaxPending, o.Burst = cmp.Or(o.MaxPending, 1024), cmp.Or(o.Burst, 5)
	o.Window, o.Every = cmp.Or(o.Window, 2*time.Second), cmp.Or(o.Every, 2*time.Second)
	return o
}

// Late updates happened during an outage, and arrive in quick succession. Each waits up to settle
// for a newer update of its resource, and up to maxSettle in total, so that a resource's past and
// present state are not sent as two messages.
const (
	late      = time.Second
	settle    = 250 * time.Millisecond
	maxSettle = 2 * time.Second
)

// key identifies the resource that a message is about.
type key struct{ server, uri string }

func (m *Message) key() key { return key{m.ServerID, m.ResourceURI} }

// pending is a message that is queued or in flight.
type pending struct {
	Message
	arrived time.Time // when the first covered update was offered
	since   time.Time // when the oldest covered update happened
	due     time.Time // when to send it
	settles time.Time // earliest time to send it, even in an item that is sent anyway; zero means any time
	number  uint64    // increases with every accepted update
	before  string    // ID of the previously offered update, which is the cursor while this one is pending
	merged  int       // number of older updates it covers
	alone   bool      // must not share an item, because a shared item was rejected or not acknowledged
}

// merge makes p cover the updates of an older message for the same resource.
func (p *pending) merge(old *pending) {
	p.merged += old.merged + 1
	p.since = earlier(p.since, old.since)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// known is what a queue remembers for a resource.
type known struct {
	position position  // position of the newest update
	sent     time.Time // when a message for the resource was last sent; zero if never
}

// before reports whether a message is newer than the newest known update: its position is later,
// and its text or time differs. Positions in different epochs are not comparable, so an event from
// another epoch counts as newer.
func (k known) before(m *Message) bool {
	was, is := k.position, m.position()
	switch {
	case was.ms == is.ms && was.text == is.text:
		return false
	case was.epoch == "" || is.epoch == "":
		return was.ms < is.ms
	case was.epoch == is.epoch:
		return was.seq < is.seq
	}
	return true
}

// position orders the updates of one resource: by event ID within an epoch, and otherwise by time.
// If the clock is set back, events of one epoch therefore keep their order.
type position struct {
	epoch string
	seq   uint64
	ms    int64
	text  uint32 // hash of the message text
}

func (m *Message) position() position {
	h := fnv.New32a()
	for _, part := range m.Parts {
		_, _ = io.WriteString(h, part.Text) // never fails
	}
	p := position{ms: m.Timestamp.UnixMilli(), text: h.Sum32()}
	if epoch, seq, err := event.ParseID(m.EventID); err == nil {
		p.epoch, p.seq = epoch, seq
	}
	return p
}

// queue contains the messages to send. It is a pure state machine: callers pass the current time,
// which must never decrease. The owner's lock must be held.
type queue struct {
	opts    QueueOptions
	waiting map[key]*pending
	known   map[key]known
	number  uint64
	last    string // ID of the last offered update
	limit   *rate.Limiter
	hasten  bool // the source has ended, so messages are due immediately

	merged, dropped uint64 // updates that a newer one replaced; messages dropped because too many waited
}

func newQueue(o QueueOptions) *queue {
	o = o.withDefaults()
	every := rate.Inf
	if o.Every > 0 {
		every = rate.Every(o.Every)
	}
	return &queue{opts: o, waiting: map[key]*pending{}, known: map[key]known{}, limit: rate.NewLimiter(every, o.Burst)}
}

// offer accepts an update unless it is not newer than the last update of its resource, and reports
// whether it was accepted.
func (q *queue) offer(m Message, now time.Time) bool {
	k := m.key()
	before := q.last
	q.last = m.EventID
	seen, ok := q.known[k]
	if ok && !seen.before(&m) {
		return false
	}
	q.number++
	seen.position = m.position()
	q.known[k] = seen
	for old := range q.known { // any resource, because finding the oldest one is expensive
		if len(q.known) <= 4*q.opts.MaxPending {
			break
		}
		if old != k && q.waiting[old] == nil {
			delete(q.known, old)
		}
	}
	p := &pending{Message: m, number: q.number, before: before, arrived: now, since: m.happened(), due: now}
	if old := q.waiting[k]; old != nil {
		q.merged++
		p.merge(old)
		p.arrived, p.due = old.arrived, old.due
	} else {
		if !seen.sent.IsZero() && q.opts.Window > 0 {
			p.due = later(now, seen.sent.Add(q.opts.Window))
		}
		if len(q.waiting) >= q.opts.MaxPending {
			q.dropOldest()
		}
	}
	if now.Sub(m.Timestamp) > late {
		p.settles = earlier(now.Add(settle), p.arrived.Add(maxSettle))
		p.due = later(p.due, p.settles)
	}
	q.waiting[k] = p
	return true
}

// limits contains the limits for one item.
type limits struct{ messages, bytes int }

// take removes and returns due messages for distinct resources, as many as fit into one item, the
// longest overdue first. It includes messages that become due before the next item may be sent. If
// it returns none, wait is how long none can be sent, or 0 if no message is pending.
func (q *queue) take(now time.Time, most limits) (batch []*pending, wait time.Duration) {
	if len(q.waiting) == 0 {
		return nil, 0
	}
	if wait := q.untilTokens(1, now); wait > 0 {
		return nil, max(wait, time.Millisecond)
	}
	horizon := now.Add(q.untilTokens(2, now))
	var due []*pending
	first := time.Time{}
	for _, p := range q.waiting {
		if q.hasten || !p.due.After(now) || p.due.Before(horizon) && !p.settles.After(now) {
			due = append(due, p)
		}
		if first.IsZero() || p.due.Before(first) {
			first = p.due
		}
	}
	if first.After(now) && !q.hasten {
		return nil, first.Sub(now)
	}
	slices.SortFunc(due, func(a, b *pending) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.number, b.number))
	})
	size := 0
	for _, p := range due {
		if size += p.size(); len(batch) > 0 && (len(batch) == most.messages || size > most.bytes || p.alone || batch[0].alone) {
			break
		}
		batch = append(batch, p)
		k := p.key()
		delete(q.waiting, k)
		if seen, ok := q.known[k]; ok {
			seen.sent = now
			q.known[k] = seen
		}
	}
	q.limit.ReserveN(now, 1)
	return batch, 0
}

// untilTokens returns how long it takes, regardless of the burst limit, until n items may be sent.
func (q *queue) untilTokens(n float64, now time.Time) time.Duration {
	missing := n - q.limit.TokensAt(now)
	if q.opts.Every < 0 || missing < 1e-9 { // tolerates the limiter's floating-point errors
		return 0
	}
	return time.Duration(missing * float64(q.opts.Every))
}

// restore puts back messages that were taken but not delivered. Each is merged into a pending newer
// message for its resource, or otherwise sent in its own item.
func (q *queue) restore(batch []*pending) {
	for _, p := range batch {
		p.alone = true
		if newer := q.waiting[p.key()]; newer != nil {
			q.merged++
			newer.merge(p)
			continue
		}
		q.waiting[p.key()] = p
	}
}

// cursor returns the ID up to which every update was handled: sent, merged into a later update that
// was handled, rejected, stale, or dropped. inFlight contains the messages that are being sent.
func (q *queue) cursor(inFlight []*pending) string {
	first, cursor := uint64(math.MaxUint64), q.last
	for _, p := range slices.AppendSeq(slices.Clone(inFlight), maps.Values(q.waiting)) {
		if p.number < first {
			first, cursor = p.number, p.before
		}
	}
	return cursor
}

// supersede merges a batch into pending messages, and reports whether it did. It does nothing
// unless a newer message is pending for every resource in the batch.
func (q *queue) supersede(batch []*pending) bool {
	if slices.ContainsFunc(batch, func(p *pending) bool { return q.waiting[p.key()] == nil }) {
		return false
	}
	for _, p := range batch {
		q.waiting[p.key()].merge(p)
		q.merged++
	}
	return true
}

func (q *queue) dropOldest() {
	oldest := slices.MinFunc(slices.Collect(maps.Values(q.waiting)), func(a, b *pending) int { return cmp.Compare(a.number, b.number) })
	delete(q.waiting, oldest.key())
	q.dropped++
}
