package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/reload"
)

// A Group is the clients with the same config, folder and environment, and what they see. Its methods are safe for
// concurrent use.
type Group struct {
	d        *Daemon
	key      string // in d.groups
	who      client // its first client
	source   Source
	followed *followed
	gw       *gateway.Gateway
	verdicts *engine.Verdicts              // of the gateway; nil if there is no guard
	config   atomic.Pointer[config.Config] // as read, before the daemon adapts its servers
	life     context.Context               // ends with stop
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	names    atomic.Pointer[map[string]string] // see Names

	// Guarded by d.mu:
	http     http.Handler             // see handler
	servers  map[string]config.Server // by the id in the client's config; the ID is the tracker's
	exported []config.Server          // for the gateway
	kept     []func()                 // release what Tracker.Keep keeps while there are clients
	clients  int
	left     time.Time // when the last client left
	overHTTP bool      // it has endpoints
}

// ExportedID returns the id in the client's config of a server with the given id in the tracker.
func ExportedID(tracked string) string {
	if i := strings.LastIndexByte(tracked, '~'); i >= 0 {
		return tracked[:i]
	}
	return tracked
}

// Lock returns the path of the lock file that the group follows, which [event.LockDrift] has as Lock. It is
// empty if the config is not a file.
func (g *Group) Lock() string {
	if g.followed.guard == nil {
		return ""
	}
	return g.followed.guard.Path()
}

// Names returns the ids of the group's servers in its config, by their ids in the tracker. The caller
// must not modify the map.
func (g *Group) Names() map[string]string { return *g.names.Load() }

// Demand keeps a server, given its id in the group's config, connected until release is called.
func (g *Group) Demand(server string) (release func()) {
	if id := g.TrackedID(server); id != "" {
		return g.d.opts.Engine.Tracker().Demand(id)
	}
	return func() {}
}

// TrackedID returns the id in the tracker of a server, given its id in the group's config. It returns
// "" if the group has no such server.
func (g *Group) TrackedID(server string) string {
	for id, name := range g.Names() {
		if name == server {
			return id
		}
	}
	return ""
}

