package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Filter says what a server should push.
type Filter struct {
	Tools, Prompts, Resources bool     // changes of these lists
	URIs                      []string // updates of these resources
}

// Empty reports whether nothing should be pushed.
func (f Filter) Empty() bool { return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 }

func (f Filter) lists() map[catalog.Kind]bool {
	return map[catalog.Kind]bool{catalog.Tools: f.Tools, catalog.Prompts: f.Prompts, catalog.Resources: f.Resources}
}

// normal sorts the URIs and makes them unique.
func (f Filter) normal() Filter {
	f.URIs = slices.Compact(slices.Sorted(slices.Values(f.URIs)))
	return f
}

// Ack is what the server agreed to. What is missing must be polled.
type Ack struct {
	Honoured     Filter
	MissingURIs  []string
	MissingLists []catalog.Kind // templates go with resources
	// Interrupted tells that this call had to end the old subscription before it
	// could begin the new one: list and compare again, as for a [Batch.Gap].
	Interrupted bool
}

// subscriber holds what is subscribed. Its lock is a channel, as a caller may
// give up waiting for it: it is held during requests.
type subscriber struct {
	// busy has room for one: whoever sends holds the lock.
	busy chan struct{}

	legacy  legacyState
	listens []*listen // modern: live or ended since
	filter  Filter    // modern: what listens were opened for
	ack     Ack       // modern: what the server honoured

	mu    sync.Mutex
	ended time.Time // modern: when a server last ended a listen
}

// relisten is the least time between the end of a listen and the next one: a
// server that ends every listen at once must not be answered at full speed.
const relisten = time.Second

func (sub *subscriber) listenEnded(at time.Time) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.ended = at
}

// pause waits until a listen may be opened again.
func (sub *subscriber) pause(ctx context.Context) error {
	sub.mu.Lock()
	ended := sub.ended
	sub.mu.Unlock()
	if ended.IsZero() {
		return nil
	}
	return sleep(ctx, time.Until(ended.Add(relisten)))
}

func newSubscriber() *subscriber {
	return &subscriber{busy: make(chan struct{}, 1), legacy: legacyState{uris: map[string]struct{}{}, doubt: map[string]struct{}{}}}
}

// Subscribe makes the server push exactly what the filter names and returns once
// the server has confirmed. What was subscribed before and still is wanted goes
// on without interruption; where a server makes that impossible (modern, over
// stdio) [Ack.Interrupted] tells. Repeating a call costs nothing while the
// subscriptions stand.
//
// Kinds of lists that the server does not have cannot change and are neither
// honoured nor missing. With [ErrUnsupported] the Ack is valid: the lists that
// it honours are pushed, all URIs are missing.
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
		ack, err = s.subscribeModern(ctx, f, info)
	} else {
		ack, err = s.subscribeLegacy(ctx, f, info)
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
