package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// OnDown determines how the items of an unreachable server are exported.
type OnDown string

// Values of OnDown.
const (
	Keep OnDown = "keep" // items stay listed, marked with mcptrack/down in _meta
	Drop OnDown = "drop" // items are not listed
)

// Options configures a Gateway. Only Tracker is required.
type Options struct {
	// Tracker maintains the sessions with the servers. It must be created with
	// tracker.Options.AllLists and run by its owner; [Gateway.Apply] does not set its config. Several
	// gateways may use one tracker, each with some of its servers.
	Tracker *tracker.Tracker
	// Dial opens the sessions that belong to one client, with the options in Session. The default
	// is [session.Dial].
	Dial    session.DialFunc
	Session session.Options
	// Serve configures the MCP server that clients connect to. New sets its handlers.
	Serve mcpserver.Options
	// Transparent makes the gateway stand for its server, if there is exactly one: it describes itself with
	// the server's name, title, version and capabilities. While the server has never been reached, clients
	// receive the reason instead of a description and lists.
	Transparent bool
	// Wait is how long a client of a transparent gateway waits for a server over HTTP, unless the server's
	// entry allows it more time to connect; default 9 s. A program has the time that connecting may take.
	Wait time.Duration
	// OnDown determines how the items of servers that are down are exported; default Keep.
	OnDown OnDown
	// Grace is how long a server may be unreachable before it is considered down; default 2 s.
	Grace time.Duration
	// CallTimeout is how long a call may take without the server reporting progress; default 10
	// min. Clients may time out earlier.
	CallTimeout time.Duration
	// Allow and Deny are globs (see core/glob) for names, URIs and URI templates. An item is
	// exported if Allow is empty or matches its exported name, and Deny matches neither its
	// exported name nor the server's own name for it. A URI is checked in every form in which a
	// server may interpret it. Results of tools and prompts are not filtered.
	Allow, Deny []string
	// Guard, if not nil, decides what may be served of each server, by its exported id, so that a user
	// cannot be made to approve one tool and call another. Its owner runs it, and the gateway receives
	// its changes.
	Guard *guard.Guard
	// Launch returns how a server is started or reached (see package launch), for Guard; nil if that
	// cannot be determined. The server has its exported id. It is called from the goroutine of Run when
	// a server has connected or its config entry has changed. If it is nil, launches are not compared.
	Launch func(context.Context, config.Server) json.RawMessage
	// Verdicts, if not nil, receives the verdict of Guard about each server after every merge. Servers that
	// have not been reached are absent. It is called from the goroutine of Run, and must not block.
	Verdicts func(map[string]*guard.Verdict)
	// Alias returns the id under which clients know a server, given its id in the config passed to
	// Apply and in the tracker. It must always return the same id for the same server, and different
	// ids for the servers of one config. If it is nil, the ids are the same.
	Alias func(id string) string
	// Callers, if not nil, lets all clients share the tracker's sessions with the servers of this gateway.
	// Otherwise clients that servers may ask have sessions of their own. All gateways of a tracker have the
	// same Callers.
	Callers *Callers
	// Names, if not nil, determines the names that the tracker's engine stores with its events.
	Names *Names
	// Local contains tools and resources that are served in addition to those of the servers, under
	// their own names.
	Local Local
	// Called, if not nil, receives each tools/call when its client is answered; its ID is not set. It is
	// called from many goroutines, and must not block.
	Called func(calls.Call)
	// Refused is called once for each item that is not listed or is suspicious, from the goroutine
	// of Run. If it is nil, such items are only logged.
	Refused func(Refusal)
	// Changed is called from the goroutine of Run when the result of [Gateway.Capabilities] may
	// have changed; it must not block. It may be nil.
	Changed func()
	// Key is the secret that binds task ids to one principal. By default it is random, so the ids
	// become invalid when the gateway restarts. Gateways behind the same load balancer must use the
	// same key.
	Key []byte
	// Logger receives warnings about problems that the user should investigate; nil discards them.
	Logger *slog.Logger
}

