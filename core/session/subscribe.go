package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
)

// Filter says what a server should push.
type Filter struct {
	Tools, Prompts, Resources bool     // changes of these lists
	Events                    bool     // changes of the event types; see [Events.Changed]
	URIs                      []string // updates of these resources
}

// Empty reports whether nothing should be pushed.
func (f Filter) Empty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && !f.Events && len(f.URIs) == 0
}

func (f Filter) lists() map[catalog.Kind]bool {
	return map[catalog.Kind]bool{catalog.Tools: f.Tools, catalog.Prompts: f.Prompts, catalog.Resources: f.Resources}
}

// normal returns the filter with sorted, unique URIs.
func (f Filter) normal() Filter {
	f.URIs = slices.Compact(slices.Sorted(slices.Values(f.URIs)))
	return f
}

// Ack says what the server agreed to push. Whatever is missing must be polled.
type Ack struct {
	Honoured     Filter
	MissingURIs  []string
	MissingLists []catalog.Kind // templates count as resources
	// Interrupted means that this call had to end the old subscription before it
	// could begin the new one: list and compare again, as for a [Batch.Gap].
	Interrupted bool
}

// subscriber holds the subscriptions of a session. Its lock is a channel, because it is held
// during requests and a caller may give up waiting for it.
type subscriber struct {
	s *Session
	// busy has capacity one: a sender holds the lock until it receives.
	busy chan struct{}

	legacy  legacyState
	listens []*listen // modern: open, or ended since the last Subscribe
	filter  Filter    // modern: the filter of the listens
	ack     Ack       // modern: what the server honoured

	mu    sync.Mutex
	ended time.Time // modern: when a listen last ended shortly after its beginning
}

// relisten is the least time between the end of a listen that lived no longer than that and the
// next one, so that a server that ends every listen at once gets no tight loop.
const relisten = time.Second

// gap forgets all subscriptions, because the server may have been replaced, and raises a Gap.
func (sub *subscriber) gap(reason string) {
	sub.legacy.invalidate()
	sub.s.signals.raiseGap(reason)
}

// listenEnded records the end of a listen. Unless that was shortly after its beginning, it may
// be replaced at once.
func (sub *subscriber) listenEnded(began time.Time) {
	now := time.Now()
	if now.Sub(began) > relisten {
		return
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.ended = now
}

// pause waits until a listen may be opened again.
func (sub *subscriber) pause(ctx context.Context) error {
	sub.mu.Lock()
	ended := sub.ended
	sub.mu.Unlock()
	if ended.IsZero() {
		return nil
	}
	if !backoff.Sleep(ctx, time.Until(ended.Add(relisten))) {
		return context.Cause(ctx)
	}
	return nil
}

func newSubscriber(s *Session) *subscriber {
	return &subscriber{s: s, busy: make(chan struct{}, 1), legacy: legacyState{uris: map[string]struct{}{}, doubt: map[string]struct{}{}}}
}

// Subscribe makes the server push exactly what the filter names and returns once the server has
// confirmed. Subscriptions that are in the old and the new filter continue without
// interruption, except with modern servers over stdio, where that is impossible and
// [Ack.Interrupted] is set. Repeating a call costs nothing while the subscriptions last.
//
// Lists that the server does not have are neither honoured nor missing. If the error is
// [ErrUnsupported], the Ack is valid: the lists in it are pushed, and all URIs are missing.
func (s *Session) Subscribe(ctx context.Context, f Filter) (Ack, error) {
	sub := s.subscriber
	select {
	case sub.busy <- struct{}{}:
		defer func() { <-sub.busy }()
	case <-ctx.Done():
		return Ack{}, context.Cause(ctx)
	case <-s.done:
		return Ack{}, s.Err()
	}
	f = f.normal()
	info := s.Info()
	var ack Ack
	var err error
	if info.Era == EraModern {
		ack, err = sub.subscribeModern(ctx, f, info)
	} else {
		ack, err = sub.subscribeLegacy(ctx, f, info)
	}
	if err != nil {
		return ack, fmt.Errorf("subscribe: %w", err)
	}
	return ack, nil
}

// missingLists names the lists of a filter that are not pushed although the
// server has them.
func missingLists(want, honoured Filter, caps Capabilities) []catalog.Kind {
	var missing []catalog.Kind
	got := honoured.lists()
	for k, wanted := range want.lists() {
		if wanted && !got[k] && caps.Has(k) {
			missing = append(missing, k)
			if k == catalog.Resources {
				missing = append(missing, catalog.Templates)
			}
		}
	}
	slices.Sort(missing)
	return missing
}
