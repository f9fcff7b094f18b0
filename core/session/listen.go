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
	// ackTimeout bounds the wait for the acknowledgement of a listen.
	ackTimeout = 10 * time.Second
	// maxListen bounds the bytes of URIs in one listen: servers refuse bodies of 4 MiB.
	maxListen = 2 << 20
	// settle is how long a server on stdio is given to process the cancellation of a listen
	// (some clean up late, and would clean up the next listen as well), and how long a replaced
	// stream over HTTP is kept open: the server's last messages on it may arrive after its
	// successor was acknowledged.
	settle = 100 * time.Millisecond
)

// listen is one subscriptions/listen request.
type listen struct {
	stream *stream
	ack    Filter
	// over is closed by the goroutine of the request when that has ended.
	over chan struct{}
	err  error // of the request; valid once over is closed
}

// subscribeModern replaces the open listens if the filter changed, or if one has ended or was
// silent for too long.
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
	sub.s.signals.wantMore(wantedOf(f)) // an update may follow the acknowledgement at once
	interrupted := false
	// A copy: if this fails, sub.listens must still show which of them have ended.
	old := slices.DeleteFunc(slices.Clone(sub.listens), func(l *listen) bool { return !sub.s.signals.live(l.stream.id) })
	if !sub.s.requests.conn.HTTP() && len(old) > 0 {
		// A server may keep one subscription per connection, so that ending the old one later
		// would end the new one as well.
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

// modernAck compares the filter that was requested with those that the listens honour.
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

// listenAll opens as many listens as the filter needs. If the server refuses a listen because
// of some URIs, these are left out and returned.
func (sub *subscriber) listenAll(ctx context.Context, f Filter) (listens []*listen, refused []string, err error) {
	for i, uris := range chunks(f.URIs, maxListen) {
		part := Filter{URIs: uris}
		if i == 0 { // only the first one also asks for changes of lists
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

// listenBut opens one listen, without the URIs that the server refuses. If its error names
// them, that costs one more request, otherwise a bisection.
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
				return nil, nil, errors.New("the server refuses a subscription to all resources together, but accepts each of them alone")
			}
		}
		refused = append(refused, bad...)
		f.URIs = slices.DeleteFunc(slices.Clone(f.URIs), func(u string) bool { return slices.Contains(bad, u) })
		if f.Empty() {
			return nil, refused, nil
		}
	}
}

// culprits returns the URIs that an error names.
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
		longest := slices.MaxFunc(bad, func(a, b string) int { return len(a) - len(b) })
		bad = []string{longest}
	}
	return bad
}

// isUnsupported reports whether a listen failed because the server does not have the method.
func isUnsupported(err error) bool {
	if h, ok := errors.AsType[*HTTPError](err); ok {
		return h.Status == http.StatusNotFound || h.Status == http.StatusMethodNotAllowed || h.Status == http.StatusNotImplemented
	}
	return errors.Is(err, ErrUnsupported)
}

// chunks splits URIs into parts whose JSON is below the limit. There is always at least one
// part.
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
