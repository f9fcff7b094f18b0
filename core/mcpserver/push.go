package mcpserver

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// pusher sends the notifications of a subscriber to its client.
type pusher struct {
	sub *subscriptions.Subscriber
	// tag is the subscription id of a listen; nil in the legacy era.
	tag json.RawMessage
	// send writes one message; it may be buffered until flush. what is the single list
	// or URI that the message announces.
	send func(ctx context.Context, what subscriptions.Batch, message []byte) error
	// messages are those that belong to no subscription; may be nil. One that was not sent
	// is put back. sent is called with every other one; may be nil.
	messages *mailbox
	sent     func(message []byte)
	// flush is called after a batch was sent; nil if send does not buffer.
	flush func() error
	// beat is called whenever nothing was sent for the time every; never if that is 0.
	beat  func() error
	every time.Duration
}

// run sends until ending is closed (nil), ctx is done or a send fails. A batch that
// was not sent completely is put back completely.
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

// sendMessage sends the next of p.messages.
func (p *pusher) sendMessage(ctx context.Context) error {
	message := p.messages.take()
	if message == nil {
		return nil
	}
	err := context.Cause(ctx) // nobody may read the stream any more
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
	err := p.sendAll(ctx, batch)
	if err == nil && p.flush != nil && !batch.Empty() {
		err = p.flush()
	}
	if err != nil {
		p.sub.Restore(batch)
	}
	return err
}

func (p *pusher) sendAll(ctx context.Context, batch subscriptions.Batch) error {
	for what, message := range notifications(batch, p.tag) {
		if err := p.send(ctx, what, message); err != nil {
			return err
		}
	}
	return nil
}

// notifications yields the parts of a batch, each with its encoded notification.
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
