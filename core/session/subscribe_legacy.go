package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// subscribeParallel bounds the subscribe requests in flight. More would make servers slower,
// not faster.
const subscribeParallel = 8

// legacyState is what is believed to be subscribed on the server.
type legacyState struct {
	mu   sync.Mutex
	uris map[string]struct{}
	// doubt has the URIs whose last subscribe or unsubscribe request was not answered: the
	// server may push them or not. They are not in uris.
	doubt map[string]struct{}
	// gen is incremented whenever the server may have forgotten all subscriptions.
	gen int
}

// invalidate forgets the subscriptions: the next Subscribe requests all of them again.
func (l *legacyState) invalidate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.uris)
	clear(l.doubt)
	l.gen++
}

// plan compares the wanted URIs with the subscribed ones. URIs in doubt are subscribed or
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

// asking records that a request for the URI is about to be sent: its outcome is in doubt until
// record is called.
func (l *legacyState) asking(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.uris, uri)
	l.doubt[uri] = struct{}{}
}

// record records the outcome of a request, unless invalidate was called after it was planned.
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

func (sub *subscriber) subscribeLegacy(ctx context.Context, f Filter, info Info) (Ack, error) {
	caps := info.Capabilities
	ack := Ack{Honoured: Filter{
		Tools:     f.Tools && caps.ToolsListChanged && info.Push,
		Prompts:   f.Prompts && caps.PromptsListChanged && info.Push,
		Resources: f.Resources && caps.ResourcesListChanged && info.Push,
		Events:    f.Events && caps.EventsListChanged && info.Push,
	}}
	ack.MissingLists = missingLists(f, ack.Honoured, caps)
	if !info.Push || len(f.URIs) > 0 && !caps.ResourcesSubscribe {
		// Without a channel for notifications a subscription would be useless.
		sub.s.signals.setWanted(wantedOf(f))
		ack.MissingURIs = f.URIs
		if len(f.URIs) > 0 && !caps.ResourcesSubscribe {
			return ack, fmt.Errorf("%w: no resource subscriptions", ErrUnsupported)
		}
		return ack, nil
	}

	add, remove, gen := sub.legacy.plan(f.URIs)
	sub.s.signals.wantMore(wantedOf(f)) // an update may arrive before the answer
	missing, err := sub.subscribeEach(ctx, add, gen)
	if err != nil && !errors.Is(err, ErrUnsupported) {
		return ack, err
	}
	sub.s.signals.setWanted(wantedOf(f))
	if rerr := sub.unsubscribeEach(ctx, remove, gen); err == nil {
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

// subscribeEach subscribes the URIs and returns, sorted, those that the server refused. It
// fails as a whole if the session or ctx ends, or if the server does not know the method;
// answers received before that are recorded anyway.
func (sub *subscriber) subscribeEach(ctx context.Context, uris []string, gen int) (missing []string, err error) {
	errs := sub.forEach(ctx, mcp.MethodSubscribe, uris)
	unsupported := false
	for i, uri := range uris {
		e := errs[i]
		switch {
		case e == nil:
			sub.legacy.record(gen, uri, true)
		case errors.Is(e, ErrUnsupported):
			sub.legacy.record(gen, uri, false)
			unsupported = true
		case isRefusal(e):
			sub.s.logger.Debug("subscription refused", "uri", uri, "err", e)
			if isAnswer(e) { // without an answer, the server may have subscribed it
				sub.legacy.record(gen, uri, false)
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

// unsubscribeEach ends subscriptions. A refusal is not retried: notifications of such a URI are
// counted and dropped.
func (sub *subscriber) unsubscribeEach(ctx context.Context, uris []string, gen int) (err error) {
	errs := sub.forEach(ctx, mcp.MethodUnsubscribe, uris)
	for i, uri := range uris {
		switch e := errs[i]; {
		case e == nil || isRefusal(e):
			sub.legacy.record(gen, uri, false)
		case err == nil:
			err = e
		}
	}
	return err
}

// forEach sends one request for each URI, a few at a time, and returns their errors in the
// order of the URIs. After an error that concerns all requests, or after two request timeouts,
// the remaining ones are not sent and get that error.
func (sub *subscriber) forEach(ctx context.Context, method string, uris []string) []error {
	errs := make([]error, len(uris))
	ctx, stop := context.WithTimeoutCause(ctx, 2*sub.s.requests.requestTimeout(), errDeadline)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int) // sent and closed below; unbuffered: nothing to lose
	var wg sync.WaitGroup
	for range min(subscribeParallel, len(uris)) {
		wg.Go(func() {
			for i := range next {
				if errs[i] = context.Cause(ctx); errs[i] != nil {
					continue
				}
				sub.legacy.asking(uris[i])
				_, err := sub.s.requests.request(ctx, method, map[string]any{"uri": uris[i]})
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
