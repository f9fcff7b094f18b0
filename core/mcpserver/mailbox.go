package mcpserver

import (
	"bytes"
	"slices"
	"sync"
)

// maxMailBytes bounds the messages that a mailbox holds to send, and those that it keeps, unless
// there is only one.
const maxMailBytes = 4 << 20

// mailbox holds the messages of a client that belong to no subscription, until one stream after
// another has sent them. Streams of sessions keep what they sent for a while, since a stream may
// break before the client has read it.
type mailbox struct {
	max int // messages in queue
	// wake has capacity 1: put and restore send to it while there are messages, the pusher
	// receives; never closed.
	wake chan struct{}

	mu    sync.Mutex
	queue []mail // to send, the oldest first
	sent  []mail // the oldest first
	// dropped holds the last messages that drop did not find, so that restore and keep do not
	// put them back; at most max.
	dropped [][]byte
}

type mail struct {
	message []byte
	about   string      // a later message about the same replaces it, unless that is ""
	number  eventNumber // of the event with which it was sent
}

func newMailbox(limit int) *mailbox { return &mailbox{max: limit, wake: make(chan struct{}, 1)} }

// put adds a message, in place of an earlier one about the same; it reports false if there is no
// room.
func (b *mailbox) put(message []byte, about string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if about != "" {
		b.queue = slices.DeleteFunc(b.queue, func(m mail) bool { return m.about == about })
	}
	if len(b.queue) >= b.max || len(b.queue) > 0 && size(b.queue)+len(message) > maxMailBytes {
		return false
	}
	b.queue = append(b.queue, mail{message: message, about: about})
	b.ring()
	return true
}

// take removes the oldest message; it returns nil if there is none.
func (b *mailbox) take() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return nil
	}
	first := b.queue[0].message
	b.queue = b.queue[1:]
	if len(b.queue) > 0 {
		b.ring()
	}
	return first
}

// restore puts a message back that was taken, but not sent.
func (b *mailbox) restore(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isDropped(message) {
		return
	}
	b.queue = append([]mail{{message: message}}, b.queue...)
	b.ring()
}

// drop removes a message that has no meaning any more, such as a question that was answered or
// cancelled: it is not sent, or not again. It reports whether it was never sent.
func (b *mailbox) drop(message []byte) (unsent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := func(m mail) bool { return bytes.Equal(m.message, message) }
	queued, sent := len(b.queue), len(b.sent)
	b.queue, b.sent = slices.DeleteFunc(b.queue, is), slices.DeleteFunc(b.sent, is)
	if len(b.queue) == queued && len(b.sent) == sent { // it may be on its way
		if b.dropped = append(b.dropped, message); len(b.dropped) > b.max {
			b.dropped = b.dropped[1:]
		}
	}
	return len(b.queue) < queued && len(b.sent) == sent
}

// keep records that a message was sent with the event of that number.
func (b *mailbox) keep(message []byte, number eventNumber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isDropped(message) {
		return
	}
	b.sent = append(b.sent, mail{message: message, number: number})
	for len(b.sent) > b.max || len(b.sent) > 1 && size(b.sent) > maxMailBytes {
		b.sent = b.sent[1:]
	}
}

// received records that the client has every event of a stream up to that number and none after it:
// later messages on it are sent again.
func (b *mailbox) received(last eventNumber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lost, others []mail
	for _, m := range b.sent {
		switch {
		case m.number.stream != last.stream:
			others = append(others, m)
		case m.number.event > last.event:
			lost = append(lost, m)
		}
	}
	b.queue, b.sent = append(lost, b.queue...), others
	if len(b.queue) > 0 {
		b.ring()
	}
}

func (b *mailbox) isDropped(message []byte) bool {
	return slices.ContainsFunc(b.dropped, func(m []byte) bool { return bytes.Equal(m, message) })
}

func (b *mailbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func size(all []mail) (n int) {
	for _, m := range all {
		n += len(m.message)
	}
	return n
}
