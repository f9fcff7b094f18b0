// Package eventsource is the client side of MCP Events (SEP-3415): it subscribes to the events that
// the server of one session offers, and reports which resources and lists may have changed. Its
// owner takes a [Report] and decides what to read, list and publish.
//
// # Order and loss
//
// An event is a hint. The resource that it names is only marked, in a set of limited size. Events
// that do not concern a resource are kept in order, up to a limit. Events that cannot be kept, or
// that the server reports as missing, cause a gap: everything must be compared. A cursor is handed
// out together with the events that precede it, so an owner that stores both never skips an event;
// an event that was not taken is delivered again after a restart.
//
// Events may be delivered more than once; duplicates of the last 10,000 events of each subscription
// are detected.
//
// A server that delivers events by webhook receives the acknowledgement once the event is in the
// report. A webhook subscription from an earlier session or run is therefore not continued: it is
// ended and created again, from the owner's cursor.
//
// # Limits
//
// There are limits on event types, subscriptions, streams, waiting messages and bytes, marked URIs,
// kept events, and the delays that a server can request. A server that floods its client, stays
// silent or returns endless pages only causes occasional reads or comparisons of its own resources.
//
// # Ownership
//
// [Subscriber.Run] owns all goroutines and returns when they have finished, soon after its context
// ends. Take and C may be called at any time.
package eventsource

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// Options configure a [Subscriber]. All fields except Cursors and Webhooks are required.
type Options struct {
	Session *session.Session
	Want    config.Events
	// Cursors holds the positions from which to resume the subscriptions of an earlier session, by
	// subscription key.
	Cursors map[string]string
	// Timeout limits how long a server may take to start a stream.
	Timeout time.Duration
	// Poll is the poll interval if the server does not request one.
	Poll time.Duration
	// MaxBackoff is the longest delay between two attempts.
	MaxBackoff time.Duration
	Logger     *slog.Logger
	// Webhooks receives events by webhook, under the name Server. If it is nil, webhook delivery is
	// not used.
	Webhooks *standardwebhooks.Receiver
	Server   string
}

// minRelist is the minimum time between two requests for the list of event types.
const minRelist = 5 * time.Second

// Subscriber receives the events of one session. Use [New] to create one.
type Subscriber struct {
	opts    Options
	pending pending
	// relist is received by Run, and sent by a subscription whose type is no longer known to the server.
	relist wake.Channel
	// polls is a semaphore with capacity maxPolls: a poll sends to it before it starts and receives
	// from it when it has finished. It is never closed.
	polls chan struct{}

	running map[string]*running // by subscription key; owned by Run, like warned
	warned  map[string]bool     // subjects for which a warning was logged
	wg      sync.WaitGroup      // counts the goroutines of subscriptions

	endpoint sync.Once // ensures that warnEndpoint warns only once
}

// maxPolls is the maximum number of concurrent polls of one server.
const maxPolls = 4

// running is a subscription started by Run.
type running struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when the subscription's goroutine returns
	stream bool
}

// New returns a subscriber. It does not follow any events until Run is called.
func New(opts Options) *Subscriber {
	return &Subscriber{opts: opts, pending: newPending(), relist: wake.New(), polls: make(chan struct{}, maxPolls), running: map[string]*running{}, warned: map[string]bool{}}
}

// C returns the channel that wakes the owner: after a receive, Take may have something to return,
// unless an earlier call to Take returned it. The channel is never closed.
func (s *Subscriber) C() <-chan struct{} { return s.pending.wake }

// Take returns a report on the events received since the last call.
func (s *Subscriber) Take() Report { return s.pending.take() }

