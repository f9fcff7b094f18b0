package eventsource

import (
	"sync"

	"github.com/mcptrack/mcptrack/core/session"
)

const (
	maxWaiting      = 1024    // messages of one stream
	maxWaitingBytes = 8 << 20 // of their parameters
)

// inbox holds the messages of a stream until its subscription handles them. put never blocks:
// the goroutine that reads from the server calls it.
type inbox struct {
	// wake has room for one: put sends without blocking, the subscription receives; it is
	// never closed.
	wake chan struct{}

	mu       sync.Mutex // guards what follows
	messages []session.EventMessage
	bytes    int
	lost     bool // messages were dropped
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (i *inbox) put(m session.EventMessage) {
	i.mu.Lock()
	if len(i.messages) >= maxWaiting || i.bytes+len(m.Params) > maxWaitingBytes && len(i.messages) > 0 {
		i.messages, i.bytes, i.lost = nil, 0, true // drop all: the gap covers them, and the newest cursor counts
	}
	i.messages = append(i.messages, m)
	i.bytes += len(m.Params)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// take returns the waiting messages, and whether some before them were dropped.
func (i *inbox) take() (messages []session.EventMessage, lost bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	messages, lost = i.messages, i.lost
	i.messages, i.bytes, i.lost = nil, 0, false
	return messages, lost
}
