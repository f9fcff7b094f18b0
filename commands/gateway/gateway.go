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

// service is a gateway while it runs: one tracker and one log, and a view for each client of the config and for
// everything else. run sets all fields before anything runs that calls its methods.
type service struct {
	options
	env *cli.Env
	g   *cli.Globals
	log *slog.Logger
	cfg *config.Config // the initial one

	clients  *clients
	whole    *view // of everything
	events   *eventLog
	engine   *engine.Engine
	received *hook.Receiver
	common   gateway.Options // of all views
}

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) (err error) {
	s := &service{options: opts, env: env, g: g, log: g.Logger(env)}
	if s.cfg, err = s.config(ctx, env, g, s.log); err != nil {
		return err
	}
	defer cli.Ballast()()
	s.fromConfig(s.cfg.Index, s.set)
	s.whole = &view{}
	s.clients = &clients{logger: s.log, byName: map[string]*view{}, create: s.view, whole: s.whole}
	if s.whole.guard, err = s.guard(g, s.cfg, s.log, s.set); err != nil {
		return err
	}
	if s.catalogURL != "" && s.whole.guard.Lacks(catalogID) {
		return cli.UsageHint(`write it into the config: "`+catalogID+`": {"type": "catalog", "url": "URL"}; then run mcptrack lock `+catalogID+` and leave out --catalog-url`,
			"the lock does not have the API of --catalog-url, so nothing of it would be served")
	}
	if !s.Stdio {
		if s.clients.tokens, err = s.Access.ClientTokens(s.log, s.Reloads(env, g)); err != nil {
			return err
		}
		s.clients.tokens.SetClients(tokensOf(s.cfg))
	}
	s.events, err = s.options.events.open(ctx, env, s.log, g.Tracer(), g.Demo(), s.clients.tokens, func() *gateway.Gateway { return s.whole.gw }, s.clients.events)
	if err != nil {
		return err
	}
	defer s.events.close()
	s.whole.events = s.events
	s.received = hook.NewReceiver(hook.Options{Deliver: func(d hook.Delivery) { s.engine.Receive(d) }, Logger: s.log})
	names := &gateway.Names{}
	if err := s.newEngine(ctx, names); err != nil {
		return err
	}
	s.common = gateway.Options{
		Tracker: s.engine.Tracker(), Dial: env.Dial, Session: s.SessionOptions(env, g), OnDown: gateway.OnDown(s.onDown), Transparent: s.instead && len(s.Servers) == 1, CallTimeout: s.callTimeout, Allow: s.allow, Deny: s.deny, Launch: env.Launch,
		Serve: mcpserver.Options{Name: "mcptrack-gateway", Title: "mcptrack gateway", Version: env.Version, Principal: s.clients.tokens.Principal, Tracer: g.Tracer(), Logger: s.log},
		Key:   s.key(env, g, s.log),
	}
	of := s.common
	of.Names, of.Verdicts, of.Called, of.Logger, of.Serve.SessionDir = names, s.engine.Verdicts("").Set, s.events.called, s.log, s.SessionDir(s.dataDir(env, g))
	if err := s.build(s.whole, of); err != nil {
		return err
	}
	defer s.clients.end()
	s.clients.tokens.OnChange(func() {
		s.whole.gw.Server().EndSessions(s.clients.tokens.HoldsUnrestricted)
		s.events.recheck()
	})
	s.warn(s.log, s.cfg, s.events)
	serving := func(ctx context.Context) error { return serveOneClient(ctx, env, s.whole.gw.Server()) }
	if !s.Stdio {
		if serving, err = s.overHTTP(ctx); err != nil {
			return err
		}
	}
	ready := make(chan struct{}) // closed by settle
	parts := append(s.events.readers(), engine.Source(s.whole.run), engine.Source(s.clients.run), engine.Source(func(ctx context.Context) error {
		defer close(ready)
		return s.settle(ctx)
	}))
	return cli.WhileRunning(ctx, func(ctx context.Context) error { return s.engine.Run(ctx, parts...) }, ready, serving)
}

// newEngine creates the engine, which sets the names of items that the view of everything exports.
func (s *service) newEngine(ctx context.Context, names *gateway.Names) error {
	desired, err := s.Desired(s.env, s.g, s.log, s.cfg, s.exported)
	if err != nil {
		return err
	}
	opts := engine.Options{
		Tracker: tracker.Options{Dial: s.env.Dial, Session: s.SessionOptions(s.env, s.g), Logger: s.log, AllLists: true, Window: window, Texts: s.options.events.tools},
		Logger:  s.log, Listed: names.Listed, Applied: s.apply,
	}
	if s.options.events.NATS != "" {
		opts.Role = engine.Serves
	}
	if s.events.reader != nil {
		opts.Exported, opts.Tracker.Card = names.Exported, servercard.Fetch
	}
	s.engine, err = engine.New(ctx, desired, s.events.log, opts)
	return err
}

// apply applies a new config to everything that the engine does not follow.
func (s *service) apply(cfg *config.Config) {
	s.events.apply(cfg)
	s.received.Apply(cfg.Hooks)
	exported := s.exported(cfg)
	s.whole.gw.Apply(exported)
	s.clients.apply(cfg, exported)
}

// view creates the view of a client. It logs nothing that the view of everything says, too.
func (s *service) view(client string) (v *view, err error) {
	quiet := slog.New(slog.DiscardHandler)
	v = &view{}
	if v.guard, err = s.guard(s.g, s.cfg, quiet, s.set); err != nil {
		return nil, err
	}
	of := s.common
	of.Logger, of.Serve.SessionDir = quiet, s.sessionDir(s.dataDir(s.env, s.g), client)
	of.Called = func(c calls.Call) {
		c.Client = client
		s.events.called(c)
	}
	v.events = s.options.events.forClient(s.events, func() *gateway.Gateway { return v.gw })
	return v, s.build(v, of)
}

// overHTTP returns the function that serves all clients over HTTP.
func (s *service) overHTTP(ctx context.Context) (func(context.Context) error, error) {
	return s.OverHTTP(ctx, s.env, s.log, cli.MCPEndpoint{
		Handler: s.clients, Tokens: s.clients.tokens, Closing: s.clients.close, Ready: s.engine.Log().Err,
		Card:   servercard.Own{Name: "mcptrack-gateway", Title: "mcptrack gateway", Description: "Several MCP servers at one endpoint, and their changes."},
		Routes: s.events.routes(s.env.Version, s.engine, s.received, s.whole.gw.Server()),
		Listening: func(url string) {
			s.g.Tell(s.env, "%s", served(s.whole.gw.Capabilities(), len(s.exported(s.cfg).Servers)))
			s.g.Tell(s.env, "add it to Claude Code: %s", s.ClaudeCode("mcptrack", url))
		},
	})
}

// settle waits until every server was tried, or for --wait, and warns about globs that match nothing.
func (s *service) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	if s.whole.gw.Settled(ctx) == nil {
		s.warnUnmatched(s.log, "", s.whole.gw)
	}
	for name, v := range s.clients.views() {
		if v.gw.Settled(ctx) == nil {
			s.warnUnmatched(s.log, name, v.gw)
		}
	}
	return nil
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
