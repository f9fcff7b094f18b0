// Package gateway implements the gateway command, which serves all tracked servers through one MCP
// endpoint. The gateway itself is core/gateway.
//
//	gateway.go  the flags, and the service that they describe
//	view.go     a gateway for some of its clients: of the config, or everybody else
//	clients.go  the views of the clients of the config
//	events.go   what is stored: events, calls, and the webhooks that deliver events
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
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
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
	cli.MCPFlags
	cli.LockFlags
	cli.TrackFlags
	cli.Filter  // only its servers
	events      eventsFlags
	enforce     string // what is done about differences from the lock
	index       bool
	indexExpose []string
	indexTTL    time.Duration
	// catalogInterval is the time between checks of the --catalog-url.
	catalogInterval time.Duration
	onDown          string
	allow, deny     []string
	catalogURL      string
	callTimeout     time.Duration
	wait            time.Duration
	instead         bool // of the daemon, for a client of attach

	set func(flag string) bool // reports whether a flag was set
}

// Command returns the gateway command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:         "gateway",
		Short:       "Serve all tracked servers through one MCP endpoint",
		Annotations: cli.ManualPage("gateway"),
		Example: `  mcptrack gateway --demo
  mcptrack gateway --all --stdio
  mcptrack gateway --addr :8723 --token-file token --deny '*delete*'
  mcptrack gateway --all --server github --change-tools --stdio
  mcptrack gateway --all --events --index
  mcptrack gateway --catalog-url https://api.example

  # Serve nothing that differs from the lock
  mcptrack gateway --lock mcptrack.lock --enforce block`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.MCPFlags.Check(cmd); err != nil {
				return err
			}
			if err := opts.parse(cmd.Flags()); err != nil {
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
	cli.AddChoice(cmd, &opts.onDown, "on-down", "keep", "`ACTION` for items of a server that is down: keep or drop", "keep", "drop")
	f.StringArrayVar(&opts.allow, "allow", nil, "serve only names and URIs that match this `GLOB` (repeatable)")
	f.StringArrayVar(&opts.deny, "deny", nil, "do not serve names and URIs that match this `GLOB` (repeatable)")
	f.BoolVar(&opts.AllServers, "all", false, "serve all enabled servers, also those without a track key")
	opts.AddServers(cmd)
	_ = cmd.RegisterFlagCompletionFunc("server", cli.CompleteServers(env, g))
	opts.LockFlags.Add(cmd)
	cli.AddChoice(cmd, &opts.enforce, "enforce", string(lock.Hold), "`ACTION` for what differs from the lock: audit (report it), hold (serve what is approved) or block (serve nothing of the server)", enforcements()...)
	f.StringVar(&opts.catalogURL, "catalog-url", "", "`URL` of an HTTP API that describes its tools")
	f.BoolVar(&opts.index, "index", false, "also serve an index of all capabilities")
	// The config has these, too, so the help leaves them out.
	f.StringSliceVar(&opts.indexExpose, "index-expose", nil, "`NAMES` of the index documents to serve")
	f.DurationVar(&opts.indexTTL, "index-ttl", capindex.DefaultTTL, "`DURATION` for which a generated index is used")
	f.DurationVar(&opts.catalogInterval, "catalog-interval", config.DefaultCatalogInterval, "`DURATION` between checks for changes at the --catalog-url")
	for _, name := range []string{"index-expose", "index-ttl", "catalog-interval"} {
		_ = f.MarkHidden(name)
	}
	opts.events.add(cmd)
	f.DurationVar(&opts.callTimeout, "call-timeout", 10*time.Minute, "`DURATION` without progress after which a call fails")
	f.DurationVar(&opts.wait, "wait", 10*time.Second, "`DURATION` that the first client waits for servers")
	f.BoolVar(&opts.instead, "instead", false, "serve a client of attach without the daemon: leave out entries that run attach")
	_ = f.MarkHidden("instead")
	_ = f.MarkHidden("wait") // few clients start sooner than the servers
	g.AddDemo(cmd)
	g.AddApproved(cmd)
	_ = cmd.Flags().MarkHidden("approved") // only mcptrack-attach uses it, without a daemon
	opts.AddReload(cmd)
	opts.AddServing(cmd)
	cli.MainFlags(cmd, "stdio", "addr", "token-file", "all", "deny")
	return cmd
}

