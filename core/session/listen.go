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
)

const (
	// ackTimeout is how long a listen may take to be acknowledged.
	ackTimeout = 10 * time.Second
	// maxListen is how many bytes of URIs go into one listen: servers refuse
	// bodies of 4 MiB.
	maxListen = 2 << 20
	// settle is how long a server on stdio gets to take note of a cancelled
	// listen (some clean up after the fact, and would clean up the next one too),
	// and how long a replaced stream over HTTP goes on: what the server wrote to
	// it last may arrive after the acknowledgement of its successor.
	settle = 100 * time.Millisecond
)

// listen is one subscriptions/listen request.
type listen struct {
	stream *stream
	ack    Filter
	// over is closed, by its goroutine, when the request has ended.
	over chan struct{}
	err  error // of the request; valid once over is closed
}

// subscribeModern replaces the listens, if the filter changed, or if one has ended or
// was silent for too long.
func (sub *subscriber) subscribeModern(ctx context.Context, f Filter, info Info) (Ack, error) {
	caps := info.Capabilities
	ask := Filter{Tools: f.Tools && caps.Tools, Prompts: f.Prompts && caps.Prompts, Resources: f.Resources && caps.Resources, Events: f.Events && caps.EventsListChanged}
	var unsupported error
	if caps.ResourcesSubscribe {
		ask.URIs = f.URIs
	} else if len(f.URIs) > 0 {
		unsupported = fmt.Errorf("%w: no resource subscriptions", ErrUnsupported)
	}
	if sameFilter(sub.filter, f) && sub.allHealthy(sub.listens) && (len(sub.listens) > 0 || ask.Empty()) {
		return sub.ack, unsupported
	}

	if err := sub.pause(ctx); err != nil {
		return Ack{}, err
	}
	sub.s.signals.wantMore(wantedOf(f)) // an update may follow the ack at once
	interrupted := false
	// A copy: if this fails, those that have ended must still be known as such.
	old := slices.DeleteFunc(slices.Clone(sub.listens), func(l *listen) bool { return !sub.s.signals.live(l.stream.id) })
	if !sub.s.requests.conn.HTTP() && len(old) > 0 {
		// A server may keep one subscription per connection, so that the end of
		// the old one would take the new one along.
		sub.hangUp(old)
		sub.listens, old = nil, nil
		if !backoff.Sleep(ctx, settle) {
			return Ack{}, context.Cause(ctx)
		}
		interrupted = true
	}
	fresh, missing, err := sub.listenAll(ctx, ask)
	if err != nil && !errors.Is(err, ErrUnsupported) {
		sub.hangUp(fresh)
		return Ack{}, err
	}
	sub.retire(old)
	sub.s.signals.setWanted(wantedOf(f))
	sub.listens, sub.filter = fresh, f
	sub.ack = modernAck(f, fresh, missing, caps)
	if err == nil {
		err = unsupported
	}
	ack := sub.ack
	ack.Interrupted = interrupted && !ask.Empty()
	return ack, err
}

// modernAck compares what was asked with what the listens honour.
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
	ack.MissingLists = missingLists(f, ack.Honoured, caps)
	return ack
}

// listenAll opens as many listens as the filter needs. URIs because of which the
// server refuses a whole listen are left out and returned.
func (sub *subscriber) listenAll(ctx context.Context, f Filter) (listens []*listen, refused []string, err error) {
	for i, uris := range chunks(f.URIs, maxListen) {
		part := Filter{URIs: uris}
		if i == 0 { // the lists go with the first one
			part.Tools, part.Prompts, part.Resources, part.Events = f.Tools, f.Prompts, f.Resources, f.Events
		}
		if part.Empty() {
			continue
		}
		got, bad, err := sub.listenBut(ctx, part)
		listens, refused = append(listens, got...), append(refused, bad...)
		if err != nil {
			return listens, refused, err
		}
	}
	return listens, refused, nil
}

// listenBut opens one listen, without the URIs that the server will not have.
// A server that names the culprit costs one more request, others a bisection.
func (sub *subscriber) listenBut(ctx context.Context, f Filter) (listens []*listen, refused []string, err error) {
	for {
		l, err := sub.listen(ctx, f)
		switch {
		case err == nil && l.ack.Empty():
			sub.hangUp([]*listen{l})
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
		sub.s.logger.Debug("subscription refused as a whole", "err", err)
		bad := culprits(err, f.URIs)
		if len(bad) == 0 {
			bad, err = sub.bisect(ctx, f.URIs)
			if err != nil {
				return nil, nil, err
			}
			if len(bad) == 0 {
				return nil, nil, errors.New("the server refuses the subscription as a whole but accepts each part")
			}
		}
		refused = append(refused, bad...)
		f.URIs = slices.DeleteFunc(slices.Clone(f.URIs), func(u string) bool { return slices.Contains(bad, u) })
		if f.Empty() {
			return nil, refused, nil
		}
	}
}

// culprits are the URIs that an error names.
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
	if len(bad) > 1 { // one may be the beginning of another
		longest := slices.MaxFunc(bad, func(a, b string) int { return len(a) - len(b) })
		bad = []string{longest}
	}
	return bad
}

// isUnsupported reports whether a listen failed because there is no such method.
func isUnsupported(err error) bool {
	if h, ok := errors.AsType[*HTTPError](err); ok {
		return h.Status == http.StatusNotFound || h.Status == http.StatusMethodNotAllowed || h.Status == http.StatusNotImplemented
	}
	return errors.Is(err, ErrUnsupported)
}

// chunks splits URIs so that each part stays below the limit in JSON. There is
// always at least one part.
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

func sameFilter(a, b Filter) bool {
	return a.Tools == b.Tools && a.Prompts == b.Prompts && a.Resources == b.Resources && a.Events == b.Events && slices.Equal(a.URIs, b.URIs)
}
