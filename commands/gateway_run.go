package commands

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/secretfile"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// gatewayWindow is the time within which updates of one resource are merged. It is short
// because clients wait for updates and merge them themselves.
const gatewayWindow = 200 * time.Millisecond

// ballast is an allocation that is never touched and so takes no memory itself, but
// raises the heap size at which the garbage collector runs. With the few MiB of a
// gateway it would run, and delay a call, once in a hundred calls; with the ballast once
// in a thousand. Measured: 0.4 ms instead of 0.8 ms are added to a call at p99, for up to
// that much more garbage in memory.
const ballast = 32 << 20

func runGateway(ctx context.Context, env *Env, g *globals, opts gatewayOptions) error {
	log := g.logger(env)
	cfg, err := opts.config(ctx, env, g, log)
	if err != nil {
		return err
	}
	held := make([]byte, ballast)
	defer runtime.KeepAlive(held)
	opts.fromConfig(cfg.Index)
	var pins *gateway.Pins // nil without --pin
	if opts.pin {
		if pins, err = opts.pins(env, cfg); err != nil {
			return err
		}
	}
	var gw *gateway.Gateway
	index, err := opts.indexFlags.start(func() capindex.View { return gw.Capabilities() })
	if err != nil {
		return err
	}
	defer index.Close()
	tokens, err := opts.access.tokens(log, opts.reloads(env))
	if err != nil {
		return err
	}
	var stored *gatewayEvents // nil without --events and --change-tools
	if opts.events.on || opts.events.tools {
		if stored, err = opts.events.open(ctx, env, log, opts.demo, tokens, func() *gateway.Gateway { return gw }); err != nil {
			return err
		}
		defer stored.close()
	}
	desired, err := opts.desired(env, g, log, cfg, opts.exported)
	if err != nil {
		return err
	}
	sessions := opts.session(env, g)
	names := &gateway.Names{}
	var exported func(*event.Event) map[string]string // nil: no events are stored
	if stored != nil {
		exported = names.Exported
	}
	e, err := engine.New(ctx, desired, stored.events(), engine.Options{
		Tracker: tracker.Options{Dial: env.Dial, Session: sessions, Logger: log, AllLists: true, Window: gatewayWindow, Texts: opts.events.tools},
		Shared:  opts.events.nats != "", FollowAll: true, Logger: log, Listed: names.Listed, Exported: exported,
		Applied: func(cfg *config.Config) {
			stored.apply(cfg)
			gw.Apply(opts.exported(cfg))
		},
	})
	if err != nil {
		return err
	}
	local, instructions := stored.local(index.Local())
	gw, err = gateway.New(gateway.Options{
		Tracker: e.Tracker(), Dial: env.Dial, Session: sessions, OnDown: gateway.OnDown(opts.onDown), CallTimeout: opts.callTimeout, Allow: opts.allow, Deny: opts.deny, Pins: pins, Names: names,
		Serve: mcpserver.Options{Name: "mcptrack-gateway", Title: "mcptrack gateway", Version: env.Version, Instructions: instructions, Principal: tokens.Principal, SessionDir: opts.sessionDir(opts.dataDir(env)), Events: stored.handlers(), Logger: log},
		Key:   opts.key(env, log), Local: local, Changed: index.Changed, Logger: log,
	})
	if err != nil {
		return err
	}
	defer gw.Close()
	tokens.OnChange(func() {
		gw.Server().EndSessions(tokens.HoldsPrincipal)
		stored.recheck()
	})
	opts.warn(log, cfg, stored)

	serving := func(ctx context.Context) error { return serveOneClient(ctx, env, gw.Server()) }
	if !opts.stdio {
		endpoint := mcpEndpoint{gw.Server(), stored.routes(env.Version, e), tokens, e.Log().Err, gw.Close}
		if serving, err = opts.overHTTP(ctx, env, log, endpoint); err != nil {
			return err
		}
	}
	ready := make(chan struct{}) // closed once the servers were tried
	parts := append(stored.readers(), engine.Source(gw.Run), engine.Source(func(ctx context.Context) error {
		index.Run(ctx, gw.Server())
		return nil
	}), engine.Source(func(ctx context.Context) error {
		defer close(ready)
		wait, cancel := context.WithTimeout(ctx, opts.wait)
		defer cancel()
		if gw.Settled(wait) == nil {
			warnUnmatched(log, gw)
		}
		return nil
	}))
	return whileRunning(ctx, func(ctx context.Context) error { return e.Run(ctx, parts...) }, ready, serving)
}

