package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// OnDown says what happens to the items of a server that cannot be reached.
type OnDown string

// Values of OnDown.
const (
	Keep OnDown = "keep" // they stay listed, marked with mcptrack/down in _meta
	Drop OnDown = "drop" // they are not listed
)

// Options configure a Gateway. Only Tracker is required.
type Options struct {
	// Tracker keeps the sessions. It must be created with tracker.Options.AllLists and
	// run by its owner; its config is set by [Gateway.Apply].
	Tracker *tracker.Tracker
	// Dial opens the sessions with servers that belong to one client, with the options
	// Session. A nil Dial is [session.Dial].
	Dial    session.DialFunc
	Session session.Options
	// Serve configures the server that clients see. New sets its handlers.
	Serve mcpserver.Options
	// OnDown says what happens to items of servers that are down; Keep by default.
	OnDown OnDown
	// Grace is how long a server may be away before it counts as down; 2 s by default.
	Grace time.Duration
	// CallTimeout is how long a server may take for a call without reporting progress;
	// 10 min by default. Clients may give up earlier.
	CallTimeout time.Duration
	// Allow and Deny are globs (see core/glob) for names, URIs and URI templates. An item
	// is exported if Allow is empty or matches its exported name, and Deny matches
	// neither its exported name nor the server's own name of it. URIs are compared in all
	// forms that servers may take for one. Results of tools and prompts are not filtered.
	Allow, Deny []string
	// Pins, unless nil, leave out a tool that has changed since it was first listed: a user
	// must not approve one tool and call another. See [NewPins].
	Pins *Pins
	// Names, unless nil, are those that the engine of the tracker stores with its events.
	Names *Names
	// Local is served in addition to the servers, under its own names.
	Local Local
	// Refused is called by the goroutine of Run, once for each item that is not listed or
	// is suspicious. nil: such items are only logged.
	Refused func(Refusal)
	// Changed is called by the goroutine of Run when the result of [Gateway.Offered] may
	// have changed; it must not block. May be nil.
	Changed func()
	// Key is the secret by which the ids of tasks belong to one principal; random by default,
	// and then clients must begin again after a restart. Gateways that clients use in turn
	// need the same one.
	Key []byte
	// Logger receives warnings that a user should look into; nil discards them.
	Logger *slog.Logger
}

// Local holds the gateway's own tools and resources, which do not change. A server's
// tool whose exported name would equal that of a local tool is exported under another name;
// see Names in the package documentation.
type Local struct {
	Tools        []LocalTool
	Resources    []json.RawMessage
	ReadResource mcpserver.Func // answers reads of Resources
}

// LocalTool is a tool of the gateway's own: its MCP descriptor, and what answers its calls.
type LocalTool struct {
	Descriptor json.RawMessage
	Call       mcpserver.Func
}

// call answers a call of a local tool. listed are the checked items of l.Tools, in the
// same order.
func (l Local) call(ctx context.Context, r *mcpserver.Request, listed []item) (json.RawMessage, error) {
	for i, it := range listed {
		if it.key == r.Name() {
			return l.Tools[i].Call(ctx, r)
		}
	}
	return nil, unknown("tool", r.Name())
}

// Gateway serves the catalogs of many servers as one. Create it with New, Apply a
// config, Run it, and Close it when done. Its methods are safe for concurrent use.
type Gateway struct {
	opts    Options
	tracker *tracker.Tracker
	server  *mcpserver.Server
	filter  filter
	local   source
	names   *Names
	view    atomic.Pointer[view]
	limits  limiter

	// kicks wakes Run to merge the servers' lists again. Capacity 1: one wake is enough for
	// any number of reasons; never closed.
	kicks chan struct{}
	// flushes makes Run merge immediately and then close the channel it received.
	// Unbuffered, so that the sender waits for Run; never closed.
	flushes chan chan struct{}

	clients  clients
	variants variants
	tasks    tasks
	rounds   rounds

	adhoc adhocSet
	// adhocWake wakes Run to update the ad-hoc subscriptions, as kicks does.
	adhocWake chan struct{}

	mu          sync.Mutex
	desired     []config.Server // the enabled servers of the config
	apis        map[string]*api // HTTP catalogs, by server id
	stateChange chan struct{}   // closed and replaced when a server's state changed
}