// Local holds the gateway's own tools and resources, which never change. A server's tool whose
// exported name would equal that of a local tool receives another name; see Names in the package
// documentation.
type Local struct {
	Tools        []LocalTool
	Resources    []json.RawMessage
	ReadResource mcpserver.Func // handles reads of Resources
}

// LocalTool is one of the gateway's own tools, with its MCP descriptor and its handler.
type LocalTool struct {
	Descriptor json.RawMessage
	Call       mcpserver.Func
}

// call handles a call to a local tool. listed contains the validated items for l.Tools, in the same
// order.
func (l Local) call(ctx context.Context, r *mcpserver.Request, listed []item) (json.RawMessage, error) {
	for i, it := range listed {
		if it.key == r.Name() {
			return l.Tools[i].Call(ctx, r)
		}
	}
	return nil, unknown("tool", r.Name())
}

// base contains the state that all parts of a gateway share.
type base struct {
	background
	opts    Options
	tracker *tracker.Tracker
	enabled atomic.Pointer[[]config.Server] // enabled servers in the config; nil before Apply is called

	// kicks tells Run to merge the servers' lists again.
	kicks wake.Channel
	// flushes tells Run to merge immediately and then close the received channel. Unbuffered, so
	// that the sender waits for Run; never closed.
	flushes chan chan struct{}
}

// background runs goroutines that stop when the gateway stops.
type background struct {
	life  context.Context // cancelled by stop
	end   context.CancelFunc
	runMu sync.Mutex     // serializes run and stop
	wg    sync.WaitGroup // counts the goroutines
}

// run starts f in the background; f must return when ending is done. If the gateway is already
// stopping, run does not call f and returns false.
func (b *background) run(f func(ending context.Context)) bool {
	b.runMu.Lock()
	defer b.runMu.Unlock()
	if b.life.Err() != nil {
		return false
	}
	b.wg.Go(func() { f(b.life) })
	return true
}

// stop cancels the life context. It does not wait for the goroutines.
func (b *background) stop() {
	b.runMu.Lock()
	defer b.runMu.Unlock()
	b.end()
}

func (b *base) servers() []config.Server {
	if list := b.enabled.Load(); list != nil {
		return *list
	}
	return nil
}

func (b *base) entry(id string) (config.Server, bool) {
	list := b.servers()
	for i := range list { // without a copy of each
		if list[i].ID == id {
			return list[i], true
		}
	}
	return config.Server{}, false
}

func (b *base) kick() { b.kicks.Send() }

// flush makes Run merge immediately, and waits until everything that the tracker has received so
// far is listed for clients.
func (b *base) flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case b.flushes <- done:
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

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Gateway serves the catalogs of many servers as one. Create it with New, call Apply with a config,
// call Run, and call Close when done. Its methods are safe for concurrent use.
type Gateway struct {
	*base
	server  *mcpserver.Server
	filter  atomic.Pointer[filter] // the globs to merge with
	local   contribution
	names   *Names
	exports atomic.Pointer[exports]
	limits  limiter

	sessions ownSessions
	demands  clientDemands
	tasks    taskRegistry
	queues   queues // notifications for clients
	inputs   inputRounds
	large    largeResults

	adhoc adhocSet
	// adhocWake tells Run to update the ad-hoc subscriptions.
	adhocWake wake.Channel

	stateChange wake.Change // whenever the state of a server changes

	mu           sync.Mutex
	httpCatalogs map[string]*httpCatalog // keyed by server id
}

