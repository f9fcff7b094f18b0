// Package gateway implements the gateway command, which serves all tracked servers through one MCP
// endpoint. It contains the flags (gateway.go, index.go, lock.go), the log and the delivery of MCP
// Events (events.go), and the help pages. The gateway itself is core/gateway.
package gateway

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Manual contains the help pages of this package, as Markdown.
//
//go:embed *.md
var Manual embed.FS

type options struct {
	cli.ConnectFlags
	indexFlags
	cli.MCPFlags
	lockFlags
	events          eventsFlags
	onDown          string
	allow, deny     []string
	catalogURL      string
	catalogInterval time.Duration
	callTimeout     time.Duration
	wait            time.Duration
	instead         bool // of the daemon, for a client of attach
	cli.TrackFlags
	cli.Filter // only its servers

	set func(flag string) bool // reports whether a flag was set by argument or environment
}

// Command returns the gateway command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:         "gateway",
		Short:       "Serve all tracked servers through one MCP endpoint",
		Annotations: cli.ManualPage("gateway"),
		Example: `  mcptrack gateway --demo
  mcptrack gateway --config mcp-servers.json --deny '*delete*' --on-down drop
  mcptrack gateway --catalog-url https://api.example --index
  mcptrack gateway --all --events
  mcptrack gateway --all --change-tools --stdio
  mcptrack gateway --all --server github --stdio
  mcptrack gateway --addr :8723 --token-file token

  # Serve nothing that differs from the lock
  mcptrack gateway --lock mcptrack.lock --enforce block`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.MCPFlags.Check(cmd); err != nil {
				return err
			}
			if err := opts.parse(env, cmd.Flags()); err != nil {
				return err
			}
			if err := opts.events.parse(cmd); err != nil {
				return err
			}
			return run(cmd.Context(), env, g, opts)
		},
	}
	opts.MCPFlags.Add(cmd, cli.DefaultGatewayAddress)
	f := cmd.Flags()
	cli.AddChoice(cmd, &opts.onDown, "on-down", "keep", "`ACTION` for the items of a server that is down: keep or drop", "keep", "drop")
	f.StringArrayVar(&opts.allow, "allow", nil, "serve only names and URIs that match this `GLOB` (repeatable)")
	f.StringArrayVar(&opts.deny, "deny", nil, "do not serve names and URIs that match this `GLOB`; tools can still read a denied URI (repeatable)")
	f.BoolVar(&opts.AllServers, "all", false, "serve all enabled servers, not only tracked ones")
	opts.AddServers(cmd)
	_ = cmd.RegisterFlagCompletionFunc("server", cli.CompleteServers(env, g))
	opts.lockFlags.add(cmd)
	f.StringVar(&opts.catalogURL, "catalog-url", "", "`URL` of an HTTP API that describes its tools")
	f.DurationVar(&opts.catalogInterval, "catalog-interval", config.DefaultCatalogInterval, "`DURATION` between checks for changes at the --catalog-url")
	opts.indexFlags.add(f)
	opts.events.add(cmd)
	f.DurationVar(&opts.callTimeout, "call-timeout", 10*time.Minute, "`DURATION` without progress after which a call fails")
	f.DurationVar(&opts.wait, "wait", 10*time.Second, "`DURATION` to wait for servers before serving the first client")
	f.BoolVar(&opts.instead, "instead", false, "serve a client of attach without the daemon: leave out entries that run attach")
	_ = f.MarkHidden("instead")
	g.AddDemo(cmd)
	g.AddApproved(cmd)
	_ = cmd.Flags().MarkHidden("approved") // only mcptrack-attach uses it, without a daemon
	opts.AddReload(cmd)
	opts.AddServing(cmd)
	return cmd
}

func (o *options) parse(env *cli.Env, flags *pflag.FlagSet) error {
	if err := cmp.Or(o.ConnectFlags.Parse(), o.Filter.Parse()); err != nil {
		return err
	}
	if err := o.lockFlags.parse(); err != nil {
		return err
	}
	if err := cli.OneOf("on-down", o.onDown, string(gateway.Keep), string(gateway.Drop)); err != nil {
		return err
	}
	if err := cmp.Or(cli.Globs("--allow", o.allow), cli.Globs("--deny", o.deny)); err != nil {
		return err
	}
	if o.callTimeout <= 0 || o.wait < 0 || o.catalogInterval <= 0 {
		return cli.Usage("--call-timeout and --catalog-interval must be positive, and --wait not negative")
	}
	if o.catalogURL != "" {
		if _, err := upstream.New(upstream.FromConfig(o.catalog())); err != nil {
			return cli.Usage("--catalog-url: %w", err)
		}
	}
	o.set = flags.Changed
	return o.indexFlags.parse(env, flags)
}

