package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/reload"
)

// Limits of one daemon.
const (
	maxConns      = 1024 // open connections
	maxIdleGroups = 64   // groups without clients
)

// A Client describes a client whose config is to be opened.
type Client struct {
	ipc.Hello
	// LookupEnv looks up a variable in the environment of the client.
	LookupEnv func(name string) (value string, ok bool)
}

// Source contains the config of a group, and how to follow it.
type Source struct {
	Config *config.Config
	// Select returns the servers of a config that the client asked for; nil means all that are
	// enabled.
	Select func(*config.Config) *config.Config
	// Follow keeps the config up to date with a file; the daemon sets Current, Apply and Publish. If
	// it is nil, the config does not change.
	Follow *reload.Options
}

// Options configure a [Daemon]. Engine, Key and Open are required.
type Options struct {
	// Engine follows the servers. It must be created with tracker options AllLists and OnDemand, with
	// sessions whose Environ finds no variable, because servers inherit the variables of their clients, and without
	// a config. [Daemon.Run] runs it.
	Engine *engine.Engine
	// Build and Socket are reported to clients.
	Build  ipc.Build
	Socket string
	// Key makes the ids of tracked servers unguessable; see package secretfile.
	Key []byte
	// Open reads the config of a client. It may be called several times for one client, and must not
	// keep LookupEnv beyond the life of the Source. Its error may be a [*ipc.Refused].
	Open func(ctx context.Context, c Client) (Source, error)
	// Gateway configures the gateways of all groups. The daemon sets Tracker, Guard, Verdicts
	// and the aliases. Launch receives servers as they are in the client's config. Callers is required, and must be the tracker's (tracker.Options.ClientSide).
	Gateway gateway.Options
	// OneEach remembers which servers need a process for each client; nil remembers nothing beyond the
	// daemon's life.
	OneEach *OneEach
	// HTTP returns the handler for clients with the purpose [ipc.HTTP], and a function that runs as
	// long as the group. If HTTP is nil, such clients are refused.
	HTTP func(*Group) (handler http.Handler, run func(context.Context) error)
	// Inherited contains the names of the variables that servers inherit from their clients, and Reads of those that
	// Open looks up for every config.
	Inherited, Reads []string
	// LookupEnv looks up a variable for a client of [Daemon.MCP], which has no environment: one of those
	// that servers inherit, or that a config names. If it is nil, no variable is set.
	LookupEnv func(name string) (string, bool)
	// Memory returns the memory of a server's process and its descendants in bytes, by process id.
	Memory func(pids []int) map[int]int64
	// Idle is how long the daemon runs without clients; 0 means forever.
	Idle time.Duration
	// Wait limits how long a client waits for servers that start, before it is served without their
	// items, or with an error if it is for one server; default 9 s.
	Wait time.Duration
	// Drain limits how long requests in flight may take when the daemon stops; default 3 s, less than a client
	// waits for another daemon.
	Drain  time.Duration
	Logger *slog.Logger
}

// Causes for the end of [Daemon.Run].
var (
	ErrStopped  = errors.New("a client stopped the daemon")
	ErrHandover = errors.New("another daemon takes over")
	ErrIdle     = errors.New("no client was connected for the idle time")
)

// A Daemon serves the clients of one user. Its methods are safe for concurrent use.
type Daemon struct {
	opts    Options
	started time.Time
	end     context.CancelCauseFunc // ends Run; set by Run before the first connection
	life    context.Context         // of the groups; set by Run before the first connection
	dropped sync.WaitGroup          // counts the dropped groups that are stopping

	requests sync.WaitGroup // counts the requests over HTTP; d.mu is held to add one

	mu      sync.Mutex // guards the fields below, and fields of groups that say so; never held during I/O
	groups  map[string]*Group
	configs map[string]*followed
	edits   uint64             // counts changes of followed configs
	slots   map[string][]*slot // by the key of their groups without the client
	firsts  map[string]first   // how tracked servers were first run, by id
	conns   int                // connections with a group, and requests over HTTP
	idle    *time.Timer        // calls endIfIdle; nil without an idle time
	// running is the context of Run, nil before and after it. endpoints are the groups used over HTTP.
	running   context.Context
	endpoints map[endpoint]*Group
	// waiting contains the connections of clients that wait for the end of the daemon.
	waiting []net.Conn
}

// first is where a tracked server runs and finds programs: as its first client says, because those that share it
// may differ in that.
type first struct {
	dir  string
	path config.Secret
}

