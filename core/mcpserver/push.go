package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// pusher sends the notifications of a subscriber to its client.
type pusher struct {
	sub *subscriptions.Subscriber
	// tag is the subscription id of a listen, or nil in the legacy era.
	tag json.RawMessage
	// send writes one message, which may remain buffered until flush is called. what is the list or
	// URI whose change the message announces.
	send func(ctx context.Context, what subscriptions.Batch, message []byte) error
	// messages contains the messages that are unrelated to subscriptions; may be nil. A message
	// that cannot be sent is put back. sent is called after each message from it; may be nil.
	messages *mailbox
	sent     func(message []byte)
	// flush is called after each batch. Nil if send does not buffer.
	flush func() error
	// beat is called whenever nothing was sent for the duration every. If every is 0, it is never
	// called.
	beat  func() error
	every time.Duration
}

// run sends notifications until ending is closed, when it returns nil, until ctx is done, or until
// sending fails. If only part of a batch was sent, the whole batch is put back.
func (p *pusher) run(ctx context.Context, ending <-chan struct{}) error {
	var beats <-chan time.Time
	var timer *time.Timer
	if p.every > 0 {
		timer = time.NewTimer(p.every)
		defer timer.Stop()
		beats = timer.C
	}
	var messages <-chan struct{}
	if p.messages != nil {
		messages = p.messages.wake
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ending:
			return nil
		case <-beats:
			if err := p.beat(); err != nil {
				return err
			}
		case <-messages:
			if err := p.sendMessage(ctx); err != nil {
				return err
			}
		case <-p.sub.C():
			if err := p.deliver(ctx); err != nil {
				return err
			}
		}
		if timer != nil {
			timer.Reset(p.every)
		}
	}
}

// sendMessage sends the oldest message in p.messages.
func (p *pusher) sendMessage(ctx context.Context) error {
	message := p.messages.take()
	if message == nil {
		return nil
	}
	err := context.Cause(ctx) // another stream may have replaced this one
	if err == nil {
		err = p.send(ctx, subscriptions.Batch{}, message)
	}
	if err == nil && p.flush != nil {
		err = p.flush()
	}
	if err != nil {
		p.messages.restore(message)
	} else if p.sent != nil {
		p.sent(message)
	}
	return err
}

func (p *pusher) deliver(ctx context.Context) error {
	batch := p.sub.Take()
	var err error
	for what, message := range notifications(batch, p.tag) {
		if err = p.send(ctx, what, message); err != nil {
			break
		}
	}
	if err == nil && p.flush != nil && !batch.Empty() {
		err = p.flush()
	}
	if err != nil {
		p.sub.Restore(batch)
	}
	return err
}

// notifications yields each list and URI in a batch together with its encoded notification.
func notifications(b subscriptions.Batch, tag json.RawMessage) iter.Seq2[subscriptions.Batch, []byte] {
	type params struct {
		Meta map[string]json.RawMessage `json:"_meta,omitempty"`
		URI  string                     `json:"uri,omitempty"`
	}
	var meta map[string]json.RawMessage
	if tag != nil {
		meta = map[string]json.RawMessage{mcp.MetaSubscriptionID: tag}
	}
	return func(yield func(subscriptions.Batch, []byte) bool) {
		for _, list := range []struct {
			changed bool
			method  string
			one     subscriptions.Lists
		}{
			{b.Lists.Tools, mcp.NotificationToolsChanged, subscriptions.Lists{Tools: true}},
			{b.Lists.Prompts, mcp.NotificationPromptsChanged, subscriptions.Lists{Prompts: true}},
			{b.Lists.Resources, mcp.NotificationResourcesChanged, subscriptions.Lists{Resources: true}},
			{b.Lists.Events, mcp.NotificationEventsChanged, subscriptions.Lists{Events: true}},
		} {
			if list.changed && !yield(subscriptions.Batch{Lists: list.one}, notification(list.method, params{Meta: meta})) {
				return
			}
		}
		for _, uri := range b.URIs {
			if !yield(subscriptions.Batch{URIs: []string{uri}}, notification(mcp.NotificationResourceUpdated, params{Meta: meta, URI: uri})) {
				return
			}
		}
	}
}

// maxMailBytes limits the total size of a mailbox's queued messages, and separately that of its
// sent messages. A single message may exceed it.
const maxMailBytes = 4 << 20

// mailbox queues the messages to a client that are unrelated to subscriptions, until a stream sends
// them. Sessions retain sent messages for a while, because a stream may break before the client has
// read them.
type mailbox struct {
	max int // maximum number of queued messages
	// wake signals the pusher that messages are queued. put and restore send to it.
	wake wake.Channel

	mu    sync.Mutex
	queue []mail // oldest first
	sent  []mail // oldest first
	// dropped contains the messages that drop did not find, so that restore and keep discard them;
	// only the last max messages are retained.
	dropped [][]byte
}

type mail struct {
	message []byte
	about   string // a later message with the same subject replaces this one; may be empty
	number  uint64 // of the event that contained the message
}

func newMailbox(limit int) *mailbox { return &mailbox{max: limit, wake: wake.New()} }

// put queues a message, replacing an earlier one with the same non-empty subject. It reports false
// if the queue is full.
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

// take removes and returns the oldest message, or returns nil if the queue is empty.
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

// restore puts back a message that was taken but not sent.
func (b *mailbox) restore(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isDropped(message) {
		return
	}
	b.queue = append([]mail{{message: message}}, b.queue...)
	b.ring()
}

// drop removes an obsolete message, such as a question that was answered or cancelled, so that it
// is not sent or resent. It reports whether the message was never sent.
func (b *mailbox) drop(message []byte) (unsent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := func(m mail) bool { return bytes.Equal(m.message, message) }
	queued, sent := len(b.queue), len(b.sent)
	b.queue, b.sent = slices.DeleteFunc(b.queue, is), slices.DeleteFunc(b.sent, is)
	if len(b.queue) == queued && len(b.sent) == sent { // a stream may be sending it now
		if b.dropped = append(b.dropped, message); len(b.dropped) > b.max {
			b.dropped = b.dropped[1:]
		}
	}
	return len(b.queue) < queued && len(b.sent) == sent
}

// keep retains a message that was sent in the event with the given number.
func (b *mailbox) keep(message []byte, number uint64) {
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

// received records that the client received exactly the events up to last. Messages in later events are queued again.
func (b *mailbox) received(last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lost := slices.DeleteFunc(b.sent, func(m mail) bool { return m.number <= last })
	b.queue, b.sent = append(lost, b.queue...), nil
	if len(b.queue) > 0 {
		b.ring()
	}
}

func (b *mailbox) isDropped(message []byte) bool {
	return slices.ContainsFunc(b.dropped, func(m []byte) bool { return bytes.Equal(m, message) })
}

func (b *mailbox) ring() {
	b.wake.Send()
}

func size(all []mail) (n int) {
	for _, m := range all {
		n += len(m.message)
	}
	return n
}