// catalogID is the server id for the catalog that --catalog-url adds.
const catalogID = "catalog"

func (o *options) catalog() config.Server {
	return config.Server{ID: catalogID, Enabled: true, Transport: config.TransportCatalog, URL: config.NewSecret(o.catalogURL),
		CatalogInterval: o.catalogInterval}
}

func (o *options) selection() cli.Selection {
	return cli.Selection{Servers: o.Servers, All: o.AllServers}
}

// exported returns the config reduced to the servers that the gateway serves.
func (o *options) exported(cfg *config.Config) *config.Config {
	out := cfg.Only(func(srv config.Server) bool {
		if srv.ID == catalogID && o.catalogURL != "" {
			return false // added by a reload; at startup such a server is an error
		}
		if o.instead && srv.Attaches() {
			return false // it would start this gateway again
		}
		return srv.Enabled && o.selection().Matches(srv.ID) && (o.AllServers || srv.Tracked() || srv.Transport == config.TransportCatalog)
	})
	if o.catalogURL != "" {
		out.Servers = append(out.Servers, o.catalog())
	}
	if o.AllServers && (o.events.on || o.events.tools) {
		out = cli.WithAllTracked(out)
	}
	return out
}

// leftOut returns the ids of enabled servers that are not exported.
func (o *options) leftOut(cfg, exported *config.Config) (ids []string) {
	for _, srv := range cfg.Servers {
		if _, served := exported.Server(srv.ID); srv.Enabled && !served && o.selection().Matches(srv.ID) {
			ids = append(ids, printable.Line(srv.ID, 128))
		}
	}
	return ids
}

