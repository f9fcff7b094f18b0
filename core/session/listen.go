package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

const (
	// ackTimeout limits the wait for the acknowledgement of a listen.
	ackTimeout = 10 * time.Second
	// maxListen limits the total bytes of the URIs in one listen, because servers reject bodies of
	// 4 MiB.
	maxListen = 2 << 20
	// settle is how long a stdio server may take to process the cancellation of a listen: some
	// servers clean up late and would also remove the next listen. Over HTTP, a replaced stream
	// stays open for this long, because its last messages may arrive after the new stream has been
	// acknowledged.
	settle = 100 * time.Millisecond
)

// listen is one subscriptions/listen request. The [Signals] with which it is registered handles its
// notifications.
type listen struct {
	id     wire.ID
	cancel func() // cancels the request
	// acknowledged receives from Signals, at the first acknowledgement, the filter that the server
	// honours. It has capacity 1 and is never closed.
	acknowledged chan Filter
	over         chan struct{} // closed by the request's goroutine when the request ends

	ack Filter // filter that the server honours; set before listen returns
	err error  // error of the request; valid once over is closed

	// The fields below are guarded by Signals.mu.
	acked   bool
	leaving bool   // being replaced, so its end is not a gap
	silent  bool   // silent for too long, so it must be replaced
	empty   bool   // the server honours nothing and will end the stream
	why     string // why the server ended the request; empty if not specified
}

// subscribeModern replaces the open listens if the filter has changed, a listen has ended, or a
// listen has been silent for too long.
func (s *Session) subscribeModern(ctx context.Context, f Filter, info Info) (Ack, error) {
	caps := info.Capabilities
	ask := Filter{Tools: f.Tools && caps.Tools, Prompts: f.Prompts && caps.Prompts, Resources: f.Resources && caps.Resources, Events: f.Events && caps.EventsListChanged}
	var unsupported error
	if caps.ResourcesSubscribe {
		ask.URIs = f.URIs
	} else if len(f.URIs) > 0 {
		unsupported = fmt.Errorf("%w: no resource subscriptions", ErrUnsupported)
	}
	if s.subs.filter.equal(f) && s.allHealthy(s.subs.listens) && (len(s.subs.listens) > 0 || ask.Empty()) {
		return s.subs.ack, unsupported
	}

	if err := s.subs.pause(ctx); err != nil {
		return Ack{}, err
	}
	s.signals.wantMore(wantedOf(f)) // an update may arrive right after the acknowledgement
	interrupted := false
	// Work on a clone: if this fails, s.subs.listens must still show which listens have ended.
	old := slices.DeleteFunc(slices.Clone(s.subs.listens), func(l *listen) bool { live, _ := s.signals.state(l); return !live })
	if !s.conn.HTTP() && len(old) > 0 {
		// A server may allow one subscription per connection: ending the old subscription later
		// would also end the new one.
		s.hangUp(old)
		s.subs.listens, old = nil, nil
		if !backoff.Sleep(ctx, settle) {
			return Ack{}, context.Cause(ctx)
		}
		interrupted = true
	}
	fresh, missing, err := s.listenAll(ctx, ask)
	if err != nil && !errors.Is(err, ErrUnsupported) {
		s.hangUp(fresh)
		return Ack{}, err
	}
	s.retire(old)
	s.signals.setWanted(wantedOf(f))
	s.subs.listens, s.subs.filter = fresh, f
	s.subs.ack = modernAck(f, fresh, missing, caps)
	if err == nil {
		err = unsupported
	}
	ack := s.subs.ack
	ack.Interrupted = interrupted && !ask.Empty()
	return ack, err
}

// modernAck compares the requested filter with the filters that the listens honour.
func modernAck(f Filter, listens []*listen, refused []string, caps Capabilities) Ack {
	var got Filter
	for _, l := range listens {
		got.Tools = got.Tools || l.ack.Tools
		got.Prompts = got.Prompts || l.ack.Prompts
		got.Resources = got.Resources || l.ack.Resources
		got.Events = got.Events || l.ack.Events
		got.URIs = append(got.URIs, l.ack.URIs...)
	}
	honoured := make(map[string]struct{}, len(got.URIs))
	for _, u := range got.URIs {
		honoured[u] = struct{}{}
	}
	for _, u := range refused {
		delete(honoured, u)
	}
	ack := Ack{Honoured: Filter{Tools: got.Tools && f.Tools, Prompts: got.Prompts && f.Prompts, Resources: got.Resources && f.Resources, Events: got.Events && f.Events}}
	for _, u := range f.URIs {
		if _, ok := honoured[u]; ok {
			ack.Honoured.URIs = append(ack.Honoured.URIs, u)
		} else {
			ack.MissingURIs = append(ack.MissingURIs, u)
		}
	}
	ack.MissingLists = f.missingLists(ack.Honoured, caps)
	return ack
}

// listenAll opens as many listens as the filter needs. If the server refuses a listen because of
// certain URIs, listenAll omits these URIs and returns them.
func (s *Session) listenAll(ctx context.Context, f Filter) (listens []*listen, refused []string, err error) {
	for i, uris := range chunks(f.URIs, maxListen) {
		part := Filter{URIs: uris}
		if i == 0 { // only the first listen requests list changes
			part.Tools, part.Prompts, part.Resources, part.Events = f.Tools, f.Prompts, f.Resources, f.Events
		}
		if part.Empty() {
			continue
		}
		got, bad, err := s.listenBut(ctx, part)
		listens, refused = append(listens, got...), append(refused, bad...)
		if err != nil {
			return listens, refused, err
		}
	}
	return listens, refused, nil
}

