package realtime

import (
	"math"
	"time"
)

// QueueOptions bound what is sent. Every message stays in the conversation and is
// paid for with every later answer, so saying less is worth something. A zero
// field means its default.
type QueueOptions struct {
	// MaxPending is how many resources may wait; 1,024. Beyond it the message that
	// waited longest is lost.
	MaxPending int
	// Window is the time after a message about a resource in which further updates
	// of it are merged into one message at its end; 2 s. Negative: no merging but of
	// what waits.
	Window time.Duration
	// Every is the time in which the token bucket gains one message; 2 s. Negative:
	// no limit.
	Every time.Duration
	// Burst is how many messages the bucket holds; 5.
	Burst int
	// Remember is of how many resources the newest timestamp is kept; 16,384.
	Remember int
}

func (o QueueOptions) withDefaults() QueueOptions {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.MaxPending, 1024)
	def(&o.Burst, 5)
	def(&o.Remember, 16384)
	if o.Window == 0 {
		o.Window = 2 * time.Second
	}
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	return o
}

// Updates that come this late are what happened while somebody was away, and come
// one after the other: each waits for the next one of its resource for settle, but
// no longer than settled in all. So there is one message about each resource, not
// one about its past and one about its present.
const (
	late    = time.Second
	settle  = 250 * time.Millisecond
	settled = 2 * time.Second
)

// key is what one message is about.
type key struct{ server, uri string }

// known is what is remembered of a resource.
type known struct {
	newest int64     // ms of the newest update that was taken
	sent   time.Time // when a message about it was last taken; zero: never
	at     uint64    // number of the update that set newest
}

// pending is a message that waits.
type pending struct {
	Message
	came   time.Time // the first of the updates that it stands for
	due    time.Time
	number uint64 // rises with every update that is taken
	before string // id of the update offered before this one: the cursor while it waits
}

// queue holds what is to be sent. It is a pure state machine: time comes from
// outside and never runs backwards. It belongs to who holds its owner's lock.
type queue struct {
	opts    QueueOptions
	waiting map[key]*pending
	known   map[key]known
	number  uint64
	last    string // id of the last update that was offered
	tokens  float64
	filled  time.Time
	hasten  bool // windows no longer matter: the source has ended

	merged, stale, dropped uint64
}

func newQueue(o QueueOptions) *queue {
	o = o.withDefaults()
	return &queue{opts: o, waiting: map[key]*pending{}, known: map[key]known{}, tokens: float64(o.Burst)}
}

// offer takes an update, unless it is not newer than the last one of its resource.
func (q *queue) offer(m Message, now time.Time) bool {
	k := key{m.ServerID, m.ResourceURI}
	before := q.last
	q.last = m.EventID
	stamp := m.Timestamp.UnixMilli()
	seen, ok := q.known[k]
	if ok && stamp <= seen.newest {
		q.stale++
		return false
	}
	q.number++
	seen.newest, seen.at = stamp, q.number
	q.known[k] = seen
	if len(q.known) > q.opts.Remember {
		q.forget(k)
	}
	p := &pending{Message: m, number: q.number, before: before, came: now, due: now}
	if old := q.waiting[k]; old != nil {
		q.merged++
		p.came, p.due = old.came, old.due
	} else {
		if !seen.sent.IsZero() && q.opts.Window > 0 {
			p.due = later(now, seen.sent.Add(q.opts.Window))
		}
		if len(q.waiting) >= q.opts.MaxPending {
			q.dropOldest()
		}
	}
	if now.Sub(m.Timestamp) > late {
		p.due = later(p.due, earlier(now.Add(settle), p.came.Add(settled)))
	}
	q.waiting[k] = p
	return true
}

// take removes the message that is due longest. Without one it returns how long
// nothing will be, 0 if that is until the next offer.
func (q *queue) take(now time.Time) (p *pending, wait time.Duration) {
	if len(q.waiting) == 0 {
		return nil, 0
	}
	if wait := q.fill(now); wait > 0 {
		return nil, wait
	}
	for _, w := range q.waiting {
		if p == nil || w.due.Before(p.due) || w.due.Equal(p.due) && w.number < p.number {
			p = w
		}
	}
	if p.due.After(now) && !q.hasten {
		return nil, p.due.Sub(now)
	}
	q.tokens = math.Max(0, q.tokens-1)
	k := key{p.ServerID, p.ResourceURI}
	delete(q.waiting, k)
	if seen, ok := q.known[k]; ok {
		seen.sent = now
		q.known[k] = seen
	}
	return p, 0
}

// fill adds the tokens of the time that has passed, and tells how long there will
// be none.
func (q *queue) fill(now time.Time) time.Duration {
	if q.opts.Every < 0 {
		return 0
	}
	if !q.filled.IsZero() {
		q.tokens = math.Min(float64(q.opts.Burst), q.tokens+float64(now.Sub(q.filled))/float64(q.opts.Every))
	}
	q.filled = now
	if q.tokens >= 1-1e-9 {
		return 0
	}
	return max(time.Millisecond, time.Duration((1-q.tokens)*float64(q.opts.Every)))
}

// cursor is the id up to which every update was handled: sent, merged into a
// later one, stale or dropped. inflight is the message being sent, nil for none.
func (q *queue) cursor(inflight *pending) string {
	first, cursor := uint64(math.MaxUint64), q.last
	if inflight != nil {
		first, cursor = inflight.number, inflight.before
	}
	for _, p := range q.waiting {
		if p.number < first {
			first, cursor = p.number, p.before
		}
	}
	return cursor
}

// superseded reports whether a newer update of the same resource waits.
func (q *queue) superseded(p *pending) bool {
	return q.waiting[key{p.ServerID, p.ResourceURI}] != nil
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

// forget makes room by forgetting an eighth of what is remembered, oldest first
// as far as a sample tells: exact order would cost more than it is worth.
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
