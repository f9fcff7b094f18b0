package events

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/mcptrack/mcptrack/core/serve"
)

// Bounds of one poll.
const (
	maxPollEvents  = 500
	defaultEvents  = 100
	maxPollEntries = 10_000
	maxPollBytes   = 1 << 20
	pollBatch      = 1000

	slowPoll = 5000 // ms
	fastPoll = 1000 // after a busy minute
)

// poll answers events/poll. Nothing is kept from one request to the next.
func (s *Service) poll(ctx context.Context, r *serve.Request) (json.RawMessage, error) {
	if !slices.Contains(s.opts.Modes, Poll) {
		return nil, Fail(r, Unsupported, map[string]any{"feature": "deliveryMode", "value": Poll})
	}
	q, err := ParseQuery(r)
	if err != nil {
		return nil, err
	}
	p, err := parseMembers(r.Params)
	if err != nil {
		return nil, err
	}
	limit := defaultEvents
	if n, err := p.number("maxEvents"); err != nil {
		return nil, err
	} else if n != nil {
		limit = int(min(max(*n, 1), maxPollEvents))
	}
	at, truncated, err := s.reader.Start(ctx, q.Cursor, q.MaxAge, 0)
	if err != nil {
		return nil, unavailable(err)
	}
	out := struct {
		Events    []json.RawMessage `json:"events"`
		Cursor    string            `json:"cursor"`
		Truncated bool              `json:"truncated"`
		HasMore   bool              `json:"hasMore"`
		NextPoll  int               `json:"nextPollMs"`
	}{Events: []json.RawMessage{}, NextPoll: slowPoll}
	if q.Cursor != nil {
		looked, size := 0, 0
	reading:
		for looked < maxPollEntries {
			before := at
			b, _, err := s.reader.Look(ctx, at, q.Filter.Matches, min(pollBatch, maxPollEntries-looked))
			if err != nil {
				if len(out.Events) > 0 {
					break
				}
				return nil, unavailable(err)
			}
			if b.At == before && !b.Truncated {
				break
			}
			truncated = truncated || b.Truncated
			for _, o := range b.Occurrences {
				if len(out.Events) == limit || len(out.Events) > 0 && size+len(o.body) > maxPollBytes {
					break reading
				}
				out.Events = append(out.Events, append(slices.Clip(o.body), '}'))
				size += len(o.body) + 1
				at.Seq = o.Seq
			}
			looked += int(b.At.Seq - min(before.Seq, b.At.Seq))
			at = b.At
		}
		if end, ok := s.reader.tail.end(); ok && end.Epoch == at.Epoch {
			out.HasMore = at.Seq < end.Seq
		}
	}
	out.Cursor, out.Truncated = at.Cursor(), truncated
	if s.reader.tail.busyMinute() {
		out.NextPoll = fastPoll
	}
	return json.Marshal(out)
}