// warn logs what of the config is not served.
func (o *gatewayOptions) warn(log *slog.Logger, cfg *config.Config, stored *gatewayEvents) {
	exported := o.exported(cfg)
	if len(exported.Servers) == 0 {
		log.Warn("there is no server to serve yet", "file", cfg.Path, "hint", selection{all: o.allServers}.hint(cfg))
	}
	if len(cfg.Webhooks) > 0 && (stored == nil || stored.fixed == nil) {
		log.Warn("the webhooks of the config are ignored without --events")
	}
	if left := o.leftOut(cfg, exported); len(exported.Servers) > 0 && len(left) > 0 {
		log.Warn("untracked servers are not served", "servers", strings.Join(left, ", "), "hint", "set \"trackResources\": true on them, or use --all")
	}
}

// warnUnmatched logs which globs match nothing that the servers have. It may be a typing error,
// by which something is served, or not served, that should not be.
func warnUnmatched(log *slog.Logger, gw *gateway.Gateway) {
	allow, deny := gw.Unmatched()
	for flag, globs := range map[string][]string{"--allow": allow, "--deny": deny} {
		if len(globs) > 0 {
			log.Warn(flag+" matches nothing that the servers list now", "globs", join(globs, 10))
		}
	}
}

// keyFile is the file with the key of the ids of tasks, in the data directory.
const keyFile = "gateway.key"

// dataDir is the directory of what the gateway keeps; "" if it keeps nothing. Gateways without one
// of their own share one, but gateways of the demo keep nothing then.
func (o *gatewayOptions) dataDir(env *Env) string {
	if o.demo {
		return o.events.dir
	}
	return cmp.Or(o.events.dir, env.dirOf(gatewayDir))
}

// key returns the key of the ids of tasks. It is kept in the data directory, so that clients find
// their tasks after a restart; gateways without one of their own share that of --events. nil: no
// key can be kept there, so there is one for this run only.
func (o *gatewayOptions) key(env *Env, log *slog.Logger) []byte {
	dir := o.dataDir(env)
	if dir == "" {
		return nil
	}
	var key []byte
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		key, err = secretfile.Key(filepath.Join(dir, keyFile))
	}
	if err != nil {
		log.Warn("clients cannot use their tasks after a restart of the gateway, as the key of the ids cannot be kept", "err", err)
		return nil
	}
	return key
}

// config returns the initial config.
func (o *gatewayOptions) config(ctx context.Context, env *Env, g *globals, log *slog.Logger) (*config.Config, error) {
	if o.demo {
		return demoConfig(env), nil
	}
	if _, err := g.configPath(env, log); o.catalogURL != "" && err != nil {
		return &config.Config{Path: defaultConfig}, nil // the catalog needs no config
	}
	cfg, err := g.load(ctx, env, log)
	if err != nil {
		return nil, err
	}
	if _, taken := cfg.Server(catalogID); taken && o.catalogURL != "" {
		return nil, usage("--catalog-url adds a server named %q, but the config already has a server of that name", catalogID)
	}
	return cfg, nil
}

// lastAnswers is how long calls may continue after a client has closed standard input.
const lastAnswers = 5 * time.Second

var errClientLeft = errors.New("the client disconnected")

// serveOneClient serves standard input and output until the client closes them.
func serveOneClient(ctx context.Context, env *Env, server *mcpserver.Server) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := server.ServeIO(ctx, &untilEnd{Reader: env.In, ended: func() {
		time.AfterFunc(lastAnswers, func() { cancel(errClientLeft) })
	}}, env.Out)
	if errors.Is(err, errClientLeft) {
		return nil
	}
	return err
}

// untilEnd calls ended once at the end of its input.
type untilEnd struct {
	io.Reader
	ended func()
	once  sync.Once
}

func (u *untilEnd) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil {
		u.once.Do(u.ended)
	}
	return n, err
}

// Close interrupts a Read if the reader supports that.
func (u *untilEnd) Close() error {
	if c, ok := u.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
