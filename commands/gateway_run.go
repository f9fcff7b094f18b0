package commands

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/capindex"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// gatewayWindow is the time within which updates of one resource are merged: short,
// because clients wait for them and merge themselves.
const gatewayWindow = 200 * time.Millisecond

// ballast is what the heap is taken to be at least: memory that nobody touches, so
// that it costs none itself. With the few MiB that a gateway needs, the collector
// would run once in a hundred calls, and one call in a hundred would wait for it; with
// this it runs once in a thousand. Measured: 0.4 ms instead of 0.8 ms are added to a
// call at p99, for as much more memory that waits to be collected.
const ballast = 32 << 20

func runGateway(ctx context.Context, env *Env, g *globals, opts gatewayOptions) error {
	held := make([]byte, ballast)
	defer runtime.KeepAlive(held)
	log := g.logger(env)
	cfg, err := opts.config(env, g, log)
	if err != nil {
		return err
	}
	opts.fromConfig(cfg.Index)
	var gw *gateway.Gateway
	index, err := opts.indexFlags.start(func() capindex.View { return gw.Offered() })
	if err != nil {
		return err
	}
	if index != nil {
		defer index.index.Close()
	}
	t := tracker.New(tracker.Options{
		Dial: env.Dial, Session: opts.session(env, g), Logger: log, AllLists: true, Window: gatewayWindow,
	})
	gw, err = gateway.New(gateway.Options{
		Tracker: t, OnDown: gateway.OnDown(opts.onDown), CallTimeout: opts.callTimeout, Allow: opts.allow, Deny: opts.deny, Pin: opts.pin,
		Serve: serve.Options{Name: "mcptrack-gateway", Title: "mcptrack gateway", Version: env.Version},
		Local: index.local(), Changed: index.changed, Logger: log,
	})
	if err != nil {
		return err
	}
	defer gw.Close()
	exported := opts.exported(cfg)
	if len(exported.Servers) == 0 {
		log.Warn("no server to serve yet", "file", cfg.Path, "hint", `set "trackResources": true on the servers to serve, or use --all`)
	}
	gw.Apply(exported)

	serving := func(ctx context.Context) error { return serveOneClient(ctx, env, gw.Server()) }
	if !opts.stdio {
		if serving, err = opts.overHTTP(ctx, env, log, gw.Server(), gw.Close); err != nil {
			return err
		}
	}
	ready := make(chan struct{}) // closed by the goroutine in run
	run := func(ctx context.Context) error {
		var beside sync.WaitGroup
		defer beside.Wait()
		beside.Go(func() {
			defer close(ready)
			wait, cancel := context.WithTimeout(ctx, opts.wait)
			defer cancel()
			_ = gw.Settled(wait)
		})
		beside.Go(func() { _ = gw.Run(ctx) })
		if index != nil {
			beside.Go(func() { index.follow(ctx, gw.Server()) })
		}
		if !opts.noFollow && !opts.demo {
			follow := followConfig(env, cfg, opts.holdCommands, t, func(next *config.Config) { gw.Apply(opts.exported(next)) }, log)
			beside.Go(func() { _ = follow(ctx) }) // that of ctx
		}
		return t.Run(ctx)
	}
	return whileRunning(ctx, run, ready, serving)
}

// config is the config to begin with.
func (o *gatewayOptions) config(env *Env, g *globals, log *slog.Logger) (*config.Config, error) {
	if o.demo {
		return demoConfig(env), nil
	}
	if path, found := g.configPath(env, log); o.catalogURL != "" && !found {
		return &config.Config{Path: path}, nil // that is enough
	}
	cfg, err := g.load(env, log)
	if err != nil {
		return nil, err
	}
	if _, taken := cfg.Server(catalogID); taken && o.catalogURL != "" {
		return nil, usage("--catalog-url is served as %q, and the config has a server of that name", catalogID)
	}
	return cfg, nil
}

// lastAnswers is how long calls may go on once a client of standard streams has
// said all that it will say.
const lastAnswers = 5 * time.Second

var errClientLeft = errors.New("the client has left")

// serveOneClient serves standard streams until the client closes its end.
func serveOneClient(ctx context.Context, env *Env, server *serve.Server) error {
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

// untilEnd calls ended, once, when there is nothing more to read.
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

// Close interrupts a Read where that is possible.
func (u *untilEnd) Close() error {
	if c, ok := u.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