// New returns a gateway without servers. It returns an error for an invalid glob, OnDown value or
// local item.
func New(opts Options) (*Gateway, error) {
	opts.Grace = cmp.Or(opts.Grace, 2*time.Second)
	opts.CallTimeout = cmp.Or(opts.CallTimeout, 10*time.Minute)
	opts.OnDown = cmp.Or(opts.OnDown, Keep)
	opts.Wait = cmp.Or(opts.Wait, 9*time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if len(opts.Key) == 0 {
		opts.Key = []byte(rand.Text())
	}
	if opts.Dial == nil {
		opts.Dial = session.Dial
	}
	if opts.OnDown != Keep && opts.OnDown != Drop {
		return nil, fmt.Errorf("invalid value %q; use keep or drop", opts.OnDown)
	}
	b := &base{opts: opts, tracker: opts.Tracker, kicks: wake.New(), flushes: make(chan chan struct{})}
	b.life, b.end = context.WithCancel(context.Background())
	g := &Gateway{
		base:         b,
		names:        opts.Names,
		queues:       queues{base: b, byKey: map[any]*queue{}},
		adhocWake:    wake.New(),
		httpCatalogs: map[string]*httpCatalog{},
	}
	g.sessions = ownSessions{base: b, tasks: &g.tasks, queues: &g.queues, total: fair.Limit{Max: maxOwnSessions}, perServer: map[string]*fair.Limit{}}
	g.demands = clientDemands{base: b, byClient: map[*mcpserver.Client]map[string]func(){}}
	g.adhoc.limit = cmp.Or(opts.Serve.Subscriptions.MaxTotal, 1_000_000)
	if g.tracker != nil {
		g.adhoc.demand, g.tasks.demand = g.tracker.Demand, g.tracker.Demand
	}
	err := g.Filter(nil, nil)
	if err != nil {
		return nil, err
	}
	if g.local, err = localItems(opts.Local); err != nil {
		return nil, err
	}
	if g.names == nil {
		g.names = new(Names)
	}
	g.limits.alias = opts.Alias
	g.names.start(g.local, opts.Alias)
	g.exports.Store(newExports(g.local, nil, *g.filter.Load(), func(Refusal) {}))
	so := opts.Serve
	so.CallTool, so.GetPrompt, so.ReadResource, so.Complete = g.recorded(g.duringEdit(g.callTool)), g.duringEdit(g.getPrompt), g.duringEdit(g.readResource), g.duringEdit(g.complete)
	so.Extension, so.Skills = g.duringEdit(g.extension), true
	so.Connected = g.connected
	if opts.Transparent {
		so.Ready = g.ready
	}
	so.Subscriptions.Subscribable = g.subscribable
	so.Key = opts.Key
	so.MaxInFlight = cmp.Or(so.MaxInFlight, maxRequests)
	g.server = mcpserver.New(so)
	g.server.SetCatalog(g.exports.Load().catalog)
	return g, nil
}

// connected is called when a legacy client has connected.
func (g *Gateway) connected(client *mcpserver.Client) {
	callers := g.opts.Callers
	client.OnNotification(func(method string, _ json.RawMessage) {
		if method != mcp.NotificationRootsChanged {
			return
		}
		for _, server := range callers.rootsChanged(client) {
			g.run(func(ending context.Context) { _, _ = g.tracker.Do(ending, server, session.Request{Method: method}) })
		}
		g.sessions.rootsChanged(client)
	})
	if callers == nil {
		return
	}
	callers.join(client, g.base)
	if !g.run(func(ending context.Context) {
		select {
		case <-client.Done():
		case <-ending.Done():
		}
		callers.leave(client)
	}) {
		callers.leave(client)
	}
}

// localItems converts the gateway's own tools and resources to items and validates them.
func localItems(l Local) (contribution, error) {
	own := contribution{lists: map[catalog.Kind][]item{}}
	tools := make([]json.RawMessage, len(l.Tools))
	for i, tool := range l.Tools {
		tools[i] = tool.Descriptor
	}
	for k, raws := range map[catalog.Kind][]json.RawMessage{catalog.Tools: tools, catalog.Resources: l.Resources} {
		for _, raw := range raws {
			it, err := catalog.NewItem(k, raw)
			if err != nil {
				return contribution{}, err
			}
			checked, err := newItem(k, it)
			if err != nil {
				return contribution{}, fmt.Errorf("%s item %q: %w", k, it.Key, err)
			}
			own.lists[k] = append(own.lists[k], checked)
		}
	}
	return own, nil
}

// Server returns the MCP server that clients connect to.
func (g *Gateway) Server() *mcpserver.Server { return g.server }

// Apply sets the servers to export: all enabled servers in the config. It never blocks and never
// fails; if it is called repeatedly, the latest config takes effect. The tracker must use the same
// servers.
func (g *Gateway) Apply(cfg *config.Config) {
	var enabled []config.Server
	for _, srv := range cfg.Servers {
		if srv.Superseded { // client sessions continue with the old entry while the new one awaits approval
			srv.Unapproved, srv.Superseded = "", false
		}
		if srv.Enabled {
			enabled = append(enabled, srv)
		}
	}
	g.names.apply(enabled)
	if g.opts.Names == nil {
		g.names.forget()
	}
	g.enabled.Store(&enabled)
	g.kick()
}

// Applied waits until the last config passed to Apply takes effect. Before the first one does, Exports and
// ExportsServer show nothing. The error is the cause of ctx. Run must be running.
func (g *Gateway) Applied(ctx context.Context) error { return g.flush(ctx) }

// Settled waits until one connection attempt to every server of the gateway has completed and the
// items of the connected servers are listed, so that the first client receives a complete catalog.
// The error is the cause of ctx. The Run methods of the gateway and the tracker must be running.
func (g *Gateway) Settled(ctx context.Context) error {
	var ids []string
	for _, srv := range g.servers() {
		ids = append(ids, srv.ID)
	}
	if len(ids) > 0 {
		if _, err := g.tracker.Settled(ctx, ids...); err != nil {
			return err
		}
	}
	if err := g.flush(ctx); err != nil { // the merge creates g.httpCatalogs
		return err
	}
	g.mu.Lock()
	var waiting []*httpCatalog
	for _, a := range g.httpCatalogs {
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

// Close closes all client connections and cancels their requests. It does not stop Run.
func (g *Gateway) Close() { g.server.Close() }

// httpCatalog is a configured HTTP catalog, which is served like a server that offers only tools.
type httpCatalog struct {
	srv config.Server
	up  *upstream.Upstream
	end context.CancelFunc // ends the run of up
}

// httpCatalog returns the HTTP catalog of a server, or nil if the server is an MCP server.
func (g *Gateway) httpCatalog(id string) *httpCatalog {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.httpCatalogs[id]
}

// reconcileHTTPCatalogs starts and stops HTTP catalogs to match the config. A catalog whose config
// entry is unchanged is not interrupted.
func (l *loop) reconcileHTTPCatalogs(enabled []config.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, a := range l.httpCatalogs {
		if !slices.ContainsFunc(enabled, a.srv.Equal) {
			delete(l.httpCatalogs, id)
			a.end()
		}
	}
	for _, srv := range enabled {
		if srv.Transport != config.TransportCatalog || l.httpCatalogs[srv.ID] != nil || srv.Unusable() != nil || slices.ContainsFunc(l.broken, srv.Equal) {
			continue
		}
		log := l.opts.Logger.With("server", l.alias().line(srv.ID))
		opts := upstream.FromConfig(srv)
		opts.Version, opts.Logger, opts.Changed = l.opts.Serve.Version, log, l.kick
		up, err := upstream.New(opts)
		if err != nil {
			log.Warn("the tools of the API catalog are not served", "err", err)
			l.broken = append(l.broken, srv)
			continue
		}
		ctx, end := context.WithCancel(l.ctx)
		l.httpCatalogs[srv.ID] = &httpCatalog{srv, up, end}
		l.running.Go(func() { up.Run(ctx) })
	}
}
