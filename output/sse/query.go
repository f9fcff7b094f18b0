package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// query is the query of one client.
type query struct {
	filter    filter
	id        string    // the last id that the client received, unvalidated
	at        time.Time // or: from this time on
	seq       *uint64   // or: after this number
	earliest  bool      // or: everything there is
	gapLatest bool      // if its history has expired, skip the rest of it
}

func parseQuery(r *http.Request, feed bool) (query, error) {
	v := r.URL.Query()
	q := query{id: r.Header.Get("Last-Event-ID")}
	if q.id == "" {
		q.id = v.Get("lastEventId")
	}
	var err error
	if !feed {
		if q.filter, err = parseFilter(v); err != nil {
			return query{}, err
		}
	}
	switch v.Get("ongap") {
	case "", "earliest":
	case "latest":
		q.gapLatest = true
	default:
		return query{}, errors.New(`invalid ongap; expected "earliest" or "latest"`)
	}
	if since := v.Get("since"); since != "" && q.id == "" {
		err = q.since(since)
	}
	return q, err
}

// since parses the parameter of that name. Unlike an id, which a client may have
// received from another log, it was written by a person: an invalid one is an error.
func (q *query) since(s string) error {
	switch s {
	case "earliest":
		q.earliest = true
		return nil
	case "latest":
		return nil
	}
	if _, _, err := event.ParseID(s); err == nil {
		q.id = s
		return nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		q.seq = &n
		return nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		q.at = t
		return nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		q.at = time.Now().Add(-d)
		return nil
	}
	return fmt.Errorf("invalid since=%q; expected an id, a number, an RFC 3339 time, a duration, earliest or latest", printable.Line(s, 64))
}

// place determines where the client begins, and what it has missed.
func (c *client) place(ctx context.Context) (next uint64, gap *event.Gap, err error) {
	source, q := c.hub.opts.Source, c.query
	switch {
	case q.earliest:
		b, err := source.Bounds(ctx)
		return b.First, nil, err
	case !q.at.IsZero():
		next, err = source.Since(ctx, q.at)
		return next, nil, err
	case q.seq != nil:
		q.id = event.FormatID(c.ring.epoch, *q.seq)
	case q.id == "":
		next, _ = c.ring.position()
		return max(next, c.ring.begin), nil, nil // a ring that is being filled shows history first
	}
	// Most clients reconnect soon: the ring has what they need.
	if epoch, seq, err := event.ParseID(q.id); err == nil && epoch == c.ring.epoch && c.ring.reach(seq+1) {
		return seq + 1, nil, nil
	}
	r, err := source.Resume(ctx, q.id)
	if err != nil || r.Gap == nil {
		return r.From, nil, err
	}
	if q.gapLatest {
		r.From = r.Next
		r.Gap.To = event.FormatID(c.ring.epoch, r.Next-1)
	}
	return r.From, r.Gap, nil
}
