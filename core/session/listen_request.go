package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// listen opens one stream and waits for the acknowledgement. From then on the
// stream lives until it is hung up, ends, or the session does; an end that is
// not ours raises a Gap.
func (s *Session) listen(ctx context.Context, f Filter) (*listen, error) {
	lctx, cancel := context.WithCancelCause(s.ctx)
	st := &stream{id: s.nextID(), ack: make(chan Filter, 1), cancel: func() { cancel(errHungUp) }}
	l := &listen{stream: st, over: make(chan struct{})}
	s.signals.open(st)
	params := map[string]any{"notifications": wireFilter(f)}
	if !s.wg.Go(func() {
		defer close(l.over)
		defer cancel(nil)
		_, l.err = s.sendUnbounded(lctx, s.tr, modernVersion, st.id, methodListen, params)
		if s.signals.forget(st) {
			s.subscriber.listenEnded(time.Now())
			s.signals.raiseGap(streamEnd(s.signals.reason(st), l.err))
		}
	}) {
		cancel(nil)
		s.signals.forget(st)
		return nil, s.endCause(ErrClosed)
	}

	t := time.NewTimer(ackTimeout)
	defer t.Stop()
	select {
	case l.ack = <-st.ack:
		return l, nil
	case <-l.over:
		select {
		case l.ack = <-st.ack:
			return l, nil // and ended since: the next Subscribe will see
		default:
		}
		if l.err == nil {
			return nil, errors.New("the server ended the subscription before it acknowledged it")
		}
		return nil, l.err
	case <-t.C:
		s.hangUp([]*listen{l})
		return nil, fmt.Errorf("%w: the subscription was not acknowledged within %s", errDeadline, ackTimeout)
	case <-ctx.Done():
		s.hangUp([]*listen{l})
		return nil, context.Cause(ctx)
	}
}

var errHungUp = errors.New("no longer wanted")

func streamEnd(said string, err error) string {
	switch {
	case said != "":
		return said
	case err == nil:
		return "the server ended the subscription"
	default:
		return "the subscription broke off: " + err.Error()
	}
}

// hangUp ends listens; their end is no gap. It does not wait for the server.
func (s *Session) hangUp(listens []*listen) {
	for _, l := range listens {
		s.signals.forget(l.stream)
		l.stream.cancel()
	}
	for _, l := range listens {
		<-l.over // the request ends as soon as its context does
	}
}

// retire hangs up, after a moment, listens that others have replaced.
func (s *Session) retire(listens []*listen) {
	if len(listens) == 0 {
		return
	}
	s.signals.leave(listens)
	s.wg.Go(func() {
		_ = sleep(s.ctx, settle)
		s.hangUp(listens)
	})
}

// allLive reports whether none of the listens has ended.
func (s *Session) allLive(listens []*listen) bool {
	return !slices.ContainsFunc(listens, func(l *listen) bool { return !s.signals.live(l.stream.id) })
}

// bisect finds the URIs that make the server refuse a listen, by asking for
// halves. The number of requests is bounded: beyond, all that is left counts as
// refused and is polled.
func (s *Session) bisect(ctx context.Context, uris []string) (bad []string, err error) {
	budget := maxBisect
	var walk func([]string) error
	walk = func(part []string) error {
		if budget--; budget < 0 {
			bad = append(bad, part...)
			return nil
		}
		l, err := s.listen(ctx, Filter{URIs: part})
		if err == nil {
			s.hangUp([]*listen{l})
			return nil
		}
		if !isAnswer(err) {
			return err
		}
		if len(part) == 1 {
			bad = append(bad, part[0])
			return nil
		}
		if err := walk(part[:len(part)/2]); err != nil {
			return err
		}
		return walk(part[len(part)/2:])
	}
	if len(uris) == 1 {
		return uris, nil
	}
	if err := walk(uris[:len(uris)/2]); err != nil {
		return nil, err
	}
	err = walk(uris[len(uris)/2:])
	return bad, err
}

// maxBisect is how many requests go into finding out which URIs are refused.
const maxBisect = 64