// New returns a daemon. It starts nothing.
func New(opts Options) *Daemon {
	opts.Wait = cmp.Or(opts.Wait, 9*time.Second)
	opts.Drain = cmp.Or(opts.Drain, 3*time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.OneEach == nil {
		opts.OneEach = &OneEach{}
	}
	if opts.LookupEnv == nil {
		opts.LookupEnv = func(string) (string, bool) { return "", false }
	}
	return &Daemon{opts: opts, started: time.Now(), groups: map[string]*Group{}, configs: map[string]*followed{}, slots: map[string][]*slot{}, firsts: map[string]first{}, endpoints: map[endpoint]*Group{}}
}

// Run serves the clients of a listener until ctx ends, a client stops the daemon, or it is idle. It
// returns the cause, such as [ErrIdle], or the error of the listener. It closes the listener as soon
// as no more clients are accepted. It may be called only once.
func (d *Daemon) Run(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.end = cancel
	// The engine outlives the connections, so that requests in flight are answered.
	following, endEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer endEngine()
	d.life = following
	var engineEnded sync.WaitGroup
	var failed error
	engineEnded.Go(func() {
		failed = d.opts.Engine.Run(following)
		cancel(failed)
	})
	var conns sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	d.mu.Lock()
	d.running = ctx
	if d.opts.Idle > 0 {
		d.idle = time.AfterFunc(d.opts.Idle, d.endIfIdle)
		defer d.idle.Stop()
	}
	d.mu.Unlock()
	slots := make(chan struct{}, maxConns) // one for each open connection
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() == nil {
				cancel(err)
			}
			break
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		conns.Go(func() {
			d.serve(ctx, conn)
			<-slots
		})
	}
	_ = ln.Close()
	drained := time.After(d.opts.Drain)
	d.mu.Lock()
	d.running = nil
	d.mu.Unlock()
	answered := make(chan struct{}) // closed when no request over HTTP is in flight
	go func() {
		d.requests.Wait()
		close(answered)
	}()
	conns.Wait()
	select {
	case <-answered:
	case <-drained:
	}
	d.closeGroups()
	<-answered
	d.closeGroups() // groups of requests that were late
	endEngine()
	engineEnded.Wait()
	if failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	return context.Cause(ctx)
}

// Release tells the clients that stopped the daemon that it has ended. The caller calls it last, when
// another daemon can start.
func (d *Daemon) Release() {
	d.mu.Lock()
	waiting := d.waiting
	d.waiting = nil
	d.mu.Unlock()
	for _, conn := range waiting {
		_ = conn.Close()
	}
}

// count adds to the number of clients. d.mu must be held.
func (d *Daemon) count(n int) {
	d.conns += n
	if d.idle != nil {
		d.idle.Reset(d.opts.Idle)
	}
}

// endIfIdle ends Run if there has been no client for the idle time.
func (d *Daemon) endIfIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == 0 {
		d.end(ErrIdle)
	}
}

// apply makes the engine follow the servers of all groups, and the gateways of those that have changed serve theirs.
// d.mu must be held.
func (d *Daemon) apply(changed ...*Group) {
	byID, shared := map[string]config.Server{}, map[string]gateway.Shared{}
	for _, key := range slices.Sorted(maps.Keys(d.groups)) { // in an order that stays, so that merge has the same result
		for _, srv := range d.groups[key].servers {
			if other, ok := byID[srv.ID]; ok {
				srv = merge(other, srv)
			}
			byID[srv.ID] = srv
			of := gateway.Shared{Folder: d.groups[key].who.Folder, Alone: srv.Unshared(), OneEach: d.opts.OneEach.Has(&srv)}
			if srv.Sharing == config.SharedByMachine {
				of.Folder = ""
			}
			shared[srv.ID] = of
		}
	}
	d.opts.Gateway.Callers.Serve(shared, func(id string) {
		d.needsOneEach(id, "it asked while requests of several clients were in progress")
	})
	maps.DeleteFunc(d.firsts, func(id string, _ first) bool {
		_, used := byID[id]
		return !used
	})
	var all []config.Server
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		all = append(all, byID[id])
	}
	d.opts.Engine.Apply(&config.Config{Servers: all, Hooks: d.hooks()})
	for _, g := range changed {
		g.gw.Apply(g.config.Load().With(g.exported))
	}
}

