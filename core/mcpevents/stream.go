package mcpevents

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// streamBatch bounds the entries that are looked at for one write.
const streamBatch = 512

// stream is one events/stream.
type stream struct {
	s      *Service
	filter Filter
	at     Position
	send   func(messages ...[]byte) error
	tag    []byte   // the end of each message; see the function tag
	parts  [][]byte // the messages of one write; reused for the next
}

// Stream serves events/stream: it sends the matching events after the cursor and then each
// new one, until ctx ends.
func (s *Service) Stream(ctx context.Context, r *mcpserver.Request, id json.RawMessage, send func(messages ...[]byte) error) (json.RawMessage, error) {
	r.EventNumbering = s.opts.Numbering
	if !slices.Contains(s.opts.Modes, Push) {
		return nil, Fail(r, Unsupported, map[string]any{"feature": "deliveryMode", "value": Push})
	}
	q, err := ParseQuery(r)
	if err != nil {
		return nil, err
	}
	leave, err := s.streams.enter(r)
	if err != nil {
		return nil, err
	}
	defer leave()
	at, truncated, err := s.reader.Start(ctx, q.Cursor, q.MaxAge, 0)
	if err != nil {
		return nil, unavailable(err)
	}
	st := &stream{s: s, filter: q.Filter, at: at, send: send, tag: tag(id)}
	if err := st.active(truncated); err != nil {
		return nil, err
	}
	if err := st.run(ctx); ctx.Err() == nil {
		return nil, err
	}
	return append(append([]byte(`{"_meta":{"`+metaStream+`":`), id...), "}}"...), nil
}

// run sends events until ctx ends or the client has disconnected.
func (st *stream) run(ctx context.Context) error {
	beat := time.NewTicker(st.s.opts.Heartbeat)
	defer beat.Stop()
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	var again <-chan time.Time // when to read the log again after a failure; nil: none
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-beat.C:
			if err := st.notify(mcp.NotificationEventsHeartbeat, st.cursor()); err != nil {
				return err
			}
		default:
		}
		b, moved, err := st.s.reader.Look(ctx, st.at, st.filter.Matches, streamBatch)
		switch {
		case err != nil && ctx.Err() != nil:
			continue
		case err != nil:
			if retry.Failures() == 0 {
				if err := st.notify(mcp.NotificationEventsError, []byte(`"error":{"code":-32603,"message":"StoreUnavailable"}`)); err != nil {
					return err
				}
			}
			moved, again = nil, time.After(retry.Next())
		case b.Truncated:
			st.at = b.At
			retry.Reset()
			if err := st.active(true); err != nil {
				return err
			}
			continue
		case b.At != st.at:
			st.at = b.At
			retry.Reset()
			if err := st.events(b.Occurrences); err != nil {
				return err
			}
			continue
		}
		select {
		case <-moved:
		case <-again:
		case <-ctx.Done():
		case <-beat.C:
			if err := st.notify(mcp.NotificationEventsHeartbeat, st.cursor()); err != nil {
				return err
			}
		}
	}
}

func (st *stream) cursor() []byte { return []byte(`"cursor":"` + st.at.Cursor() + `"`) }

func (st *stream) active(truncated bool) error {
	return st.notify(mcp.NotificationEventsActive, append(st.cursor(), `,"truncated":`+strconv.FormatBool(truncated)...))
}

func (st *stream) notify(method string, members []byte) error {
	return st.send(append(append(message(method), members...), st.tag...))
}

func (st *stream) events(all []*Occurrence) error {
	if len(all) == 0 {
		return nil
	}
	st.parts = st.parts[:0]
	for _, o := range all {
		m := make([]byte, 0, len(eventPrefix)+len(o.body)+len(o.ID)+len(st.tag)+16)
		m = append(append(append(m, eventPrefix...), o.body[1:]...), `,"cursor":"`...)
		m = append(append(append(m, o.ID...), '"'), st.tag...)
		st.parts = append(st.parts, m)
	}
	return st.send(st.parts...)
}
