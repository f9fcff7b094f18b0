package serve

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// pusher tells one client what its subscriber is to be told.
type pusher struct {
	sub *subscriptions.Subscriber
	// tag is the subscription id of a listen; nil in the legacy era.
	tag json.RawMessage
	// send writes one message and waits for that, but for what flush does. what is
	// the one thing that it tells.
	send func(ctx context.Context, what subscriptions.Batch, message []byte) error
	// flush is called after what belongs together; nil: send is enough.
	flush func() error
	// beat is called every so often while nothing is sent; never if every is 0.
	beat  func() error
	every time.Duration
}

// run pushes until ending is closed (nil), ctx is done or a send fails. A batch
// that was not sent as a whole is put back as a whole.
func (p *pusher) run(ctx context.Context, ending <-chan struct{}) error {
	var beats <-chan time.Time
	var timer *time.Timer
	if p.every > 0 {
		timer = time.NewTimer(p.every)
		defer timer.Stop()
		beats = timer.C
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
		case <-p.sub.C():
			if err := p.tell(ctx); err != nil {
				return err
			}
		}
		if timer != nil {
			timer.Reset(p.every)
		}
	}
}

func (p *pusher) tell(ctx context.Context) error {
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
	for what, message := range news(batch, p.tag) {
		if err := p.send(ctx, what, message); err != nil {
			return err
		}
	}
	return nil
}

// news are the parts of a batch and the notification of each.
func news(b subscriptions.Batch, tag json.RawMessage) iter.Seq2[subscriptions.Batch, []byte] {
	type params struct {
		Meta map[string]json.RawMessage `json:"_meta,omitempty"`
		URI  string                     `json:"uri,omitempty"`
	}
	var meta map[string]json.RawMessage
	if tag != nil {
		meta = map[string]json.RawMessage{metaSubscription: tag}
	}
	return func(yield func(subscriptions.Batch, []byte) bool) {
		for _, list := range []struct {
			changed bool
			method  string
			one     subscriptions.Lists
		}{
			{b.Lists.Tools, noteTools, subscriptions.Lists{Tools: true}},
			{b.Lists.Prompts, notePrompts, subscriptions.Lists{Prompts: true}},
			{b.Lists.Resources, noteResources, subscriptions.Lists{Resources: true}},
		} {
			if list.changed && !yield(subscriptions.Batch{Lists: list.one}, notification(list.method, params{Meta: meta})) {
				return
			}
		}
		for _, uri := range b.URIs {
			if !yield(subscriptions.Batch{URIs: []string{uri}}, notification(noteUpdated, params{Meta: meta, URI: uri})) {
				return
			}
		}
	}
}