func enforcements() []string {
	return []string{string(lock.Audit), string(lock.Hold), string(lock.Block)}
}

func (o *options) parse(flags *pflag.FlagSet) error {
	o.set = flags.Changed
	err := cmp.Or(o.ConnectFlags.Parse(), o.Filter.Parse(), cli.OneOf("enforce", o.enforce, enforcements()...),
		cli.OneOf("on-down", o.onDown, string(gateway.Keep), string(gateway.Drop)), cli.Globs("--allow", o.allow), cli.Globs("--deny", o.deny))
	if err != nil {
		return err
	}
	if _, err := capindex.New(capindex.Options{Expose: o.indexExpose}); err != nil {
		return cli.Usage("--index-expose: %w", err)
	}
	if o.indexTTL <= 0 || o.catalogInterval <= 0 {
		return cli.Usage("--index-ttl and --catalog-interval must be positive")
	}
	if o.callTimeout <= 0 || o.wait < 0 {
		return cli.Usage("--call-timeout must be positive, and --wait not negative")
	}
	if o.catalogURL != "" {
		if _, err := upstream.New(upstream.FromConfig(o.catalog())); err != nil {
			return cli.Usage("--catalog-url: %w", err)
		}
	}
	return nil
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

// service is a gateway: one tracker and one log, and a view for each client of the config and for everything else.
type service struct {
	options
	env *cli.Env
	g   *cli.Globals
	log *slog.Logger
	cfg *config.Config // the initial one
	key []byte         // for task ids; nil if it cannot be stored

	record   *eventLog
	whole    *view // of everything
	clients  *clients
	engine   *engine.Engine
	received *hook.Receiver
}

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	defer cli.Ballast()()
	s := &service{options: opts, env: env, g: g, log: g.Logger(env)}
	if err := s.read(ctx); err != nil {
		return err
	}
	var err error
	if s.record, err = s.events.open(ctx, env, s.log, g.Demo(), s.clients.tokens); err != nil {
		return err
	}
	defer s.record.close()
	if err := s.create(ctx); err != nil {
		return err
	}
	defer s.clients.close()
	s.warn()
	serving := func(ctx context.Context) error { return serveOneClient(ctx, env, s.whole.gw.Server()) }
	if !s.Stdio {
		if serving, err = s.overHTTP(ctx); err != nil {
			return err
		}
	}
	ready := make(chan struct{}) // closed by settle
	parts := append(s.record.readers(), engine.Source(s.whole.run), engine.Source(s.clients.run), engine.Source(func(ctx context.Context) error {
		defer close(ready)
		return s.settle(ctx)
	}))
	if s.whole.reader != nil {
		parts = append(parts, engine.Reader(s.whole.read))
	}
	return cli.WhileRunning(ctx, func(ctx context.Context) error { return s.engine.Run(ctx, parts...) }, ready, serving)
}

// read reads the files of the gateway: the config, the tokens and the key for task ids.
func (s *service) read(ctx context.Context) (err error) {
	if s.cfg, err = s.config(ctx, s.env, s.g, s.log); err != nil {
		return err
	}
	if s.set("index") {
		s.cfg.Index.Enabled = s.index
	}
	if s.set("index-expose") {
		s.cfg.Index.Expose = s.indexExpose
	}
	if s.set("index-ttl") {
		s.cfg.Index.TTL = s.indexTTL
	}
	s.clients = &clients{logger: s.log, byName: map[string]*view{}, create: s.clientView}
	if !s.Stdio {
		if s.clients.tokens, err = s.Access.ClientTokens(s.log, s.Reloads(s.env, s.g)); err != nil {
			return err
		}
		s.clients.tokens.SetClients(tokensOf(s.cfg))
	}
	s.key = s.taskKey(s.env, s.g, s.log)
	return nil
}

