package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/web"
)

type serveOptions struct {
	connectFlags
	journalFlags
	addr         string
	tokenFile    string
	origins      []string
	durability   string
	retain       string
	retainBytes  string
	maxClients   int
	demo         bool
	follow       bool
	holdCommands bool

	keep journal.Options // what durability, retain and retainBytes say
}

func newServeSSE(env *Env, g *globals) *cobra.Command {
	var opts serveOptions
	cmd := &cobra.Command{
		Use:   "serve-sse",
		Short: "Serve the events over HTTP, with history, a dashboard and metrics",
		Long: `Follows all tracked servers of the config, as watch does, and serves what happens:

  /                              the dashboard
  /events                        every event as server-sent events; ?server= ?type= ?uri=
                                 filter (globs), Last-Event-ID or ?since= resumes
  /api/mcp/resource-events       the feed of resource updates in the VibeChat form
  /api/status, /api/servers      what is known now, as JSON
  /metrics, /healthz, /readyz    for Prometheus and for probes

Events are stored before anybody sees them: a client that comes back with the last
id it saw misses nothing, also after a restart or a crash of mcptrack. The address
is a loopback one unless a token protects it.

With --nats several processes serve one feed with the same ids, and share the
servers: each is followed by one of them, and taken over by another within 10 s
when that one dies. Clients may reconnect to any of them. With --follow a process
reads no config and follows no server: it serves what the others store.

Exit codes: 0 stopped; 1 failed (address taken, data directory in use); 2 wrong
usage; 3 config invalid or missing.`,
		Example: `  mcptrack serve-sse --demo
  mcptrack serve-sse --config mcp-servers.json --retain 30d
  curl -N 'http://127.0.0.1:8722/events?type=resource.updated'
  mcptrack serve-sse --addr 0.0.0.0:8722 --token-file token --allow-origin https://dash.example
  mcptrack serve-sse --nats nats://nats-1:4222,nats://nats-2:4222 --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.check(); err != nil {
				return err
			}
			return runServeSSE(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.addr, "addr", "127.0.0.1:8722", "`ADDRESS` to listen on; port 0 picks one")
	f.StringVar(&opts.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token that clients must present")
	f.StringArrayVar(&opts.origins, "allow-origin", nil, "`ORIGIN` of a site whose pages may read from here (repeatable)")
	opts.journalFlags.add(cmd)
	f.StringVar(&opts.durability, "durability", "always", "`WHEN` an event counts as stored: always, interval or os")
	f.StringVar(&opts.retain, "retain", "7d", "`TIME` that events are kept")
	f.StringVar(&opts.retainBytes, "retain-bytes", "1GiB", "`BYTES` of events that are kept")
	f.IntVar(&opts.maxClients, "max-clients", 2000, "`NUMBER` of event streams at a time; further clients are told to come back")
	f.BoolVar(&opts.demo, "demo", false, "follow a built-in server whose resources change; events are not kept")
	f.BoolVar(&opts.follow, "follow", false, "with --nats: only serve what other processes store")
	f.BoolVar(&opts.holdCommands, "no-exec-on-reload", false, "do not start new or changed commands of the config before SIGHUP")
	f.DurationVar(&opts.connectTimeout, "connect-timeout", 15*time.Second, "`TIME` that one connection may take")
	f.StringToStringVar(&opts.limit, "limit", nil, limitHelp)
	_ = cmd.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"always", "interval", "os"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

func (o *serveOptions) check() (err error) {
	if err = o.connectFlags.check(); err != nil {
		return err
	}
	o.keep.Durability = journal.Durability(o.durability)
	if o.keep.Durability != journal.Always && o.keep.Durability != journal.Interval && o.keep.Durability != journal.OS {
		return usage("unknown --durability %q; choose always, interval or os", o.durability)
	}
	if o.follow && (o.nats == "" || o.demo) {
		return usage("--follow serves what others store: it needs --nats and excludes --demo")
	}
	if o.maxClients < 1 {
		return usage("--max-clients %d: at least 1", o.maxClients)
	}
	if o.keep.Retain, err = parseAge(o.retain); err != nil {
		return err
	}
	o.keep.RetainBytes, err = parseBytes(o.retainBytes)
	return err
}

// otherConns is how many connections may be open beside streams: scrapers, probes,
// dashboards, and clients too many that are told so.
const otherConns = 2096

// server makes the HTTP server and its listener; wrong options are wrong usage.
func (o *serveOptions) server(ctx context.Context, log *slog.Logger, ready func() error) (*web.Server, io.Closer, func(context.Context) error, error) {
	var token web.Token
	var err error
	if o.tokenFile != "" {
		if token, err = web.LoadToken(o.tokenFile); err != nil {
			return nil, nil, nil, webFailure(err)
		}
	}
	s, err := web.New(web.Options{Token: token, Origins: o.origins, Ready: ready, MaxConns: o.maxClients + otherConns, Logger: log})
	if err != nil {
		return nil, nil, nil, webFailure(err)
	}
	ln, err := s.Listen(ctx, o.addr)
	if err != nil {
		return nil, nil, nil, webFailure(err)
	}
	return s, ln, func(ctx context.Context) error { return s.Serve(ctx, ln) }, nil
}

func webFailure(err error) error {
	if _, ok := errors.AsType[*web.OptionError](err); ok {
		return usage("--%w", err)
	}
	return err
}

func runServeSSE(ctx context.Context, env *Env, g *globals, opts serveOptions) error {
	log := g.logger(env)
	cfg := demoConfig(env)
	switch {
	case opts.follow:
		cfg = &config.Config{}
	case !opts.demo:
		var err error
		if cfg, err = g.load(env, log); err != nil {
			return err
		}
	}
	f := &feed{log: log}
	s, ln, serve, err := opts.server(ctx, log, f.ready)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	if err := f.open(ctx, env, &opts); err != nil {
		return err
	}
	defer f.close()
	if err := f.refresh(ctx); err != nil {
		return err
	}
	f.tracker = tracker.New(tracker.Options{
		Dial: env.Dial, Session: opts.session(env, g), Logger: log, Texts: true,
		Baseline: f.baseline,
	})
	if opts.nats != "" && !opts.follow {
		f.share = &sharing{journal: f.journal, log: log, apply: f.tracker.Apply, gained: func(ctx context.Context) {
			if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
				log.Warn("cannot learn what was told by others", "err", err)
			}
		}}
		f.tracker.Apply(&config.Config{Path: cfg.Path}) // until leases are held
	}
	f.want(cfg)
	f.routes(s, env.Version, opts.maxClients)
	fmt.Fprintf(env.Err, "listening on %s\n", s.URL())

	var beside []func(context.Context) error
	if !opts.demo && !opts.follow {
		beside = append(beside, followConfig(env, cfg, opts.holdCommands, f.tracker, f.want, log))
	}
	return f.run(ctx, serve, beside)
}

// tracked is the part of a config that is to be followed.
func tracked(cfg *config.Config) *config.Config { return watchOptions{}.tracked(cfg) }