// listenBut opens one listen without the URIs that the server refuses: those that the error mentions, or
// else all.
func (s *Session) listenBut(ctx context.Context, f Filter) (listens []*listen, refused []string, err error) {
	for {
		l, err := s.listen(ctx, f)
		switch {
		case err == nil && l.ack.Empty():
			s.hangUp([]*listen{l})
			return nil, refused, nil
		case err == nil:
			return []*listen{l}, refused, nil
		}
		if isUnsupported(err) {
			return nil, nil, fmt.Errorf("%w: no subscriptions: %w", ErrUnsupported, err)
		}
		if !isAnswer(err) || len(f.URIs) == 0 || errors.Is(err, ErrAuth) {
			return nil, nil, err
		}
		s.opts.Logger.Debug("the server rejected the whole subscription", "err", err)
		bad := culprits(err, f.URIs)
		if len(bad) == 0 {
			bad = f.URIs
		}
		refused = append(refused, bad...)
		f.URIs = slices.DeleteFunc(slices.Clone(f.URIs), func(u string) bool { return slices.Contains(bad, u) })
		if f.Empty() {
			return nil, refused, nil
		}
	}
}

// culprits returns the URIs that an error mentions.
func culprits(err error, uris []string) []string {
	rpc, ok := errors.AsType[*RPCError](err)
	if !ok {
		return nil
	}
	var data struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(rpc.Data, &data)
	if _, found := slices.BinarySearch(uris, data.URI); found {
		return []string{data.URI}
	}
	var bad []string
	for _, u := range uris {
		if strings.Contains(rpc.Message, u) {
			bad = append(bad, u)
		}
	}
	if len(bad) > 1 { // one URI may be a prefix of another
		return []string{slices.MaxFunc(bad, func(a, b string) int { return len(a) - len(b) })}
	}
	return bad
}

// isUnsupported reports whether a listen failed because the server does not support the method.
func isUnsupported(err error) bool {
	if h, ok := errors.AsType[*HTTPError](err); ok {
		return h.Status == http.StatusNotFound || h.Status == http.StatusMethodNotAllowed || h.Status == http.StatusNotImplemented
	}
	return errors.Is(err, ErrUnsupported)
}

// chunks splits URIs into parts whose JSON is smaller than the limit. There is at least one part.
func chunks(uris []string, limit int) [][]string {
	var parts [][]string
	start, size := 0, 0
	for i, u := range uris {
		n := len(u) + 8
		if size > 0 && size+n > limit {
			parts = append(parts, uris[start:i])
			start, size = i, 0
		}
		size += n
	}
	return append(parts, uris[start:])
}

// listen opens one stream and waits for the acknowledgement. The stream stays open until hangUp is
// called, the server ends it, or the session ends. If it ends without hangUp, it raises a gap.
func (s *Session) listen(ctx context.Context, f Filter) (*listen, error) {
	lctx, cancel := context.WithCancelCause(s.ctx)
	l := &listen{id: s.nextID(), cancel: func() { cancel(errHungUp) }, acknowledged: make(chan Filter, 1), over: make(chan struct{})}
	s.signals.open(l)
	began := time.Now()
	params := map[string]any{"notifications": mcp.SubscriptionFilter(f)}
	if !s.wg.Go(func() {
		defer close(l.over)
		defer cancel(nil)
		l.err = s.sendListen(lctx, l, params)
		if s.signals.forget(l) {
			s.subs.listenEnded(began)
			s.signals.raiseGap(streamEnd(l.why, l.err))
		}
	}) {
		cancel(nil)
		s.signals.forget(l)
		return nil, s.Err()
	}

	t := time.NewTimer(ackTimeout)
	defer t.Stop()
	select {
	case l.ack = <-l.acknowledged:
		return l, nil
	case <-l.over:
		select {
		case l.ack = <-l.acknowledged:
			return l, nil // the listen has already ended; the next Subscribe will notice
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

// sendListen sends a listen request and returns when the listen ends.
func (s *Session) sendListen(ctx context.Context, l *listen, params map[string]any) error {
	q := s.prepare(s.conn, mcp.ModernVersion, l.id, mcp.MethodListen, params)
	if s.conn.HTTP() { // on stdio and SSE, other messages show that the connection works
		silent := time.AfterFunc(wire.StreamIdle, func() { s.signals.wentSilent(l) })
		defer silent.Stop()
		q.Alive = func() { silent.Reset(wire.StreamIdle) }
	}
	_, err := s.do(ctx, s.conn, q)
	return err
}

var errHungUp = errors.New("no longer wanted")

func streamEnd(why string, err error) string {
	switch {
	case why != "":
		return why
	case err == nil:
		return "the server ended the subscription"
	default:
		return "the subscription was interrupted: " + printable.Reason(err, 500)
	}
}

// hangUp ends listens without raising a gap. It does not wait for the server.
func (s *Session) hangUp(listens []*listen) {
	for _, l := range listens {
		s.signals.forget(l)
		l.cancel()
	}
	for _, l := range listens {
		<-l.over // the request ends as soon as its context is cancelled
	}
}

// retire hangs up replaced listens after settle.
func (s *Session) retire(listens []*listen) {
	if len(listens) == 0 {
		return
	}
	s.signals.leave(listens)
	s.wg.Go(func() {
		_ = backoff.Sleep(s.ctx, settle)
		s.hangUp(listens)
	})
}

// allHealthy reports whether no listen has ended or must be replaced.
func (s *Session) allHealthy(listens []*listen) bool {
	return !slices.ContainsFunc(listens, func(l *listen) bool { live, silent := s.signals.state(l); return !live || silent })
}