// Run follows the events until ctx ends, or until the server turns out not to offer any.
func (s *Subscriber) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer cancel()
	retry := backoff.New(time.Second, s.opts.MaxBackoff)
	again := backoff.New(minRelist, 10*s.opts.MaxBackoff)
	for ctx.Err() == nil {
		types, err := s.opts.Session.ListEventTypes(ctx)
		switch {
		case errors.Is(err, session.ErrUnsupported):
			s.opts.Logger.Debug("the server declares MCP Events but lists no types")
			return
		case err != nil:
			s.opts.Logger.Debug("cannot list events", "err", printable.Reason(err, 500))
			backoff.Sleep(ctx, retry.Next())
			continue
		}
		retry.Reset()
		s.follow(ctx, types)
		listed := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-s.opts.Session.EventTypesChanged():
			again.Reset()
		case <-s.relist:
			wait := time.NewTimer(time.Until(listed.Add(again.Next())))
			select {
			case <-ctx.Done():
			case <-s.opts.Session.EventTypesChanged(): // the server may offer the type now
				again.Reset()
			case <-wait.C:
			}
			wait.Stop()
		}
		backoff.Sleep(ctx, time.Until(listed.Add(minRelist)))
	}
}

// follow ends the subscriptions that are no longer wanted and starts new ones.
func (s *Subscriber) follow(ctx context.Context, types []mcp.EventType) {
	wanted, unknown := plans(types, s.opts.Want)
	for _, name := range unknown {
		s.warnOnce(name, "the config specifies an event type that the server does not offer")
	}
	streams := streamsElse
	if s.opts.Session.HTTP() {
		streams = streamsHTTP
	}
	isWanted := func(key string) bool {
		return slices.ContainsFunc(wanted, func(p plan) bool { return p.key() == key })
	}
	for key, r := range s.running { // cancel all before waiting for the first, because each may take a second
		if !isWanted(key) {
			r.cancel()
		}
	}
	for key, r := range s.running {
		if !isWanted(key) {
			<-r.ended
		}
		select {
		case <-r.ended:
			delete(s.running, key)
		default:
			if r.stream {
				streams--
			}
		}
	}
	for _, p := range wanted {
		key := p.key()
		if s.running[key] != nil {
			continue
		}
		mode := p.mode(s.opts.Want.Delivery, streams, s.opts.Webhooks != nil)
		switch {
		case mode == "" && slices.Contains(p.modes, mcp.DeliverWebhook) && s.opts.Webhooks == nil:
			s.warnOnce(p.name, "the server delivers these events only by webhook, which requires serve-sse --public-url")
			continue
		case mode == "":
			s.warnOnce(p.name, "the server offers no delivery mode for these events that mcptrack can use")
			continue
		case s.opts.Want.Delivery == config.DeliveryWebhook && mode != mcp.DeliverWebhook && s.opts.Webhooks == nil:
			s.warnOnce(p.name, `delivery of these events by webhook requires serve-sse --public-url; mcptrack uses this mode instead: `+string(mode))
		}
		if mode == mcp.DeliverPush {
			streams--
		}
		s.begin(ctx, p, key, mode)
	}
}

func (s *Subscriber) warnOnce(name, msg string) {
	if !s.warned[name] && len(s.warned) < maxSubscriptions {
		s.warned[name] = true
		s.opts.Logger.Warn(msg, "event", printable.Line(name, 200))
	}
}

func (s *Subscriber) begin(ctx context.Context, p plan, key string, mode mcp.DeliveryMode) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel, ended: make(chan struct{}), stream: mode == mcp.DeliverPush}
	s.running[key] = r
	u := &subscription{src: s, plan: p, key: key, mode: mode,
		query: session.EventQuery{Name: p.name, Arguments: p.arguments, Cursor: s.opts.Cursors[key]}}
	s.wg.Go(func() {
		defer close(r.ended)
		defer cancel()
		defer s.pending.cover(key, Coverage{})
		u.run(ctx)
	})
}

// warnEndpoint logs one warning that the server cannot send to the webhook receiver. It is called
// by the goroutines of subscriptions.
func (s *Subscriber) warnEndpoint(name, reason string) {
	s.endpoint.Do(func() {
		s.opts.Logger.Warn("the server cannot deliver events by webhook to --public-url", "event", printable.Line(name, 200), "err", reason)
	})
}
