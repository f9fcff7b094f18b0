package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Filter specifies which changes a server should push.
type Filter struct {
	Tools, Prompts, Resources bool     // changes to these lists
	Events                    bool     // changes to the event types; see [Session.EventTypesChanged]
	URIs                      []string // updates to these resources
}

// Empty reports whether the filter requests nothing.
func (f Filter) Empty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && !f.Events && len(f.URIs) == 0
}

func (f Filter) lists() map[catalog.Kind]bool {
	return map[catalog.Kind]bool{catalog.Tools: f.Tools, catalog.Prompts: f.Prompts, catalog.Resources: f.Resources}
}

func (f Filter) equal(other Filter) bool {
	return f.Tools == other.Tools && f.Prompts == other.Prompts && f.Resources == other.Resources && f.Events == other.Events && slices.Equal(f.URIs, other.URIs)
}

// normal returns the filter with its URIs sorted and without duplicates.
func (f Filter) normal() Filter {
	f.URIs = slices.Compact(slices.Sorted(slices.Values(f.URIs)))
	return f
}

// Ack reports which changes the server agreed to push. Everything that is missing must be polled.
type Ack struct {
	Honoured     Filter
	MissingURIs  []string
	MissingLists []catalog.Kind // templates count as resources
	// Interrupted reports that the old subscription had to end before the new one could start. List
	// and compare again, as after a [Dirty.Gap].
	Interrupted bool
}

// subscriptions is the state of a session's subscriptions. Its lock is a channel, because it is
// held during requests and a caller may stop waiting for it.
type subscriptions struct {
	// busy is the lock: sending to it acquires the lock, and receiving from it releases the lock.
	// It has capacity 1.
	busy chan struct{}

	legacy  legacyState
	listens []*listen // modern listens: open, or ended since the last Subscribe
	filter  Filter    // filter of the modern listens
	ack     Ack       // what the server honoured of the modern listens

	mu    sync.Mutex
	ended time.Time // when a short-lived modern listen last ended
}

// relisten is how long a listen must last so that it is replaced immediately. If a listen ends
// sooner, the next one starts only after this delay, so that a server that ends every listen does
// not cause a tight loop.
const relisten = time.Second

// subscriptionsLost discards all subscriptions, because the server may have been replaced, and
// raises a gap.
func (s *Session) subscriptionsLost(reason string) {
	s.subs.legacy.invalidate()
	s.signals.raiseGap(reason)
}