// needsOneEach remembers that a server needs a process for each client. Those that use it continue.
func (d *Daemon) needsOneEach(id, why string) {
	d.mu.Lock()
	var srv config.Server
	for _, g := range d.groups {
		if of, ok := g.servers[ExportedID(id)]; ok && of.ID == id {
			srv = of
		}
	}
	d.mu.Unlock()
	if srv.ID == "" {
		return
	}
	d.opts.Logger.Warn("from now on, each new client of a server has a process of its own", "server", printable.Line(ExportedID(id), 128), "reason", why)
	if err := d.opts.OneEach.Add(&srv); err != nil {
		d.opts.Logger.Warn("cannot remember that a server needs a process for each client", "err", printable.Reason(err, 300))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.apply() // other folders may have the same package
}

// hooks returns the hooks of all groups, which touch servers by the ids of the tracker. Groups whose hooks
// differ only in what they touch share one; others may have the same id. d.mu must be held.
func (d *Daemon) hooks() (all []config.Hook) {
	for _, key := range slices.Sorted(maps.Keys(d.groups)) {
		g := d.groups[key]
		cfg := g.config.Load()
		if cfg == nil {
			continue
		}
		for _, h := range cfg.Hooks {
			var touches []config.Touch
			for _, t := range h.Touches {
				if srv, ok := g.servers[t.Server]; ok {
					touches = append(touches, config.Touch{Server: srv.ID, URI: t.URI})
				}
			}
			h.Touches = nil
			i := slices.IndexFunc(all, func(o config.Hook) bool {
				o.Touches = nil
				return h.Equal(o)
			})
			if i < 0 {
				i = len(all)
				all = append(all, h)
			}
			for _, t := range touches {
				if !slices.Contains(all[i].Touches, t) {
					all[i].Touches = append(all[i].Touches, t)
				}
			}
		}
	}
	return all
}

// Status describes a daemon, as daemon status shows it.
type Status struct {
	PID     int            `json:"pid"`
	Version string         `json:"version"`
	Socket  string         `json:"socket"`
	Since   string         `json:"since"`
	Clients int            `json:"clients"`
	Servers []ServerStatus `json:"servers"`
}

// ServerStatus describes a server that a daemon runs or could run.
type ServerStatus struct {
	ID     string `json:"id"`
	Config string `json:"config"`
	Folder string `json:"folder"`
	// Shared is the value of the entry's "shared" key: folder, machine or false.
	Shared config.Sharing `json:"shared"`
	// OneEach means that only one client uses the server, and others have processes of their own; see [OneEach].
	OneEach bool        `json:"oneEach,omitempty"`
	State   event.State `json:"state"`
	Reason  string      `json:"reason,omitempty"` // such as "asleep"
	PID     int         `json:"pid"`              // 0 if the server has no process
	Own     []int       `json:"own,omitempty"`    // processes for single clients, beside PID; sorted
	Clients int         `json:"clients"`          // connections whose group contains the server
	Memory  int64       `json:"memoryBytes"`      // of all its processes
}

// Status returns the state of the daemon and its servers, sorted by id and folder. A server that is not shared
// is left out when its client has left and it sleeps.
func (d *Daemon) Status() Status {
	snap := d.opts.Engine.Tracker().Snapshot()
	d.mu.Lock()
	out := Status{PID: os.Getpid(), Version: d.opts.Build.Version, Socket: d.opts.Socket, Since: d.started.UTC().Format(event.TimeFormat), Clients: d.conns}
	known := map[string]*ServerStatus{}
	groups := slices.Collect(maps.Values(d.groups))
	for _, g := range groups {
		for id, srv := range g.servers {
			s := known[srv.ID]
			if s == nil {
				st, _ := snap.Server(srv.ID)
				if srv.Unshared() && g.clients == 0 && !st.Connected() {
					continue
				}
				s = &ServerStatus{ID: id, Config: g.source.Config.Path, Folder: g.who.Folder, Shared: cmp.Or(srv.Sharing, config.SharedByFolder), OneEach: d.opts.OneEach.Has(&srv), State: st.State, Reason: st.Reason}
				if st.Connected() {
					s.PID = st.Info.PID
				}
				known[srv.ID] = s
			}
			s.Clients += g.clients
		}
	}
	d.mu.Unlock()
	for _, g := range groups {
		for id, own := range g.gw.Own() {
			if s := known[id]; s != nil {
				s.Own = slices.Sorted(slices.Values(slices.Concat(s.Own, own)))
			}
		}
	}
	var pids []int
	for _, s := range known {
		if pids = append(pids, s.Own...); s.PID > 0 {
			pids = append(pids, s.PID)
		}
	}
	var memory map[int]int64
	if d.opts.Memory != nil && len(pids) > 0 {
		memory = d.opts.Memory(pids)
	}
	out.Servers = make([]ServerStatus, 0, len(known))
	for _, s := range known {
		s.Memory = memory[s.PID]
		for _, pid := range s.Own {
			s.Memory += memory[pid]
		}
		out.Servers = append(out.Servers, *s)
	}
	sort.Slice(out.Servers, func(i, j int) bool {
		a, b := &out.Servers[i], &out.Servers[j]
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Folder, b.Folder), strings.Compare(a.Config, b.Config), a.PID-b.PID) < 0
	})
	return out
}