// window is the period within which updates of one resource are coalesced. It is short because
// clients wait for updates and coalesce them themselves.
const window = 200 * time.Millisecond

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	log := g.Logger(env)
	cfg, err := opts.config(ctx, env, g, log)
	if err != nil {
		return err
	}
	defer cli.Ballast()()
	opts.fromConfig(cfg.Index, opts.set)
	guard, err := opts.guard(g, cfg, log, opts.set)
	if err != nil {
		return err
	}
	if opts.catalogURL != "" && guard.Lacks(catalogID) {
		return cli.UsageHint(`write it into the config: "`+catalogID+`": {"type": "catalog", "url": "URL"}; then run mcptrack lock `+catalogID+` and leave out --catalog-url`,
			"the lock does not have the API of --catalog-url, so nothing of it would be served")
	}
	seen := &clients{logger: log, byName: map[string]*view{}}
	if !opts.Stdio {
		if seen.tokens, err = opts.Access.ClientTokens(log, opts.Reloads(env, g)); err != nil {
			return err
		}
		seen.tokens.SetClients(tokensOf(cfg))
	}
	whole := &view{guard: guard}
	stored, err := opts.events.open(ctx, env, log, g.Tracer(), g.Demo(), seen.tokens, func() *gateway.Gateway { return whole.gw }, seen.events)
	if err != nil {
		return err
	}
	defer stored.close()
	whole.events = stored
	desired, err := opts.Desired(env, g, log, cfg, opts.exported)
	if err != nil {
		return err
	}
	var e *engine.Engine
	received := hook.NewReceiver(hook.Options{Deliver: func(d hook.Delivery) { e.Receive(d) }, Logger: log})
	sessions := opts.SessionOptions(env, g)
	names := &gateway.Names{}
	var exported func(*event.Event) map[string]string // nil if no events are stored
	var card tracker.FetchCard                        // the same
	if stored.reader != nil {
		exported, card = names.Exported, servercard.Fetch
	}
	role := engine.Alone
	if opts.events.NATS != "" {
		role = engine.Serves
	}
	e, err = engine.New(ctx, desired, stored.log, engine.Options{
		Tracker: tracker.Options{Dial: env.Dial, Session: sessions, Logger: log, AllLists: true, Window: window, Texts: opts.events.tools, Card: card},
		Role:    role, Logger: log, Listed: names.Listed, Exported: exported,
		Applied: func(cfg *config.Config) {
			stored.apply(cfg)
			received.Apply(cfg.Hooks)
			exported := opts.exported(cfg)
			whole.gw.Apply(exported)
			seen.apply(cfg, exported)
		},
	})
	if err != nil {
		return err
	}
	gw := gateway.Options{
		Tracker: e.Tracker(), Dial: env.Dial, Session: sessions, OnDown: gateway.OnDown(opts.onDown), Transparent: opts.instead && len(opts.Servers) == 1, CallTimeout: opts.callTimeout, Allow: opts.allow, Deny: opts.deny, Launch: env.Launch,
		Serve: mcpserver.Options{Name: "mcptrack-gateway", Title: "mcptrack gateway", Version: env.Version, Principal: seen.tokens.Principal, Tracer: g.Tracer(), Logger: log},
		Key:   opts.key(env, g, log),
	}
	data := opts.dataDir(env, g)
	of := gw
	of.Names, of.Verdicts, of.Called, of.Logger, of.Serve.SessionDir = names, e.Verdicts("").Set, stored.called, log, opts.SessionDir(data)
	if err := opts.build(whole, of); err != nil {
		return err
	}
	defer seen.end()
	seen.whole = whole
	seen.create = func(name string) (*view, error) {
		quiet := slog.New(slog.DiscardHandler) // the gateway for everything says the same
		v := &view{}
		var err error
		if v.guard, err = opts.guard(g, cfg, quiet, opts.set); err != nil {
			return nil, err
		}
		of := gw
		of.Logger, of.Serve.SessionDir = quiet, opts.sessionDir(data, name)
		of.Called = func(c calls.Call) {
			c.Client = name
			stored.called(c)
		}
		v.events = opts.events.forClient(stored, func() *gateway.Gateway { return v.gw })
		return v, opts.build(v, of)
	}
	seen.tokens.OnChange(func() {
		whole.gw.Server().EndSessions(seen.tokens.HoldsUnrestricted)
		stored.recheck()
	})
	opts.warn(log, cfg, stored)

	serving := func(ctx context.Context) error { return serveOneClient(ctx, env, whole.gw.Server()) }
	if !opts.Stdio {
		own := servercard.Own{Name: "mcptrack-gateway", Title: "mcptrack gateway", Description: "Several MCP servers at one endpoint, and their changes."}
		endpoint := cli.MCPEndpoint{Handler: seen, Card: own, Routes: stored.routes(env.Version, e, received, whole.gw.Server()), Tokens: seen.tokens, Ready: e.Log().Err, Closing: seen.close, Listening: func(url string) {
			g.Tell(env, "%s", served(whole.gw.Capabilities(), len(opts.exported(cfg).Servers)))
			g.Tell(env, "add it to Claude Code: %s", opts.ClaudeCode("mcptrack", url))
		}}
		if serving, err = opts.OverHTTP(ctx, env, log, endpoint); err != nil {
			return err
		}
	}
	ready := make(chan struct{}) // closed when every server was tried, or after --wait
	parts := append(stored.readers(), engine.Source(whole.run), engine.Source(seen.run), engine.Source(func(ctx context.Context) error {
		defer close(ready)
		wait, cancel := context.WithTimeout(ctx, opts.wait)
		defer cancel()
		if whole.gw.Settled(wait) == nil {
			opts.warnUnmatched(log, "", whole.gw)
		}
		for name, v := range seen.views() {
			if v.gw.Settled(wait) == nil {
				opts.warnUnmatched(log, name, v.gw)
			}
		}
		return nil
	}))
	return cli.WhileRunning(ctx, func(ctx context.Context) error { return e.Run(ctx, parts...) }, ready, serving)
}

// warn logs warnings about parts of the config that are not served.
func (o *options) warn(log *slog.Logger, cfg *config.Config, stored *eventLog) {
	exported := o.exported(cfg)
	if len(exported.Servers) == 0 {
		log.Warn("there is no server to serve yet", "file", cfg.Path, "hint", o.selection().Hint(cfg))
	}
	if len(cfg.Webhooks) > 0 && stored.fixed == nil {
		log.Warn("the webhooks in the config are ignored without --events")
	}
	if len(cfg.Clients) > 0 && o.Stdio {
		log.Warn("the clients in the config have no effect with --stdio, whose client sees everything")
	}
	if len(cfg.Hooks) > 0 && o.Stdio {
		log.Warn("the hooks in the config receive nothing with --stdio")
	}
	if left := o.leftOut(cfg, exported); len(exported.Servers) > 0 && len(left) > 0 {
		log.Warn("untracked servers are not served", "servers", strings.Join(left, ", "), "hint", "set \"trackResources\": true on them, or use --all")
	}
}

