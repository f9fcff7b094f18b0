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

// Options configure a Service. Reader is required.
type Options struct {
	Reader *Reader
	// Modes are the offered modes, of Poll and Push; both if nil.
	Modes []Mode
	// Webhooks handles events/subscribe and events/unsubscribe; nil: webhooks are not offered.
	// They are offered only to clients with an identity.
	Webhooks mcpserver.Func
	// NoWebhooks is the reason that clients get if Webhooks is nil; optional.
	NoWebhooks string
	// Numbering is the numbering of errors for all clients; "": EventNumberingSEP for a client that
	// declares the extension, EventNumberingSketch for others.
	Numbering Numbering
	// MaxStreams bounds the streams of one client (default 32), and MaxTotal the streams of all
	// clients (default 1,000); see package fair for the share of each principal. Modern clients
	// with the same credentials, or without any, count as one client.
	MaxStreams, MaxTotal int
	// Heartbeat is the interval of the heartbeats of a stream; 25 s by default.
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

// Handlers returns the handlers for a server.
func (s *Service) Handlers() mcpserver.Events {
	return mcpserver.Events{Handle: s.handle, Stream: s.Stream}
}

func (s *Service) handle(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	r.EventNumbering = s.opts.Numbering
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

// streams counts the open streams.
type streams struct {
	each int

	mu  sync.Mutex
	all fair.Limit
	of  map[any]int // by client: a *mcpserver.Client in the legacy era, else Request.Principal
}

// enter counts a stream; the caller must call leave at its end.
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

// Bounds of one poll.
const (
	maxPollEvents  = 500     // events in a response
	defaultEvents  = 100     // events in a response, if the client sends no maxEvents
	maxPollEntries = 10_000  // entries of the log
	maxPollBytes   = 1 << 20 // of a response with several events
	pollBatch      = 1000    // entries per step

	slowPoll = 5000 // ms before the client's next poll
	fastPoll = 1000 // the same during busy times
)

// poll handles events/poll. Nothing is kept between requests.
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
	// The response is built by hand: json.Marshal would parse the raw JSON in it again.
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

// streamBatch bounds the entries of the log for one write.
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
	var again <-chan time.Time // when to retry reading the log; nil: no failure
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