// keyOf returns a hash of values, which identifies what they determine.
func keyOf(values ...any) string {
	data, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings can be encoded
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// configKey identifies a config as a client reads it.
func (c client) configKey(source Source) string {
	return keyOf(source.Config.Path, c.Config, c.Host, c.Folder, c.Approved, c.Path, c.inherited, c.env)
}

// groupKey identifies the group of a client.
func (c client) groupKey(source Source) string {
	owner := ""
	if slices.ContainsFunc(source.Config.Servers, func(s config.Server) bool { return s.Unshared() }) {
		owner = c.owner()
	}
	seen := "" // what limits what the client sees
	if entry := c.entry(source.Config); entry != nil {
		seen = entry.Name
	}
	return keyOf(c.configKey(source), seen, c.Server, owner)
}

// enter returns the group for a client, and counts the client. The caller must call leave.
func (d *Daemon) enter(who client, source Source) (*Group, error) {
	if who.Join {
		var ok bool
		if who, ok = d.joins(who, source); !ok {
			return nil, &ipc.Refused{Code: ipc.NotFollowed, Message: "the daemon does not follow this config"}
		}
	}
	for {
		d.mu.Lock()
		f := d.configs[who.configKey(source)]
		followed, older := source.Config, false
		if f != nil {
			followed, older = f.config, f.applied <= who.asOf
		}
		d.mu.Unlock()
		var locked *guard.Guard
		if f == nil {
			var err error
			if locked, err = d.guard(source); err != nil { // reads a file, so d.mu must not be held
				return nil, err
			}
		} else if older && !reload.Same(followed, source.Config) { // the file has just changed
			f.apply(source.Config, who.asOf)
			continue
		}
		source.Config = followed
		key := who.groupKey(source)
		d.mu.Lock()
		known := d.groups[key] != nil
		d.mu.Unlock()
		entries := d.entries(who, source, source.Config)
		if !known {
			d.recall(entries)
		}
		d.mu.Lock()
		g := d.groups[key]
		if d.configs[who.configKey(source)] != f || f != nil && f.config != followed || known && g == nil { // changed meanwhile
			d.mu.Unlock()
			continue
		}
		defer d.mu.Unlock()
		if f == nil {
			f = d.follow(who, source, locked)
		}
		if g == nil {
			var err error
			if g, err = d.newGroup(key, who, source, f); err != nil {
				f.endIfUnused()
				return nil, err
			}
			d.groups[key], f.groups[g] = g, true
			g.set(source.Config, entries)
			d.apply(g)
			g.start(g.gw.Run)
			d.dropGroups()
		}
		g.join()
		return g, nil
	}
}

// join counts a client of the group. d.mu must be held.
func (g *Group) join() {
	g.clients++
	g.d.count(1)
	g.keep()
}

// joins returns a client as which the given one has one of the servers of another group, or false if there is none.
// The client keeps its environment or, because the PATH and language of terminals and hosts often differ, gets
// another client's; see mayUse.
func (d *Daemon) joins(who client, source Source) (as client, ok bool) {
	known, others := map[string]bool{}, []client{who}
	d.mu.Lock()
	for _, key := range slices.Sorted(maps.Keys(d.groups)) {
		g := d.groups[key]
		if who.mayUse(g.who) && !slices.ContainsFunc(others, func(c client) bool { return c.Path == g.who.Path && maps.Equal(c.inherited, g.who.inherited) }) {
			other := who
			other.Path, other.inherited = g.who.Path, g.who.inherited
			others = append(others, other)
		}
		for _, srv := range g.servers {
			known[srv.ID] = true
		}
	}
	d.mu.Unlock()
	for _, who := range others {
		if slices.ContainsFunc(d.entries(who, source, source.Config), func(srv config.Server) bool { return known[srv.ID] }) {
			return who, true
		}
	}
	return who, false
}

// unsharedIdle is how long a server runs after its only client has left. The client may reconnect.
// HTTP clients, which share one name, come and go with each request.
const unsharedIdle = time.Second

// entries returns the servers that a client's group has with a config, in its order. Their ID is that
// of the tracker. It reads files that may be slow, so d.mu must not be held.
func (d *Daemon) entries(who client, source Source, cfg *config.Config) []config.Server {
	if source.Select != nil {
		cfg = source.Select(cfg)
	}
	var entries []config.Server
	only := who.entry(cfg)
	for _, srv := range cfg.Servers {
		if srv.Enabled && (only == nil || only.Sees(srv.ID)) {
			srv.ID = trackedID(d.opts.Key, &srv, who)
			if srv.Unshared() && who.Client != httpClient {
				srv.Idle = unsharedIdle
			}
			entries = append(entries, srv)
		}
	}
	return entries
}

// recall reads from the log what servers offered before, so that a client that only lists them starts none. It
// may be slow, so d.mu must not be held.
func (d *Daemon) recall(entries []config.Server) {
	for i := range entries {
		d.opts.Engine.Recall(d.life, entries[i].ID)
	}
}

// leave ends what join began.
func (g *Group) leave() {
	g.d.mu.Lock()
	defer g.d.mu.Unlock()
	g.clients--
	g.left = time.Now()
	g.d.count(-1)
	g.keep()
}

// keep keeps the servers of a group with clients connected, once they have started. d.mu must be
// held.
func (g *Group) keep() {
	before := g.kept
	g.kept = nil
	if g.clients > 0 {
		for _, srv := range g.servers {
			g.kept = append(g.kept, g.d.opts.Engine.Tracker().Keep(srv.ID))
		}
	}
	for _, release := range before {
		release()
	}
}

// newGroup creates a group that is not running.
func (d *Daemon) newGroup(key string, who client, source Source, f *followed) (*Group, error) {
	g := &Group{d: d, key: key, who: who, source: source, followed: f}
	opts := d.opts.Gateway
	opts.Tracker, opts.Alias, opts.Transparent = d.opts.Engine.Tracker(), ExportedID, who.Server != ""
	opts.Wait = d.opts.Wait
	if only := who.entry(source.Config); only != nil {
		opts.Allow, opts.Deny = only.Allow, only.Deny
	}
	if opts.Guard = f.guard; f.guard != nil {
		g.verdicts = d.opts.Engine.Verdicts(f.guard.Path())
		opts.Verdicts = g.verdicts.Set
	}
	if launch := opts.Launch; launch != nil {
		opts.Launch = func(ctx context.Context, srv config.Server) json.RawMessage {
			if entry, ok := g.config.Load().Server(srv.ID); ok { // as in the config: with the client's environment and folder
				srv = entry
			}
			return launch(ctx, srv)
		}
	}
	var err error
	if g.gw, err = gateway.New(opts); err != nil && g.verdicts != nil {
		g.verdicts.Close()
	}
	g.life, g.cancel = context.WithCancel(d.life)
	return g, err
}

// start runs a task until stop. d.mu must be held.
func (g *Group) start(task func(context.Context) error) {
	g.tasks.Go(func() {
		if err := task(g.life); err != nil && g.life.Err() == nil {
			g.d.opts.Logger.Warn("a part of the daemon ended", "folder", g.who.Folder, "err", err)
		}
	})
}

// handler returns the handler for clients with the purpose [ipc.HTTP], which the first of them starts. It returns nil
// if the group has ended.
func (g *Group) handler() http.Handler {
	g.d.mu.Lock()
	defer g.d.mu.Unlock()
	if g.http == nil && g.d.groups[g.key] == g {
		handler, run := g.d.opts.HTTP(g)
		g.http = handler
		g.start(run)
	}
	return g.http
}

// stop ends everything that start started, and waits for it.
func (g *Group) stop() {
	g.gw.Close()
	g.cancel()
	g.tasks.Wait()
	if g.verdicts != nil {
		g.verdicts.Close()
	}
}

// dropGroups ends the groups that have been without clients longest, if there are too many: last those that
// were used over HTTP lately, because they may have sessions. d.mu must be held.
func (d *Daemon) dropGroups() {
	var idle []*Group
	for _, g := range d.groups {
		if g.clients == 0 && !g.left.IsZero() {
			idle = append(idle, g)
		}
	}
	slices.SortFunc(idle, func(a, b *Group) int {
		if a.recent() != b.recent() {
			return map[bool]int{false: -1, true: 1}[a.recent()]
		}
		return a.left.Compare(b.left)
	})
	for _, g := range idle[:max(0, len(idle)-maxIdleGroups)] {
		g.end()
		d.apply()
	}
}

// end ends a group that is in d.groups. d.mu must be held.
func (g *Group) end() {
	delete(g.d.groups, g.key)
	maps.DeleteFunc(g.d.endpoints, func(_ endpoint, other *Group) bool { return other == g })
	delete(g.followed.groups, g)
	g.followed.endIfUnused()
	g.d.dropped.Go(g.stop)
}

// closeGroups ends all groups, and waits until they have stopped.
func (d *Daemon) closeGroups() {
	d.mu.Lock()
	for _, g := range d.groups {
		g.end()
	}
	d.mu.Unlock()
	d.dropped.Wait()
}

// set sets the servers of the group to those that entries returned for a config. The caller calls [Daemon.apply] next.
// d.mu must be held.
func (g *Group) set(cfg *config.Config, entries []config.Server) {
	g.config.Store(cfg)
	g.servers = map[string]config.Server{}
	names := map[string]string{}
	g.exported = nil
	for _, srv := range entries {
		as, known := g.d.firsts[srv.ID]
		if !known {
			as = first{srv.Dir, config.NewSecret(g.who.Path)}
			g.d.firsts[srv.ID] = as
		}
		if srv.Transport == config.TransportStdio {
			srv.Env = g.environment(&srv, as.path)
		}
		if srv.Sharing == config.SharedByMachine {
			srv.Dir = as.dir
		}
		id := ExportedID(srv.ID)
		g.servers[id], names[srv.ID] = srv, id
		srv.Sharing = config.SharedByFolder // the id determines who shares it
		g.exported = append(g.exported, srv)
	}
	g.names.Store(&names)
	g.keep()
	if g.clients > 0 || g.recent() {
		g.tasks.Go(func() { g.settle(g.life, nil) })
	}
}

// environment returns the whole environment of a server with a PATH.
func (g *Group) environment(srv *config.Server, path config.Secret) map[string]config.Secret {
	env := map[string]config.Secret{}
	for name, value := range g.who.inheritedBy(srv) {
		env[name] = config.NewSecret(value)
	}
	if path.Reveal() != "" {
		env["PATH"] = path
	}
	maps.Copy(env, srv.Env)
	return env
}

// settle starts the servers whose lists are not known, and waits until they have been tried. If lists then differ
// from those with the given digests, which a client has seen, it starts all: what is known may lack the last changes
// before a daemon was killed.
func (g *Group) settle(ctx context.Context, seen map[string]string) {
	g.awaitApplied(ctx)
	ctx, cancel := context.WithTimeout(ctx, g.d.opts.Wait)
	defer cancel()
	snap := g.d.opts.Engine.Tracker().Snapshot()
	defer g.hold(func(srv *config.Server) bool {
		st, _ := snap.Server(srv.ID)
		return st.Info.Era == ""
	})()
	_ = g.gw.Settled(ctx) // after an error, clients are served what is known
	if g.gw.Server().Differs(seen) {
		defer g.hold(func(*config.Server) bool { return true })()
		_ = g.gw.Settled(ctx)
	}
	g.isolate()
}

// maxApply limits how long a client waits until the tracker knows its servers.
const maxApply = 2 * time.Second

// awaitApplied waits until the tracker knows the servers of the group.
func (g *Group) awaitApplied(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxApply)
	defer cancel()
	backoff.Poll(ctx, time.Millisecond, func() bool {
		for id := range g.Names() {
			if !g.d.opts.Engine.Tracker().Knows(id) {
				return false
			}
		}
		return true
	})
}

// hold keeps the servers that which selects connected until release is called.
func (g *Group) hold(which func(*config.Server) bool) (release func()) {
	t := g.d.opts.Engine.Tracker()
	g.d.mu.Lock()
	var releases []func()
	for _, srv := range g.servers {
		if which(&srv) {
			releases = append(releases, t.Demand(srv.ID))
		}
	}
	g.d.mu.Unlock()
	return func() {
		for _, release := range releases {
			release()
		}
	}
}
