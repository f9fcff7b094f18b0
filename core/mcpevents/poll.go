package mcpevents

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Bounds of one poll.
const (
	maxPollEvents  = 500     // events in an answer
	defaultEvents  = 100     // events in an answer, if the client sends no maxEvents
	maxPollEntries = 10_000  // entries of the log that are looked at
	maxPollBytes   = 1 << 20 // of an answer with several events
	pollBatch      = 1000    // entries that are looked at in one step

	slowPoll = 5000 // ms that a client is asked to wait before its next poll
	fastPoll = 1000 // the same after a busy minute
)

// poll answers events/poll. Nothing is kept from one request to the next.
func (s *Service) poll(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
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
	// The answer is put together by hand: json.Marshal would parse the raw JSON in it again.
	out := []byte(`{"events":[`)
	hasMore := false
	if q.Cursor != nil {
		looked, found := 0, 0
	reading:
		for looked < maxPollEntries {
			before := at
			b, _, err := s.reader.Look(ctx, at, q.Filter.Matches, min(pollBatch, maxPollEntries-looked))
			if err != nil {
				if found > 0 {
					break
				}
				return nil, unavailable(err)
			}
			if b.At == before && !b.Truncated {
				break
			}
			truncated = truncated || b.Truncated
			for _, o := range b.Occurrences {
				if found == limit || found > 0 && len(out)+len(o.body) > maxPollBytes {
					break reading
				}
				if found++; found > 1 {
					out = append(out, ',')
				}
				out = append(append(out, o.body...), '}')
				at.Seq = o.Seq
			}
			looked += int(b.At.Seq - min(before.Seq, b.At.Seq))
			at = b.At
		}
		if end, ok := s.reader.tail.end(); ok && end.Epoch == at.Epoch {
			hasMore = at.Seq < end.Seq
		}
	}
	wait := slowPoll
	if s.reader.tail.busyMinute() {
		wait = fastPoll
	}
	out = append(append(out, `],"cursor":"`...), at.Cursor()...)
	out = strconv.AppendBool(append(out, `","truncated":`...), truncated)
	out = strconv.AppendBool(append(out, `,"hasMore":`...), hasMore)
	return append(strconv.AppendInt(append(out, `,"nextPollMs":`...), int64(wait), 10), '}'), nil
}