// served describes what the gateway offers to clients: items of how many of the servers. A server
// that is not ready offers nothing yet.
func served(view capindex.Capabilities, servers int) string {
	n, ready := map[catalog.Kind]int{}, 0
	for _, s := range view.Servers {
		switch event.State(s.State) {
		case event.Ready, event.Unsupported:
			ready++
		case "": // an HTTP catalog, which the tracker does not follow
			if len(s.Lists) > 0 {
				ready++
			}
		}
		for kind, list := range s.Lists {
			n[kind] += len(list)
		}
	}
	of := cli.Plural(servers, "server")
	if ready < servers {
		of = fmt.Sprintf("%d of %s; the others are not ready", ready, of)
	}
	return fmt.Sprintf("%s, %s, %s of %s", cli.Plural(n[catalog.Tools], "tool"), cli.Plural(n[catalog.Prompts], "prompt"),
		cli.Plural(n[catalog.Resources], "resource"), of)
}

// build creates the gateway and the index of a view.
func (o *options) build(v *view, of gateway.Options) (err error) {
	if v.index, err = o.indexFlags.start(func() capindex.Capabilities { return v.gw.Capabilities() }); err != nil {
		return err
	}
	of.Guard, of.Changed, of.Serve.Events = v.guard, v.index.Changed, v.events.handlers()
	of.Local, of.Serve.Instructions = v.events.local(v.index.Local())
	if v.gw, err = gateway.New(of); err != nil {
		v.index.Close()
	}
	return err
}

// warnUnmatched logs globs of the flags, or of a client, that match nothing, because a typo may expose or hide the
// wrong items.
func (o *options) warnUnmatched(log *slog.Logger, client string, gw *gateway.Gateway) {
	allow, deny := gw.Unmatched()
	for i, globs := range [][]string{allow, deny} {
		name := []string{"--allow", "--deny"}[i]
		if client != "" {
			ofFlags := [][]string{o.allow, o.deny}[i]
			globs = slices.DeleteFunc(globs, func(g string) bool { return slices.Contains(ofFlags, g) })
			name = fmt.Sprintf("%q of client %s", name[2:], client)
		}
		if len(globs) > 0 {
			log.Warn(name+" matches nothing that the servers currently list", "globs", cli.Join(globs, 10))
		}
	}
}

// keyFile is the name of the file, in the data directory, that contains the key for task ids.
const keyFile = "gateway.key"

// dataDir returns the data directory, or "" if nothing is stored. Without --data-dir, all gateways
// share one directory, and a demo stores nothing.
func (o *options) dataDir(env *cli.Env, g *cli.Globals) string {
	if g.Demo() {
		return o.events.Dir
	}
	return cmp.Or(o.events.Dir, env.GatewayDir())
}

// key returns the key for task ids. It is stored in the data directory, so that clients find their
// tasks after a restart. If no key can be stored, key returns nil, and this run uses its own key.
func (o *options) key(env *cli.Env, g *cli.Globals, log *slog.Logger) []byte {
	dir := o.dataDir(env, g)
	if dir == "" {
		return nil
	}
	var key []byte
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		key, err = secretfile.Key(filepath.Join(dir, keyFile))
	}
	if err != nil {
		log.Warn("clients cannot use their tasks after a restart of the gateway: the key for task ids cannot be stored", "err", err)
		return nil
	}
	return key
}

// config loads the initial config.
func (o *options) config(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger) (*config.Config, error) {
	if _, err := g.ConfigPath(env, log); o.catalogURL != "" && !g.Demo() && err != nil {
		return &config.Config{Path: cli.DefaultConfig}, nil // with --catalog-url no config is needed
	}
	cfg, err := g.Load(ctx, env, log)
	if err != nil {
		return nil, err
	}
	if _, taken := cfg.Server(catalogID); taken && o.catalogURL != "" {
		return nil, cli.Usage("--catalog-url adds a server named %q, but the config already has a server with that name", catalogID)
	}
	return cfg, nil
}

// lastAnswers limits how long calls may continue after the client has closed standard input.
const lastAnswers = 5 * time.Second

var errClientLeft = errors.New("the client disconnected")

// serveOneClient serves MCP on standard input and output until the client closes them.
func serveOneClient(ctx context.Context, env *cli.Env, server *mcpserver.Server) error {
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

// untilEnd is a reader that calls ended once, when its input ends.
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

// Close interrupts a blocked Read if the underlying reader supports that.
func (u *untilEnd) Close() error {
	if c, ok := u.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
