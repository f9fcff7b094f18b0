package gateway

import (
	"context"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	maxQueued      = 256     // notifications that wait for a slow client, in one queue
	maxQueuedBytes = 8 << 20 // bytes of their parameters; a single notification may be larger
)

// queues sends notifications to clients, so that a client that does not read delays neither the server nor
// other clients. Notifications with the same key are sent in order. If too many of them wait, the oldest
// are dropped.
type queues struct {
	*base
	mu    sync.Mutex
	byKey map[any]*queue // that are not empty
}

type queue struct {
	waiting []*queued // the first is being sent
	bytes   int
}

type queued struct {
	size int
	send func()
	over chan struct{} // closed when it has been sent or dropped; nil if nobody waits
}

// put queues a notification with size bytes of parameters. send may block.
func (m *queues) put(key any, size int, send func()) {
	m.mu.Lock()
	q, busy := m.byKey[key]
	if !busy {
		q = &queue{}
		m.byKey[key] = q
	}
	q.waiting, q.bytes = append(q.waiting, &queued{size: size, send: send}), q.bytes+size
	for len(q.waiting) > 2 && (len(q.waiting) > maxQueued || q.bytes > maxQueuedBytes) {
		q.remove(1)
	}
	m.mu.Unlock()
	if !busy && !m.run(func(ending context.Context) { m.deliver(ending, key, q) }) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.byKey, key) // the gateway is stopping
	}
}

// remove removes a notification. queues.mu must be held.
func (q *queue) remove(i int) {
	gone := q.waiting[i]
	q.waiting, q.bytes = slices.Delete(q.waiting, i, i+1), q.bytes-gone.size
	if gone.over != nil {
		close(gone.over)
	}
}

// deliver sends what is queued until nothing is left or ending is done.
func (m *queues) deliver(ending context.Context, key any, q *queue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(q.waiting) > 0 && ending.Err() == nil {
		next := q.waiting[0]
		m.mu.Unlock()
		next.send()
		m.mu.Lock()
		q.remove(0)
	}
	delete(m.byKey, key)
}

// flush waits until everything that is queued now has been sent, or until ctx or the gateway ends.
func (m *queues) flush(ctx context.Context, key any) {
	m.mu.Lock()
	q := m.byKey[key]
	if q == nil {
		m.mu.Unlock()
		return
	}
	last := q.waiting[len(q.waiting)-1]
	if last.over == nil {
		last.over = make(chan struct{})
	}
	over := last.over
	m.mu.Unlock()
	select {
	case <-over:
	case <-ctx.Done():
	case <-m.life.Done():
	}
}

// progress queues progress for the client of a request. Its key is the request.
func (m *queues) progress(r *mcpserver.Request, p session.Progress) {
	m.put(r, len(p.Message), func() { r.Progress(p.Progress, p.Total, p.Message) })
}
