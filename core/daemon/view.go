package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
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
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/reload"
)

// A View is what clients with the same config, folder and environment see. Its methods are safe for
// concurrent use.
type View struct {
	d      *Daemon
	who    party // its first client
	source Source
	gw     *gateway.Gateway
	guard  *guard.Guard                  // nil if the config is no file
	judged *engine.Verdicts              // of the gateway; nil if guard is
	config atomic.Pointer[config.Config] // as read, before the daemon adapts its servers
	http   http.Handler                  // nil if the daemon serves no HTTP
	life   context.Context               // ends with stop; set by run
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	names  atomic.Pointer[map[string]string] // see Names

	// Guarded by d.mu:
	servers map[string]config.Server // by the id in the client's config; the ID is that of the tracker
	kept    map[string]func()        // releases what Tracker.Keep keeps while there are clients, by tracker id
	clients int
	left    time.Time // when the last client left
}

// ExportedID returns the id in the client's config of a server with the given id in the tracker.
func ExportedID(tracked string) string {
	if i := strings.LastIndexByte(tracked, '~'); i >= 0 {
		return tracked[:i]
	}
	return tracked
}

// Config returns the path of the view's config.
func (v *View) Config() string { return v.source.Config.Path }

// Lock returns the path of the lock file that the view follows, which [event.LockDrift] has as Lock. It is
// empty if the config is no file.
func (v *View) Lock() string {
	if v.guard == nil {
		return ""
	}
	return v.guard.Path()
}

// Names returns the ids of the view's servers in its config, by their ids in the tracker. The caller
// must not modify the map.
func (v *View) Names() map[string]string { return *v.names.Load() }

// Demand keeps a server, given its id in the view's config, connected until release is called.
func (v *View) Demand(server string) (release func()) {
	if id := v.TrackedID(server); id != "" {
		return v.d.opts.Engine.Tracker().Demand(id)
	}
	return func() {}
}

// TrackedID returns the id in the tracker of a server, given its id in the view's config. It returns
// "" if the view has no such server.
func (v *View) TrackedID(server string) string {
	for id, name := range v.Names() {
		if name == server {
			return id
		}
	}
	return ""
}

