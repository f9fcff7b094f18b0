package mcpevents

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Options configures a Service. Reader is required.
type Options struct {
	Reader *Reader
	// Modes selects which of the delivery modes Poll and Push are offered. Nil means both.
	Modes []Mode
	// Webhooks handles events/subscribe and events/unsubscribe. Webhooks are offered only to
	// clients with an identity, and not at all if it is nil.
	Webhooks mcpserver.Func
	// NoWebhooks is the reason that is reported to clients if Webhooks is nil. Optional.
	NoWebhooks string
	// MaxStreams limits the open streams per client (default 32), and MaxTotal those of all clients
	// together (default 1,000). Within MaxTotal, each principal gets its fair share (see package
	// fair). Modern clients that share credentials, or that have none, count as one client.
	MaxStreams, MaxTotal int
	// Heartbeat is the interval between heartbeats on a stream. The default is 25 seconds.
	Heartbeat time.Duration
}

// Service serves the methods of MCP Events. Its Reader must be running.
type Service struct {
	opts    Options
	reader  *Reader
	streams streams
}

func New(opts Options) *Service {
	if opts.Modes == nil {
		opts.Modes = []Mode{Poll, Push}
	}
	opts.Heartbeat = cmp.Or(opts.Heartbeat, 25*time.Second)
	s := &Service{opts: opts, reader: opts.Reader}
	s.streams = streams{each: cmp.Or(opts.MaxStreams, 32), all: fair.Limit{Max: cmp.Or(opts.MaxTotal, 1000)}, of: map[any]int{}}
	return s
}

// Handlers returns the MCP Events handlers for an MCP server.
func (s *Service) Handlers() mcpserver.Events {
	return mcpserver.Events{Handle: s.handle, Stream: s.Stream}
}

func (s *Service) handle(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	switch r.Method {
	case mcp.MethodListEvents:
		return s.list(r)
	case mcp.MethodPollEvents:
		return s.poll(ctx, r)
	}
	switch {
	case s.opts.Webhooks == nil:
		data := map[string]any{"feature": "deliveryMode", "value": Webhook}
		if s.opts.NoWebhooks != "" {
			data["reason"] = s.opts.NoWebhooks
		}
		return nil, Fail(r, Unsupported, data)
	case r.Identity == "":
		return nil, Fail(r, Forbidden, map[string]any{"reason": "webhooks need a client with a token"})
	}
	return s.opts.Webhooks(ctx, r)
}

// streams counts and limits the open streams.
type streams struct {
	each int

	mu  sync.Mutex
	all fair.Limit
	of  map[any]int // streams per client: keyed by *mcpserver.Client (legacy) or Request.Principal
}

// enter counts a new stream, or returns an error if a limit is reached. The caller must call leave
// when the stream ends.
func (s *streams) enter(r *mcpserver.Request) (leave func(), err error) {
	var client any = r.Principal
	if r.Client != nil {
		client = r.Client
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[client] >= s.each:
		return nil, Fail(r, ResourceExhausted, map[string]any{"limit": "streams of a client", "max": s.each})
	case !s.all.Take(r.Principal):
		return nil, Fail(r, ResourceExhausted, map[string]any{"limit": "streams", "max": s.all.Max})
	}
	s.of[client]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all.Give(r.Principal)
		if s.of[client]--; s.of[client] == 0 {
			delete(s.of, client)
		}
	}, nil
}

// Streams returns the number of open streams.
func (s *Service) Streams() int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return s.streams.all.All()
}

// Limits for a single poll.
const (
	maxPollEvents  = 500     // maximum events per response
	defaultEvents  = 100     // events per response if the client does not specify maxEvents
	maxPollEntries = 10_000  // maximum log entries that are read
	maxPollBytes   = 1 << 20 // maximum size of a response with several events
	pollBatch      = 1000    // log entries per read

	slowPoll = 5000 // suggested milliseconds until the next poll
	fastPoll = 1000 // suggested milliseconds during busy times
)

// poll handles events/poll. It keeps no state between requests.
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
	// The response is assembled by hand, because json.Marshal would parse the raw JSON in it again.
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

// streamBatch limits the number of log entries that are read for one write.
const streamBatch = 512

// stream serves one events/stream request.
type stream struct {
	s      *Service
	filter Filter
	at     Position
	send   func(messages ...[]byte) error
	tag    []byte   // the suffix of every message; see the tag function
	parts  [][]byte // the messages of one write; reused for the next write
}

// Stream serves events/stream. It sends the matching events after the cursor and then each new one,
// until ctx is done.
func (s *Service) Stream(ctx context.Context, r *mcpserver.Request, id json.RawMessage, send func(messages ...[]byte) error) (json.RawMessage, error) {
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

// run sends events until ctx is done or the client has disconnected.
func (st *stream) run(ctx context.Context) error {
	beat := time.NewTicker(st.s.opts.Heartbeat)
	defer beat.Stop()
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	var again <-chan time.Time // when to retry reading the log; nil after a successful read
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