// listenEnded records the end of a listen that started at the given time.
func (sub *subscriptions) listenEnded(began time.Time) {
	now := time.Now()
	if now.Sub(began) > relisten {
		return
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.ended = now
}

// pause waits until another listen may be opened.
func (sub *subscriptions) pause(ctx context.Context) error {
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

func newSubscriptions() subscriptions {
	return subscriptions{busy: make(chan struct{}, 1), legacy: legacyState{uris: map[string]struct{}{}, doubt: map[string]struct{}{}}}
}

// Subscribe makes the server push exactly the changes that the filter specifies, and returns once
// the server has confirmed. Subscriptions in both the old and the new filter continue without
// interruption, except with modern servers over stdio, where this is impossible and
// [Ack.Interrupted] is set. Repeating a call sends nothing while the subscriptions last.
//
// Lists that the server does not have are neither honoured nor missing. If the error is
// [ErrUnsupported], the Ack is valid: the server pushes the lists in it, and all URIs are missing.
func (s *Session) Subscribe(ctx context.Context, f Filter) (Ack, error) {
	select {
	case s.subs.busy <- struct{}{}:
		defer func() { <-s.subs.busy }()
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

// missingLists returns the lists in the filter that are not pushed although the server has them.
func (f Filter) missingLists(honoured Filter, caps Capabilities) []catalog.Kind {
	var missing []catalog.Kind
	got := honoured.lists()
	for k, wanted := range f.lists() {
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

// subscribeParallel limits the subscribe requests in flight. More concurrent requests would slow
// servers down.
const subscribeParallel = 8

// legacyState records which URIs the server has subscribed, according to its responses.
type legacyState struct {
	mu   sync.Mutex
	uris map[string]struct{}
	// doubt contains URIs whose last subscribe or unsubscribe request was not answered, so that the
	// server may push them. They are not in uris.
	doubt map[string]struct{}
	// gen is incremented whenever the server may have forgotten all subscriptions.
	gen int
}

// invalidate discards the recorded subscriptions, so that the next Subscribe requests all of them
// again.
func (l *legacyState) invalidate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.uris)
	clear(l.doubt)
	l.gen++
}

// plan compares the wanted URIs with the subscribed URIs. URIs in doubt are subscribed or
// unsubscribed again.
func (l *legacyState) plan(want []string) (add, remove []string, gen int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range want {
		if _, ok := l.uris[u]; !ok {
			add = append(add, u)
		}
	}
	for _, set := range []map[string]struct{}{l.uris, l.doubt} {
		for u := range set {
			if _, ok := slices.BinarySearch(want, u); !ok {
				remove = append(remove, u)
			}
		}
	}
	slices.Sort(remove)
	return add, remove, l.gen
}

// asking puts a URI in doubt before its request is sent, until record is called for it.
func (l *legacyState) asking(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.uris, uri)
	l.doubt[uri] = struct{}{}
}

// record records the outcome of a request, unless invalidate has been called since the request was
// planned.
func (l *legacyState) record(gen int, uri string, subscribed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gen != l.gen {
		return
	}
	delete(l.doubt, uri)
	if subscribed {
		l.uris[uri] = struct{}{}
	} else {
		delete(l.uris, uri)
	}
}

func (s *Session) subscribeLegacy(ctx context.Context, f Filter, info Info) (Ack, error) {
	caps := info.Capabilities
	ack := Ack{Honoured: Filter{
		Tools:     f.Tools && caps.ToolsListChanged && info.Push,
		Prompts:   f.Prompts && caps.PromptsListChanged && info.Push,
		Resources: f.Resources && caps.ResourcesListChanged && info.Push,
		Events:    f.Events && caps.EventsListChanged && info.Push,
	}}
	ack.MissingLists = f.missingLists(ack.Honoured, caps)
	if !info.Push || len(f.URIs) > 0 && !caps.ResourcesSubscribe {
		// Without a notification stream, a subscription is useless.
		s.signals.setWanted(wantedOf(f))
		ack.MissingURIs = f.URIs
		if len(f.URIs) > 0 && !caps.ResourcesSubscribe {
			return ack, fmt.Errorf("%w: no resource subscriptions", ErrUnsupported)
		}
		return ack, nil
	}

	add, remove, gen := s.subs.legacy.plan(f.URIs)
	s.signals.wantMore(wantedOf(f)) // an update may arrive before the response
	missing, err := s.subscribeEach(ctx, add, gen)
	if err != nil && !errors.Is(err, ErrUnsupported) {
		return ack, err
	}
	s.signals.setWanted(wantedOf(f))
	if rerr := s.unsubscribeEach(ctx, remove, gen); err == nil {
		err = rerr
	}
	ack.MissingURIs = missing
	for _, u := range f.URIs {
		if _, ok := slices.BinarySearch(missing, u); !ok {
			ack.Honoured.URIs = append(ack.Honoured.URIs, u)
		}
	}
	return ack, err
}

// subscribeEach subscribes to the URIs and returns, sorted, those that the server refused. It
// returns an error if the session ends, ctx is done, or the server does not support the method;
// responses received before that are recorded.
func (s *Session) subscribeEach(ctx context.Context, uris []string, gen int) (missing []string, err error) {
	errs := s.forEach(ctx, mcp.MethodSubscribe, uris)
	unsupported := false
	for i, uri := range uris {
		e := errs[i]
		switch {
		case e == nil:
			s.subs.legacy.record(gen, uri, true)
		case errors.Is(e, ErrUnsupported):
			s.subs.legacy.record(gen, uri, false)
			unsupported = true
		case isRefusal(e):
			s.opts.Logger.Debug("subscription refused", "uri", s.redact.text(uri), "err", e)
			if isAnswer(e) { // without a response, the server may or may not have subscribed the URI
				s.subs.legacy.record(gen, uri, false)
			}
			missing = append(missing, uri)
		case err == nil:
			err = e
		}
	}
	if unsupported {
		return uris, fmt.Errorf("%w: no resource subscriptions", ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	return missing, nil
}

// unsubscribeEach ends subscriptions. If the server refuses, it does not retry: notifications for
// such a URI are counted and dropped.
func (s *Session) unsubscribeEach(ctx context.Context, uris []string, gen int) (err error) {
	errs := s.forEach(ctx, mcp.MethodUnsubscribe, uris)
	for i, uri := range uris {
		switch e := errs[i]; {
		case e == nil || isRefusal(e):
			s.subs.legacy.record(gen, uri, false)
		case err == nil:
			err = e
		}
	}
	return err
}

// forEach sends one request per URI, several at a time, and returns the errors in the order of the
// URIs. After an error that affects all requests, or after two request timeouts, it sends no more
// requests; the remaining URIs receive that error.
func (s *Session) forEach(ctx context.Context, method string, uris []string) []error {
	errs := make([]error, len(uris))
	ctx, stop := context.WithTimeoutCause(ctx, 2*s.requestTimeout(), errDeadline)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int) // unbuffered; closed below after the last URI
	var wg sync.WaitGroup
	for range min(subscribeParallel, len(uris)) {
		wg.Go(func() {
			for i := range next {
				if errs[i] = context.Cause(ctx); errs[i] != nil {
					continue
				}
				s.subs.legacy.asking(uris[i])
				_, err := s.request(ctx, method, map[string]any{"uri": uris[i]})
				if errs[i] = err; err != nil && (errors.Is(err, ErrUnsupported) || !isRefusal(err)) {
					cancel(err)
				}
			}
		})
	}
	for i := range uris {
		next <- i
	}
	close(next)
	wg.Wait()
	return errs
}
