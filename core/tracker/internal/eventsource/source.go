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
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// Options are what a Source works with. All fields but Cursors and Webhooks are needed.
type Options struct {
	Session *session.Session
	Want    config.Events
	// Cursors say where to resume the subscriptions of an earlier session, by their keys.
	Cursors map[string]string
	// Timeout is how long a server may take to begin a stream.
	Timeout time.Duration
	// Poll is the interval of polls where the server asks for none.
	Poll time.Duration
	// MaxBackoff is the longest wait between two attempts.
	MaxBackoff time.Duration
	Logger     *slog.Logger
	// Webhooks receives for subscriptions by webhook, under the name Server; nil: there are none.
	Webhooks *standardwebhooks.Receiver
	Server   string
}

// minRelist is the least time between two lists of the event types.
const minRelist = 5 * time.Second

// Source follows the events of one session. See [New].
type Source struct {
	opts    Options
	pending pending
	// relist has room for one: a subscription whose type the server does not know any more
	// sends without blocking, Run receives; it is never closed.
	relist chan struct{}
	// polls has room for maxPolls: a slot is sent before a poll begins and received after;
	// it is never closed.
	polls chan struct{}

	running map[string]*running // by key; of Run, as is:
	warned  map[string]bool     // what warnings were logged about
	wg      sync.WaitGroup      // of the subscriptions

	endpoint sync.Once // the warning of warnEndpoint
}

// maxPolls is how many polls of one server are in flight at a time.
const maxPolls = 4

// running is a subscription that Run has begun.
type running struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed by its goroutine
	stream bool
}

// New returns a source that follows nothing yet.
func New(opts Options) *Source {
	return &Source{opts: opts, pending: newPending(), relist: make(chan struct{}, 1), polls: make(chan struct{}, maxPolls), running: map[string]*running{}, warned: map[string]bool{}}
}

// C returns the channel that wakes the owner: a receive means that Take has something, or
// had something that an earlier Take took. It is never closed.
func (s *Source) C() <-chan struct{} { return s.pending.wake }

// Take returns what the events since the last call say.
func (s *Source) Take() Batch { return s.pending.take() }

// Run follows the events until ctx ends, or the server turns out to offer none.
func (s *Source) Run(ctx context.Context) {
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
			case <-s.opts.Session.EventTypesChanged(): // the type may be known by now
				again.Reset()
			case <-wait.C:
			}
			wait.Stop()
		}
		backoff.Sleep(ctx, time.Until(listed.Add(minRelist)))
	}
}

// follow ends the subscriptions that are no longer wanted and begins new ones.
func (s *Source) follow(ctx context.Context, types []mcp.EventType) {
	wanted, unknown := plans(types, s.opts.Want)
	for _, name := range unknown {
		s.warnOnce(name, "the config names a type of events that the server does not offer")
	}
	streams := streamsElse
	if s.opts.Session.HTTP() {
		streams = streamsHTTP
	}
	isWanted := func(key string) bool {
		return slices.ContainsFunc(wanted, func(p plan) bool { return p.key() == key })
	}
	for key, r := range s.running { // before the first is waited for: each may take a second
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

func (s *Source) warnOnce(name, msg string) {
	if !s.warned[name] && len(s.warned) < maxSubscriptions {
		s.warned[name] = true
		s.opts.Logger.Warn(msg, "event", printable.Line(name, 200))
	}
}

func (s *Source) begin(ctx context.Context, p plan, key string, mode mcp.DeliveryMode) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel, ended: make(chan struct{}), stream: mode == mcp.DeliverPush}
	s.running[key] = r
	u := &subscription{src: s, plan: p, key: key, mode: mode,
		query: session.EventQuery{Name: p.name, Arguments: p.arguments, Cursor: s.opts.Cursors[key]}}
	s.wg.Go(func() {
		defer close(r.ended)
		defer cancel()
		defer s.pending.stands(key, Coverage{})
		u.run(ctx)
	})
}

// warnEndpoint warns that the server cannot send to the receiver, once for each source: it
// is called by the goroutines of subscriptions.
func (s *Source) warnEndpoint(name, reason string) {
	s.endpoint.Do(func() {
		s.opts.Logger.Warn("the server cannot deliver events by webhook to --public-url", "event", printable.Line(name, 200), "err", reason)
	})
}

// askAgain makes Run list the types again.
func (s *Source) askAgain() {
	select {
	case s.relist <- struct{}{}:
	default:
	}
}
