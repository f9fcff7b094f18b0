package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// listen opens one stream and waits for the acknowledgement. The stream then lives until we
// hang it up, the server ends it, or the session ends; an end that we did not cause raises a
// Gap.
func (sub *subscriber) listen(ctx context.Context, f Filter) (*listen, error) {
	lctx, cancel := context.WithCancelCause(sub.s.ctx)
	st := &stream{id: sub.s.requests.nextID(), ack: make(chan Filter, 1), cancel: func() { cancel(errHungUp) }}
	l := &listen{stream: st, over: make(chan struct{})}
	sub.s.signals.open(st)
	began := time.Now()
	params := map[string]any{"notifications": mcp.SubscriptionFilter{Tools: f.Tools, Prompts: f.Prompts, Resources: f.Resources, Events: f.Events, URIs: f.URIs}}
	if !sub.s.wg.Go(func() {
		defer close(l.over)
		defer cancel(nil)
		l.err = sub.send(lctx, st, params)
		if sub.s.signals.forget(st) {
			sub.listenEnded(began)
			sub.s.signals.raiseGap(streamEnd(sub.s.signals.reason(st), l.err))
		}
	}) {
		cancel(nil)
		sub.s.signals.forget(st)
		return nil, sub.s.Err()
	}

	t := time.NewTimer(ackTimeout)
	defer t.Stop()
	select {
	case l.ack = <-st.ack:
		return l, nil
	case <-l.over:
		select {
		case l.ack = <-st.ack:
			return l, nil // it has ended since; the next Subscribe will notice
		default:
		}
		if l.err == nil {
			return nil, errors.New("the server ended the subscription before it acknowledged it")
		}
		return nil, l.err
	case <-t.C:
		sub.hangUp([]*listen{l})
		return nil, fmt.Errorf("%w: the subscription was not acknowledged within %s", errDeadline, ackTimeout)
	case <-ctx.Done():
		sub.hangUp([]*listen{l})
		return nil, context.Cause(ctx)
	}
}

// send sends the request of a listen and returns when the listen is over.
func (sub *subscriber) send(ctx context.Context, st *stream, params map[string]any) error {
	requests := &sub.s.requests
	q := requests.prepare(requests.conn, mcp.ModernVersion, st.id, mcp.MethodListen, params)
	if requests.conn.HTTP() { // on stdio and SSE other messages prove that the connection works
		silent := time.AfterFunc(wire.StreamIdle, func() { sub.s.signals.wentSilent(st) })
		defer silent.Stop()
		q.Alive = func() { silent.Reset(wire.StreamIdle) }
	}
	_, err := requests.do(ctx, requests.conn, q)
	return err
}

var errHungUp = errors.New("no longer wanted")

func streamEnd(said string, err error) string {
	switch {
	case said != "":
		return said
	case err == nil:
		return "the server ended the subscription"
	default:
		return "the subscription was interrupted: " + printable.Reason(err, 500)
	}
}

// hangUp ends listens. That does not raise a Gap. It does not wait for the server.
func (sub *subscriber) hangUp(listens []*listen) {
	for _, l := range listens {
		sub.s.signals.forget(l.stream)
		l.stream.cancel()
	}
	for _, l := range listens {
		<-l.over // the request ends as soon as its context does
	}
}

// retire hangs up listens that were replaced, after the time settle.
func (sub *subscriber) retire(listens []*listen) {
	if len(listens) == 0 {
		return
	}
	sub.s.signals.leave(listens)
	sub.s.wg.Go(func() {
		_ = backoff.Sleep(sub.s.ctx, settle)
		sub.hangUp(listens)
	})
}

// allHealthy reports whether none of the listens has ended or has to be replaced.
func (sub *subscriber) allHealthy(listens []*listen) bool {
	return !slices.ContainsFunc(listens, func(l *listen) bool { return !sub.s.signals.healthy(l.stream.id) })
}

// bisect finds the URIs that make the server refuse a listen, by asking for halves. The number
// of requests is bounded: after that, all remaining URIs count as refused and are polled.
func (sub *subscriber) bisect(ctx context.Context, uris []string) (bad []string, err error) {
	budget := maxBisect
	var try func([]string) error
	try = func(part []string) error {
		if budget--; budget < 0 {
			bad = append(bad, part...)
			return nil
		}
		l, err := sub.listen(ctx, Filter{URIs: part})
		if err == nil {
			sub.hangUp([]*listen{l})
			return nil
		}
		if !isAnswer(err) {
			return err
		}
		if len(part) == 1 {
			bad = append(bad, part[0])
			return nil
		}
		if err := try(part[:len(part)/2]); err != nil {
			return err
		}
		return try(part[len(part)/2:])
	}
	if len(uris) == 1 {
		return uris, nil
	}
	if err := try(uris[:len(uris)/2]); err != nil {
		return nil, err
	}
	err = try(uris[len(uris)/2:])
	return bad, err
}

// maxBisect bounds the requests that find out which URIs are refused.
const maxBisect = 64