// viewKey identifies a view.
func viewKey(who party, source Source) string {
	client := ""
	if slices.ContainsFunc(source.Config.Servers, func(s config.Server) bool { return s.Unshared() }) {
		client = who.holder()
	}
	seen := "" // what limits what the client sees
	if entry := who.entry(source.Config); entry != nil {
		seen = entry.Name
	}
	data, err := json.Marshal([]any{seen, source.Config.Path, who.Config, who.Host, who.Folder, who.Server, who.Approved, who.Path, client, who.inherited, who.env})
	if err != nil {
		panic(err) // strings can be encoded
	}
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// enter returns the view for a client, and counts the client. The caller must call leave.
func (d *Daemon) enter(who party, source Source) (*View, error) {
	entries := d.entries(who, source, source.Config)
	if who.Join {
		var ok bool
		if who, entries, ok = d.joins(who, source); !ok {
			return nil, &ipc.Refused{Code: ipc.NotFollowed, Message: "the daemon does not follow this config"}
		}
	}
	key := viewKey(who, source)
	d.mu.Lock()
	known := d.views[key] != nil
	d.mu.Unlock()
	var locked *guard.Guard
	if !known {
		d.recall(entries)
		var err error
		if locked, err = d.guard(source); err != nil { // reads a file, so d.mu must not be held
			return nil, err
		}
	}
	d.mu.Lock()
	v := d.views[key]
	if v == nil && known { // it was dropped meanwhile
		d.mu.Unlock()
		return d.enter(who, source)
	}
	defer d.mu.Unlock()
	if v == nil {
		var err error
		if v, err = d.newView(who, source, locked); err != nil {
			return nil, err
		}
		d.views[key] = v
		v.apply(source.Config, entries)
		v.run()
		d.dropViews()
	}
	v.join()
	return v, nil
}

// join counts a client of the view. d.mu must be held.
func (v *View) join() {
	v.clients++
	v.d.count(1)
	v.keep()
}

// joins returns a client as which the given one has one of the servers of another view, and the servers
// that it then has; or false if there is none. The client keeps its environment or, because the PATH and
// language of terminals and hosts often differ, gets another client's; see mayLend.
func (d *Daemon) joins(who party, source Source) (as party, entries []config.Server, ok bool) {
	known, others := map[string]bool{}, []party{who}
	d.mu.Lock()
	for _, key := range slices.Sorted(maps.Keys(d.views)) {
		v := d.views[key]
		if who.mayLend(v.who) && !slices.ContainsFunc(others, func(p party) bool { return p.Path == v.who.Path && maps.Equal(p.inherited, v.who.inherited) }) {
			lent := who
			lent.Path, lent.inherited = v.who.Path, v.who.inherited
			others = append(others, lent)
		}
		for _, srv := range v.servers {
			known[srv.ID] = true
		}
	}
	d.mu.Unlock()
	for _, who := range others {
		entries = d.entries(who, source, source.Config)
		if slices.ContainsFunc(entries, func(srv config.Server) bool { return known[srv.ID] }) {
			return who, entries, true
		}
	}
	return who, nil, false
}

// unsharedIdle is how long a server runs after its only client has left. The client may reconnect.
// HTTP clients, which share one name, come and go with each request.
const unsharedIdle = time.Second

// entries returns the servers that a client's view has with a config, in its order. Their ID is that
// of the tracker. It reads files that may be slow, so d.mu must not be held.
func (d *Daemon) entries(who party, source Source, cfg *config.Config) []config.Server {
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
func (v *View) leave() {
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	v.clients--
	v.left = time.Now()
	v.d.count(-1)
	v.keep()
}

// keep keeps the servers of a view with clients connected, once they have started. d.mu must be
// held.
func (v *View) keep() {
	wanted := map[string]bool{}
	if v.clients > 0 {
		for _, srv := range v.servers {
			wanted[srv.ID] = true
		}
	}
	for id, release := range v.kept {
		if !wanted[id] {
			release()
			delete(v.kept, id)
		}
	}
	for id := range wanted {
		if v.kept[id] == nil {
			v.kept[id] = v.d.opts.Engine.Tracker().Keep(id)
		}
	}
}

// guard returns a guard with the lock beside a view's config; nil if the config is no file.
func (d *Daemon) guard(source Source) (*guard.Guard, error) {
	if source.Config.Path == "" {
		return nil, nil
	}
	path, err := filepath.Abs(source.Config.Path)
	if err != nil {
		return nil, err
	}
	return guard.New(guard.Options{Path: guard.Beside(path), Flags: "--config " + printable.Shell(path), Logger: d.opts.Logger})
}

// newView creates a view that is not running.
func (d *Daemon) newView(who party, source Source, locked *guard.Guard) (*View, error) {
	v := &View{d: d, who: who, source: source, guard: locked, kept: map[string]func(){}}
	opts := d.opts.Gateway
	opts.Tracker, opts.Alias, opts.Transparent = d.opts.Engine.Tracker(), ExportedID, who.Server != ""
	opts.Wait = d.opts.Wait
	if only := who.entry(source.Config); only != nil {
		opts.Allow, opts.Deny = only.Allow, only.Deny
	}
	if opts.Guard = locked; locked != nil {
		v.judged = d.opts.Engine.Verdicts(locked.Path())
		opts.Judged = v.judged.Set
	}
	if launch := opts.Launch; launch != nil {
		opts.Launch = func(ctx context.Context, srv config.Server) json.RawMessage {
			if entry, ok := v.config.Load().Server(srv.ID); ok { // as in the config: with the client's environment and folder
				srv = entry
			}
			return launch(ctx, srv)
		}
	}
	var err error
	if v.gw, err = gateway.New(opts); err != nil && v.judged != nil {
		v.judged.Close()
	}
	return v, err
}

// run starts what keeps the view up to date, until stop. d.mu must be held.
func (v *View) run() {
	ctx, cancel := context.WithCancel(v.d.life)
	v.life, v.cancel = ctx, cancel
	start := func(task func(context.Context) error) {
		v.tasks.Go(func() {
			if err := task(ctx); err != nil && ctx.Err() == nil {
				v.d.opts.Logger.Warn("a part of the daemon ended", "folder", v.who.Folder, "err", err)
			}
		})
	}
	start(v.gw.Run)
	if v.guard != nil {
		start(v.guard.Run)
	}
	if v.source.Follow != nil {
		start(v.follow)
	}
	if v.d.opts.HTTP != nil {
		handler, task := v.d.opts.HTTP(v)
		v.http = handler
		start(task)
	}
}

// stop ends everything that run started, and waits for it.
func (v *View) stop() {
	v.gw.Close()
	v.cancel()
	v.tasks.Wait()
	if v.judged != nil {
		v.judged.Close()
	}
}

// dropViews removes the views that have been without clients longest, if there are too many. Those that
// were used over HTTP lately are not counted, because they may have sessions. d.mu must be held.
func (d *Daemon) dropViews() {
	for {
		var oldest string
		idle := 0
		for key, v := range d.views {
			if v.clients > 0 || v.left.IsZero() || d.recent(v) {
				continue
			}
			if idle++; oldest == "" || v.left.Before(d.views[oldest].left) {
				oldest = key
			}
		}
		if idle <= maxIdleViews {
			return
		}
		v := d.views[oldest]
		delete(d.views, oldest)
		maps.DeleteFunc(d.endpoints, func(_ endpoint, other *View) bool { return other == v })
		d.dropped.Go(v.stop)
		d.apply()
	}
}

// closeViews stops all views.
func (d *Daemon) closeViews() {
	d.mu.Lock()
	views := slices.Collect(maps.Values(d.views))
	clear(d.views)
	clear(d.endpoints)
	d.mu.Unlock()
	for _, v := range views {
		v.stop()
	}
	d.dropped.Wait()
}

// follow applies the changes of the view's config.
func (v *View) follow(ctx context.Context) error {
	opts := *v.source.Follow
	opts.Current, opts.Publish = v.source.Config, v.d.opts.Engine.Tracker().Publish
	opts.Apply = func(cfg *config.Config) {
		entries := v.d.entries(v.who, v.source, cfg)
		v.d.recall(entries)
		v.d.mu.Lock()
		defer v.d.mu.Unlock()
		if slices.EqualFunc(cfg.Clients, v.config.Load().Clients, config.Client.Equal) {
			v.apply(cfg, entries)
		} else {
			v.retire()
		}
	}
	return reload.Run(ctx, opts)
}

// retire ends a view because other clients may belong to it than before. Its clients connect again. Their servers
// stay, because the next views get them. d.mu must be held.
func (v *View) retire() {
	key := viewKey(v.who, v.source)
	if v.d.views[key] != v {
		return // it already ends
	}
	delete(v.d.views, key)
	maps.DeleteFunc(v.d.endpoints, func(_ endpoint, other *View) bool { return other == v })
	v.d.dropped.Go(v.stop)
}

// apply sets the servers of the view to those that entries returned for a config. d.mu must be held.
func (v *View) apply(cfg *config.Config, entries []config.Server) {
	v.config.Store(cfg)
	v.servers = map[string]config.Server{}
	names := map[string]string{}
	var exported []config.Server
	for _, srv := range entries {
		if srv.Transport == config.TransportStdio {
			srv.Env = v.environment(&srv)
		}
		if srv.Sharing == config.SharedByMachine {
			if _, known := v.d.dirs[srv.ID]; !known {
				v.d.dirs[srv.ID] = srv.Dir
			}
			srv.Dir = v.d.dirs[srv.ID]
		}
		id := ExportedID(srv.ID)
		v.servers[id], names[srv.ID] = srv, id
		srv.Sharing = config.SharedByFolder // the id determines who shares it
		exported = append(exported, srv)
	}
	v.names.Store(&names)
	v.keep()
	v.d.apply()
	v.gw.Apply(cfg.With(exported))
	if v.clients > 0 || v.d.recent(v) {
		v.tasks.Go(func() { v.settle(v.life, nil) })
	}
}

// environment returns the whole environment of a server. d.mu must be held.
func (v *View) environment(srv *config.Server) map[string]config.Secret {
	env := map[string]config.Secret{}
	for name, value := range v.who.inheritedBy(srv) {
		env[name] = config.NewSecret(value)
	}
	if _, own := srv.Env["PATH"]; !own && v.who.Path != "" {
		if _, known := v.d.paths[srv.ID]; !known {
			v.d.paths[srv.ID] = config.NewSecret(v.who.Path)
		}
		env["PATH"] = v.d.paths[srv.ID]
	}
	maps.Copy(env, srv.Env)
	return env
}

// settle starts the servers whose lists are not known, and waits until they have been tried. If lists then differ
// from those with the given digests, which a client has seen, it starts all: what is known may lack the last changes
// before a daemon was killed.
func (v *View) settle(ctx context.Context, seen map[string]string) {
	v.awaitApplied(ctx)
	ctx, cancel := context.WithTimeout(ctx, v.d.opts.Wait)
	defer cancel()
	snap := v.d.opts.Engine.Tracker().Snapshot()
	defer v.hold(func(srv *config.Server) bool {
		st, _ := snap.Server(srv.ID)
		return st.Info.Era == ""
	})()
	_ = v.gw.Settled(ctx) // after an error, clients are served what is known
	if v.gw.Server().Differs(seen) {
		defer v.hold(func(*config.Server) bool { return true })()
		_ = v.gw.Settled(ctx)
	}
	v.isolate()
}

// maxApply limits how long a client waits until the tracker knows its servers.
const maxApply = 2 * time.Second

// awaitApplied waits until the tracker knows the servers of the view.
func (v *View) awaitApplied(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxApply)
	defer cancel()
	backoff.Poll(ctx, time.Millisecond, func() bool {
		snap := v.d.opts.Engine.Tracker().Snapshot()
		for id := range v.Names() {
			if _, known := snap.Server(id); !known {
				return false
			}
		}
		return true
	})
}

// hold keeps the servers that which selects connected until release is called.
func (v *View) hold(which func(*config.Server) bool) (release func()) {
	t := v.d.opts.Engine.Tracker()
	v.d.mu.Lock()
	var releases []func()
	for _, srv := range v.servers {
		if which(&srv) {
			releases = append(releases, t.Demand(srv.ID))
		}
	}
	v.d.mu.Unlock()
	return func() {
		for _, release := range releases {
			release()
		}
	}
}
