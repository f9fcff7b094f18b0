package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// OnDown is what becomes of the items of a server that cannot be reached.
type OnDown string

// The choices.
const (
	Keep OnDown = "keep" // they are listed, marked with mcptrack/down in _meta
	Drop OnDown = "drop" // they are not
)

// Options are how a gateway works. Only Tracker is needed.
type Options struct {
	// Tracker keeps the sessions. It is made with tracker.Options.AllLists, gets its
	// config from [Gateway.Apply] and is run by its owner.
	Tracker *tracker.Tracker
	// Serve is for the server that clients see; what it can be asked is set by New.
	Serve serve.Options
	// OnDown is for the items of servers that cannot be reached; Keep.
	OnDown OnDown
	// Grace is how long a server may be away before it counts as down; 2 s.
	Grace time.Duration
	// CallTimeout is how long a server may take for a call without telling of
	// progress; 10 min. Clients may give up sooner.
	CallTimeout time.Duration
	// Allow and Deny are globs (doublestar) over names, URIs and URI templates.
	// Something is exported if Allow is empty or one of it matches what it is
	// exported as, and nothing of Deny matches what it is exported as or is called by
	// its server.
	Allow, Deny []string
	// Pin leaves out a tool that is no longer what it was when it was first listed, for
	// as long as the gateway runs: nobody is to approve one tool and call another.
	Pin bool
	// Local is served beside the servers, under its own names.
	Local Local
	// Refused is told of items that are not listed, once for each, by the goroutine
	// of Run. Nil: they are only logged.
	Refused func(Refusal)
	// Changed is told when what [Gateway.Offered] returns may be another, by the
	// goroutine of Run, and returns at once. Nil: nobody.
	Changed func()
	// Logger gets at warn what a user should look into; nil discards.
	Logger *slog.Logger
}

// Local is what the gateway itself offers. Its tools and resources do not change.
type Local struct {
	Tools, Resources []json.RawMessage
	CallTool         serve.Func // of Tools
	ReadResource     serve.Func // of Resources
}

// Gateway serves the catalogs of many servers as one. Make it with New, Apply a
// config, Run it, and Close it. Its methods may be called from anywhere.
type Gateway struct {
	opts    Options
	tracker *tracker.Tracker
	server  *serve.Server
	filter  filter
	local   source
	view    atomic.Pointer[view]
	lanes   lanes

	// kicks wakes Run to look again at everything. Capacity 1: one wake is enough
	// for any number of reasons; never closed.
	kicks chan struct{}
	// flushes asks Run to look now: it closes what it receives when it has. No
	// capacity: the sender waits for Run; never closed.
	flushes chan chan struct{}

	demand demand
	// demands wakes Run to look at demand. As kicks.
	demands chan struct{}

	mu      sync.Mutex
	desired []config.Server // the enabled ones
	apis    map[string]*api // HTTP catalogs, by server id
	moved   chan struct{}   // closed and replaced when a server's state changed
}

// New makes a gateway over no server. An error is a glob that is none, or a local
// item that is none.
func New(opts Options) (*Gateway, error) {
	opts.Grace = cmp.Or(opts.Grace, 2*time.Second)
	opts.CallTimeout = cmp.Or(opts.CallTimeout, 10*time.Minute)
	opts.OnDown = cmp.Or(opts.OnDown, Keep)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.OnDown != Keep && opts.OnDown != Drop {
		return nil, fmt.Errorf("%q is neither keep nor drop", opts.OnDown)
	}
	g := &Gateway{
		opts:    opts,
		tracker: opts.Tracker,
		kicks:   make(chan struct{}, 1),
		flushes: make(chan chan struct{}),
		demands: make(chan struct{}, 1),
		apis:    map[string]*api{},
		moved:   make(chan struct{}),
	}
	g.demand.limit = cmp.Or(opts.Serve.Subscriptions.MaxTotal, 1_000_000)
	var err error
	if g.filter, err = newFilter(opts.Allow, opts.Deny); err != nil {
		return nil, err
	}
	if g.local, err = localSource(opts.Local); err != nil {
		return nil, err
	}
	g.view.Store(newView(g.local, nil, g.filter, func(Refusal) {}))
	so := opts.Serve
	so.CallTool, so.GetPrompt, so.ReadResource, so.Complete = g.callTool, g.getPrompt, g.readResource, g.complete
	so.Subscriptions.Subscribable = g.subscribable
	so.MaxInWork = cmp.Or(so.MaxInWork, places)
	g.server = serve.New(so)
	g.server.SetCatalog(g.view.Load().catalog)
	return g, nil
}

// localSource checks the gateway's own items.
func localSource(l Local) (source, error) {
	s := source{lists: map[catalog.Kind][]item{}}
	for k, raws := range map[catalog.Kind][]json.RawMessage{catalog.Tools: l.Tools, catalog.Resources: l.Resources} {
		for _, raw := range raws {
			it, err := catalog.NewItem(k, raw)
			if err != nil {
				return source{}, err
			}
			checked, err := newItem(k, it)
			if err != nil {
				return source{}, fmt.Errorf("%s item %q: %w", k, it.Key, err)
			}
			s.lists[k] = append(s.lists[k], checked)
		}
	}
	return s, nil
}

// Server is what clients are served by.
func (g *Gateway) Server() *serve.Server { return g.server }

// Apply sets the servers: those of the config that are enabled, all of which the
// caller wants exported. It never blocks and never fails; the latest wins.
func (g *Gateway) Apply(cfg *config.Config) {
	var desired []config.Server
	for _, srv := range cfg.Servers {
		if srv.Enabled {
			desired = append(desired, srv)
		}
	}
	g.mu.Lock()
	g.desired = desired
	g.mu.Unlock()
	g.tracker.Apply(cfg)
	g.kick()
}

func (g *Gateway) kick() {
	select {
	case g.kicks <- struct{}{}:
	default:
	}
}

// Settled waits until every server was tried once and what came of it is listed,
// for whoever wants to serve no client before. The error is the cause of ctx. Run
// and the tracker's Run must have been called.
func (g *Gateway) Settled(ctx context.Context) error {
	_, err := g.tracker.Settled(ctx)
	if err == nil {
		err = g.flush(ctx) // begins to ask HTTP catalogs
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	var waiting []*api
	for _, a := range g.apis {
		waiting = append(waiting, a)
	}
	g.mu.Unlock()
	for _, a := range waiting {
		if err := a.up.Settled(ctx); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return g.flush(ctx)
}

// flush waits until what is known now is listed.
func (g *Gateway) flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case g.flushes <- done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends all clients' connections and what they asked for. It does not end Run.
func (g *Gateway) Close() { g.server.Close() }