// create creates what runs: the view of everything needs the engine's tracker, and the engine needs to know whether
// the view stores events. The views of clients follow when the engine applies the config.
func (s *service) create(ctx context.Context) (err error) {
	if s.whole, err = s.newView("", s.log); err != nil {
		return err
	}
	s.clients.whole = s.whole
	if s.catalogURL != "" && s.whole.guard.Lacks(catalogID) {
		return cli.UsageHint(`write it into the config: "`+catalogID+`": {"type": "catalog", "url": "URL"}; then run mcptrack lock `+catalogID+` and leave out --catalog-url`,
			"the lock does not have the API of --catalog-url, so nothing of it would be served")
	}
	if s.events.on {
		if err := s.events.openWebhooks(ctx, s.record, s.g.Tracer(), s.whole, s.clients.of, func(p event.Payload) { s.engine.Tracker().Publish(event.Event{Payload: p}) }); err != nil {
			return err
		}
	}
	names := &gateway.Names{}
	if err := s.newEngine(ctx, names); err != nil {
		return err
	}
	s.received = hook.NewReceiver(hook.Options{Deliver: s.engine.Receive, Logger: s.log})
	if err := s.build(s.whole, gateway.Options{Names: names, Verdicts: s.engine.Verdicts("").Set, Called: s.record.called, Logger: s.log}); err != nil {
		return err
	}
	s.clients.tokens.OnChange(func() {
		s.whole.gw.Server().EndSessions(s.clients.tokens.HoldsUnrestricted)
		s.record.recheck()
	})
	return nil
}

// newGuard opens the lock. It must exist if one of the flags was set.
func (s *service) newGuard(log *slog.Logger) (*guard.Guard, error) {
	return s.Guard(s.g, s.cfg, guard.Options{Required: s.set("enforce"), Enforce: lock.Action(s.enforce), Logger: log})
}

// newEngine creates the engine, which sets the names of items that the view of everything exports.
func (s *service) newEngine(ctx context.Context, names *gateway.Names) error {
	desired, err := s.Desired(s.env, s.g, s.log, s.cfg, s.exported)
	if err != nil {
		return err
	}
	opts := engine.Options{
		Tracker: tracker.Options{Dial: s.env.Dial, Session: s.SessionOptions(s.env, s.g), Logger: s.log, AllLists: true, Window: window, Texts: s.events.tools},
		Logger:  s.log, Listed: names.Listed, Applied: s.apply,
	}
	if s.events.NATS != "" {
		opts.Role = engine.Serves
	}
	if s.whole.reader != nil {
		opts.Exported, opts.Tracker.Card = names.Exported, servercard.Fetch
	}
	s.engine, err = engine.New(ctx, desired, s.record.log, opts)
	return err
}

// apply applies a new config to everything that the engine does not follow.
func (s *service) apply(cfg *config.Config) {
	s.record.apply(cfg)
	s.received.Apply(cfg.Hooks)
	exported := s.exported(cfg)
	s.whole.gw.Apply(exported)
	s.clients.apply(cfg, exported)
}

// overHTTP returns the function that serves all clients over HTTP.
func (s *service) overHTTP(ctx context.Context) (func(context.Context) error, error) {
	return s.OverHTTP(ctx, s.env, s.log, cli.MCPEndpoint{
		Handler: s.clients, Tokens: s.clients.tokens, Closing: s.clients.close, Ready: s.engine.Log().Err,
		Card:   servercard.Own{Name: "mcptrack-gateway", Title: "mcptrack gateway", Description: "Several MCP servers at one endpoint, and their changes."},
		Routes: s.record.routes(s.env.Version, s.engine, s.received, s.whole),
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
func (s *service) warn() {
	cfg, exported := s.cfg, s.exported(s.cfg)
	if len(exported.Servers) == 0 {
		s.log.Warn("there is no server to serve yet", "file", cfg.Path, "hint", s.selection().Hint(cfg))
	}
	if len(cfg.Webhooks) > 0 && s.record.fixed == nil {
		s.log.Warn("the webhooks in the config are ignored without --events")
	}
	if len(cfg.Clients) > 0 && s.Stdio {
		s.log.Warn("the clients in the config have no effect with --stdio, whose client sees everything")
	}
	if len(cfg.Hooks) > 0 && s.Stdio {
		s.log.Warn("the hooks in the config receive nothing with --stdio")
	}
	if left := s.leftOut(cfg, exported); len(exported.Servers) > 0 && len(left) > 0 {
		s.log.Warn("untracked servers are not served", "servers", strings.Join(left, ", "), "hint", "set \"trackResources\": true on them, or use --all")
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

// taskKey returns the key for task ids. It is stored in the data directory, so that clients find their
// tasks after a restart. If no key can be stored, it returns nil, and this run uses its own key.
func (o *options) taskKey(env *cli.Env, g *cli.Globals, log *slog.Logger) []byte {
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