// New returns a gateway without servers. It fails for an invalid glob, OnDown or local
// item.
func New(opts Options) (*Gateway, error) {
	opts.Grace = cmp.Or(opts.Grace, 2*time.Second)
	opts.CallTimeout = cmp.Or(opts.CallTimeout, 10*time.Minute)
	opts.OnDown = cmp.Or(opts.OnDown, Keep)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if len(opts.Key) == 0 {
		opts.Key = []byte(rand.Text())
	}
	if opts.OnDown != Keep && opts.OnDown != Drop {
		return nil, fmt.Errorf("invalid value %q; use keep or drop", opts.OnDown)
	}
	g := &Gateway{
		opts:        opts,
		tracker:     opts.Tracker,
		names:       opts.Names,
		kicks:       make(chan struct{}, 1),
		flushes:     make(chan chan struct{}),
		adhocWake:   make(chan struct{}, 1),
		apis:        map[string]*api{},
		stateChange: make(chan struct{}),
	}
	g.adhoc.limit = cmp.Or(opts.Serve.Subscriptions.MaxTotal, 1_000_000)
	if g.opts.Dial == nil {
		g.opts.Dial = session.Dial
	}
	g.clients.start(g)
	g.variants = variants{g: g, slots: make(chan struct{}, maxProbes), byKey: map[string]*variant{}}
	g.tasks.g, g.tasks.notes = g, map[*mcpserver.Client]*notes{}
	if g.tracker != nil {
		g.tracker.OnMessage(g.tasks.fromServer)
	}
	var err error
	if g.filter, err = newFilter(opts.Allow, opts.Deny, caseless(runtime.GOOS)); err != nil {
		return nil, err
	}
	if g.local, err = localSource(opts.Local); err != nil {
		return nil, err
	}
	if g.names == nil {
		g.names = new(Names)
	}
	g.names.start(g.local)
	g.view.Store(newView(g.local, nil, g.filter, func(Refusal) {}))
	so := opts.Serve
	so.CallTool, so.GetPrompt, so.ReadResource, so.Complete = g.callTool, g.getPrompt, g.readResource, g.complete
	so.Extension = g.extension
	so.Variant, so.AwaitVariant = keyOf, g.variants.await
	so.Subscriptions.Subscribable = g.subscribable
	so.Key = opts.Key
	so.MaxInFlight = cmp.Or(so.MaxInFlight, maxRequests)
	g.server = mcpserver.New(so)
	g.server.SetCatalog(g.view.Load().catalog)
	return g, nil
}

// localSource converts and checks the gateway's own items.
func localSource(l Local) (source, error) {
	s := source{lists: map[catalog.Kind][]item{}}
	tools := make([]json.RawMessage, len(l.Tools))
	for i, tool := range l.Tools {
		tools[i] = tool.Descriptor
	}
	for k, raws := range map[catalog.Kind][]json.RawMessage{catalog.Tools: tools, catalog.Resources: l.Resources} {
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

// Server returns the server that clients connect to.
func (g *Gateway) Server() *mcpserver.Server { return g.server }

// Apply sets the servers to export: all enabled ones of the config. It never blocks and
// never fails; the latest config wins. The tracker must be given the same servers.
func (g *Gateway) Apply(cfg *config.Config) {
	var desired []config.Server
	var ids []string
	for _, srv := range cfg.Servers {
		if srv.Superseded { // the sessions of clients stay, as if nothing waited
			srv.Unapproved, srv.Superseded = "", false
		}
		if srv.Enabled {
			desired, ids = append(desired, srv), append(ids, srv.ID)
		}
	}
	g.names.apply(ids)
	g.mu.Lock()
	g.desired = desired
	g.mu.Unlock()
	g.kick()
}

func (g *Gateway) kick() { signal(g.kicks) }

// Settled waits until a connection to every server was tried once and the items of those
// that answered are listed, so that the first client sees a complete catalog. Its error is
// the cause of ctx. Run and the tracker's Run must have been called.
func (g *Gateway) Settled(ctx context.Context) error {
	_, err := g.tracker.Settled(ctx)
	if err == nil {
		err = g.flush(ctx) // the merge starts the HTTP catalogs, which are in g.apis then
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

// flush makes Run merge at once and waits until clients can list everything that the
// tracker knows now.
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

// Close ends all connections of clients and their requests. It does not end Run.
func (g *Gateway) Close() { g.server.Close() }
