package mcpevents

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Options configure a Service. Reader is required.
type Options struct {
	Reader *Reader
	// Modes are the modes that are offered, of Poll and Push; both if nil.
	Modes []Mode
	// Webhooks answers events/subscribe and events/unsubscribe; nil: webhooks are not offered.
	// They are offered only to clients that have an identity.
	Webhooks mcpserver.Func
	// NoWebhooks is the reason that clients are told if Webhooks is nil; optional.
	NoWebhooks string
	// Numbering is the numbering of errors for all clients; "": for a client that declares the
	// extension NumberingSEP, for others NumberingSketch.
	Numbering Numbering
	// MaxStreams bounds the streams of one client, 32 by default, and MaxTotal those of all
	// clients, 1,000 by default; see package fair for the part that each principal gets of
	// them. Modern clients with the same credentials, or without any, count as one client.
	MaxStreams, MaxTotal int
	// Heartbeat is the interval of the heartbeats of a stream; 25 s by default.
	Heartbeat time.Duration
}

// Service serves the methods of MCP Events. The Run of its Reader must be running.
type Service struct {
	opts    Options
	reader  *Reader
	streams streams
}

// New returns a service.
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
	of  map[any]int // by client: a *serve.Client in the legacy era, else Request.Principal
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

// Streams returns how many streams are open.
func (s *Service) Streams() int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return s.streams.all.All()
}
