package realtime

import (
	"cmp"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcptrack/mcptrack/core/event"
)

// QueueOptions limit how many messages are sent, as every message stays in the conversation and is
// billed with every later response. A zero field means its default.
type QueueOptions struct {
	// MaxPending is about how many resources may have waiting messages; 1,024. Beyond it the
	// oldest waiting message is dropped.
	MaxPending int
	// Window is the time after a message about a resource in which its further updates are merged
	// into one message, sent at the end; 2 s. Negative: only updates of waiting messages are merged.
	Window time.Duration
	// Every and Burst limit items, each of which may contain messages about many resources: one
	// item per Every, 2 s, and up to Burst items after a pause, 5. Negative Every: no limit.
	Every time.Duration
	Burst int
	// Remember is for how many resources the newest update is remembered; 16,384.
	Remember int
}

func (o QueueOptions) withDefaults() QueueOptions {
	o.MaxPending, o.Burst, o.Remember = cmp.Or(o.MaxPending, 1024), cmp.Or(o.Burst, 5), cmp.Or(o.Remember, 16384)
	o.Window, o.Every = cmp.Or(o.Window, 2*time.Second), cmp.Or(o.Every, 2*time.Second)
	return o
}

// Updates that arrive late happened during an outage, and arrive one after the other. Each waits for
// the next update of its resource for settle, up to maxSettle in total. So there is one message per
// resource, not one about its past and one about its present.
const (
	late      = time.Second
	settle    = 250 * time.Millisecond
	maxSettle = 2 * time.Second
)

// key identifies the resource of a message.
type key struct{ server, uri string }

func (m *Message) key() key { return key{m.ServerID, m.ResourceURI} }

// pending is a message that is waiting or in flight.
type pending struct {
	Message
	arrived time.Time // when the first update that it covers was offered
	since   time.Time // when the oldest update that it covers happened
	due     time.Time // when it is to be sent
	settles time.Time // the earliest time to send it, even with an item that is sent anyway; zero: any time
	number  uint64    // increases with every accepted update
	before  string    // ID of the update offered before this one: the cursor while it waits
	merged  int       // older updates that it covers
	alone   bool      // it must not share an item, as a shared item was rejected or not acknowledged
}

// merge makes p cover the updates of an older message about the same resource.
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

// known is what a queue remembers about a resource.
type known struct {
	position position  // of the newest update
	sent     time.Time // when a message about the resource was last sent; zero: never
	at       uint64    // the number, in the queue, of the update that set position
	item     string    // ID of the item with the last delivered message; "": none
}

// before reports whether a message is newer than the newest known update: its position is later, and
// its text or its time differs. Numbers of different epochs are not comparable: an event of another
// epoch counts as newer.
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

// position orders the updates of one resource: by event ID within one epoch, otherwise by time. A
// clock that is set back does not reorder the events of an epoch.
type position struct {
	epoch string
	seq   uint64
	ms    int64
	text  uint32 // hash of the message's text
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

// queue holds the messages to send. It is a pure state machine: callers pass the time, which never
// runs backwards. The owner's lock must be held.
type queue struct {
	opts    QueueOptions
	waiting map[key]*pending
	known   map[key]known
	given   map[key]*pending // abandoned messages that the cursor must not pass
	number  uint64
	last    string // ID of the last offered update
	limit   *rate.Limiter
	hasten  bool // messages are due immediately: the source has ended

	merged, stale, dropped uint64
}

func newQueue(o QueueOptions) *queue {
	o = o.withDefaults()
	every := rate.Inf
	if o.Every > 0 {
		every = rate.Every(o.Every)
	}
	return &queue{opts: o, waiting: map[key]*pending{}, known: map[key]known{}, given: map[key]*pending{}, limit: rate.NewLimiter(every, o.Burst)}
}

// offer accepts an update, unless it is not newer than the last update of its resource, and reports
// whether it did.
func (q *queue) offer(m Message, now time.Time) bool {
	k := m.key()
	before := q.last
	q.last = m.EventID
	seen, ok := q.known[k]
	if ok && !seen.before(&m) {
		q.stale++
		return false
	}
	q.number++
	seen.position, seen.at = m.position(), q.number
	q.known[k] = seen
	if len(q.known) > q.opts.Remember {
		q.forget(k)
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

// forget removes an eighth of the known resources, except keep. It prefers resources with old
// updates, but does not sort them, which would be too expensive.
func (q *queue) forget(keep key) {
	n := len(q.known) / 8
	limit := q.number - min(q.number, uint64(q.opts.Remember)/2)
	for k, v := range q.known {
		if n <= 0 {
			return
		}
		if k != keep && v.at <= limit && q.waiting[k] == nil {
			delete(q.known, k)
			n--
		}
	}
	for k := range q.known {
		if len(q.known) <= q.opts.Remember {
			return
		}
		if k != keep {
			delete(q.known, k)
		}
	}
}

// limits apply to one item.
type limits struct{ messages, bytes int }

// take removes and returns due messages, each about another resource, as many as fit into one item,
// the longest due first. It includes messages that become due before the next item could be sent. If
// it returns none, wait says for how long none can be sent; 0: none waits.
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

// untilTokens returns how long it takes until n items may be sent, the burst disregarded.
func (q *queue) untilTokens(n float64, now time.Time) time.Duration {
	missing := n - q.limit.TokensAt(now)
	if q.opts.Every < 0 || missing < 1e-9 { // the limiter computes with floats
		return 0
	}
	return time.Duration(missing * float64(q.opts.Every))
}

// restore puts back messages that were taken and not delivered. Each is sent in its own item, or
// merged into a newer message about its resource if one is waiting.
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

// cursor returns the ID up to which every update was handled: sent, merged into a later one that was
// handled, stale or dropped. inFlight are the messages being sent.
func (q *queue) cursor(inFlight []*pending) string {
	first, cursor := uint64(math.MaxUint64), q.last
	consider := func(p *pending) {
		if p.number < first {
			first, cursor = p.number, p.before
		}
	}
	for _, p := range inFlight {
		consider(p)
	}
	for _, p := range q.waiting {
		consider(p)
	}
	for _, p := range q.given {
		consider(p)
	}
	return cursor
}

// giveUp remembers an undelivered message, so that the cursor stays before it until a newer message
// about its resource is handled.
func (q *queue) giveUp(p *pending) {
	if len(q.given) < q.opts.MaxPending {
		q.given[p.key()] = p
	}
}

// supersede merges a batch into the waiting messages, and reports whether it did. It does nothing
// unless a newer message is waiting for each resource of the batch.
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
	var oldest key
	first := uint64(math.MaxUint64)
	for k, p := range q.waiting {
		if p.number < first {
			oldest, first = k, p.number
		}
	}
	delete(q.waiting, oldest)
	q.dropped++
}
