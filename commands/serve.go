package commands

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/web"
)

type serveOptions struct {
	connectFlags
	journalFlags
	retentionFlags
	access      accessFlags
	addr        string
	keepContent string
	noContent   bool
	maxClients  int
	trackFlags
	follow    bool
	publicURL string
}

func newServeSSE(env *Env, g *globals) *cobra.Command {
	var opts serveOptions
	cmd := &cobra.Command{
		Use:   "serve-sse",
		Short: "Serve events over HTTP, with history, dashboard and metrics",
		Long: `Follows all tracked servers of the config, as watch does, and serves their events:

  /                            the dashboard
  /events                      every event as server-sent events; filter (globs)
                               by ?server= ?type= ?uri=, resume by Last-Event-ID
                               or ?since=
  /api/mcp/resource-events     the feed of resource updates in the VibeChat form
  /api/status, /api/servers    the current state, as JSON
  /metrics, /healthz, /readyz  for Prometheus and for probes

Events are stored before they are sent: a client that reconnects with the last id it
saw misses nothing, even after a restart or a crash of mcptrack. Text versions of the
followed resources are kept too, for the dashboard, history and diff, except those that
hold a secret of the config. The address must be a loopback address unless a token
protects it.

With --nats several processes serve one feed with the same ids, and share the
servers: each is followed by one process, and taken over by another within 10 s
when that process dies. Clients may reconnect to any of them. With --follow a process
reads no config and connects to no server: it serves the events that the others store.

Exit codes: 0 stopped; 1 failed (address taken, data directory in use); 2 wrong
usage; 3 config invalid or missing.`,
		Example: `  mcptrack serve-sse --demo
  mcptrack serve-sse --config mcp-servers.json --retain 30d
  curl -N 'http://127.0.0.1:8722/events?type=resource.updated'
  mcptrack serve-sse --addr :8722 --token-file token
  mcptrack serve-sse --nats nats://nats-1:4222,nats://nats-2:4222 --follow

  # Reached by servers that send their events by webhook
  mcptrack serve-sse --token-file token --public-url https://hooks.example`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.noContent && cmd.Flags().Changed("keep-content") {
				return usage("--keep-content cannot be used with --no-content")
			}
			if err := opts.parse(); err != nil {
				return err
			}
			return runServeSSE(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.addr, "addr", "127.0.0.1:8722", "`ADDRESS` to listen on; port 0 picks one")
	opts.access.add(cmd, "clients", "read from here")
	opts.journalFlags.add(cmd)
	opts.retentionFlags.add(cmd)
	f.StringVar(&opts.keepContent, "keep-content", "256MiB", "`BYTES` of text versions that are kept for history and diff; the oldest go first")
	f.BoolVar(&opts.noContent, "no-content", false, "keep no text versions, and remove those in the data directory")
	f.IntVar(&opts.maxClients, "max-clients", 2000, "largest `NUMBER` of event streams at a time; further clients must retry later")
	addAllFlag(cmd, &opts.allServers)
	f.BoolVar(&opts.demo, "demo", false, "follow a built-in server whose resources change; events are not kept")
	f.BoolVar(&opts.follow, "follow", false, "with --nats: only serve what other processes store")
	f.StringVar(&opts.publicURL, "public-url", "", "`URL` (https://HOST[:PORT]) at which servers reach this one, to receive their events by webhook")
	f.BoolVar(&opts.holdCommands, "no-exec-on-reload", false, "do not start new or changed commands of the config before SIGHUP")
	f.DurationVar(&opts.connectTimeout, "connect-timeout", 15*time.Second, "`DURATION` that one connection may take")
	opts.addLimit(f)
	return cmd
}

func (o *serveOptions) parse() (err error) {
	if err = o.connectFlags.parse(); err != nil {
		return err
	}
	if err = o.access.check(); err != nil {
		return err
	}
	if o.follow && (o.nats == "" || o.demo) {
		return usage("--follow requires --nats and cannot be used with --demo")
	}
	if o.publicURL != "" {
		if err = standardwebhooks.CheckOrigin(o.publicURL); err != nil {
			return usage("--public-url: %w", err)
		}
		if o.access.tokenFile == "" && !strings.HasPrefix(strings.ToLower(o.publicURL), "http:") {
			return usageHint("add --token-file", "--public-url requires --token-file: a proxy may make more than the webhook path reachable")
		}
		if o.follow {
			return usage("--public-url cannot be used with --follow, which follows no server")
		}
	}
	if o.maxClients < 1 {
		return usage("invalid --max-clients %d; expected at least 1", o.maxClients)
	}
	if err = o.retentionFlags.parse(); err != nil || o.noContent {
		return err
	}
	o.keep.content, err = storedBytes("keep-content", o.keepContent)
	return err
}

// otherConns is how many connections may be open in addition to streams: scrapers,
// probes, dashboards, and clients that are refused.
const otherConns = 2096

// server makes the HTTP server and its listener. Invalid options are usage errors.
func (o *serveOptions) server(ctx context.Context, env *Env, log *slog.Logger, ready func() error) (*web.Server, io.Closer, func(context.Context) error, error) {
	tokens, err := o.access.tokens(log, o.reloads(env))
	if err != nil {
		return nil, nil, nil, err
	}
	access, err := o.access.options(log, tokens)
	if err != nil {
		return nil, nil, nil, err
	}
	if o.publicURL != "" { // as of a reverse proxy
		access.Origins = append(slices.Clone(access.Origins), o.publicURL)
	}
	access.Ready, access.MaxConns = ready, o.maxClients+otherConns
	s, err := web.New(access)
	if err != nil {
		return nil, nil, nil, webFailure(err)
	}
	ln, err := s.Listen(ctx, o.addr)
	if err != nil {
		return nil, nil, nil, webFailure(err)
	}
	return s, ln, func(ctx context.Context) error { return s.Serve(ctx, ln) }, nil
}

// receiverFile is the file with the key of the receiver of webhooks, in the data directory.
const receiverFile = "webhook-receiver.key"

// receiver makes the receiver of webhooks, nil without --public-url. Its key is kept where
// the events of one process are; else servers get another URL after a crash, and what they
// have of the one before ends there by its time.
func (o *serveOptions) receiver(env *Env) (*standardwebhooks.Receiver, error) {
	if o.publicURL == "" {
		return nil, nil
	}
	dir := o.dir
	if dir == "" && !o.demo {
		dir = env.stateDir()
	}
	key := standardwebhooks.NewKey()
	if o.nats == "" && dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		var err error
		if key, err = standardwebhooks.LoadKey(filepath.Join(dir, receiverFile)); err != nil {
			return nil, err
		}
	}
	return standardwebhooks.NewReceiver(o.publicURL, key), nil
}

func runServeSSE(ctx context.Context, env *Env, g *globals, opts serveOptions) error {
	kept := serverlog.New()
	log := slog.New(slog.NewMultiHandler(g.logger(env).Handler(), kept))
	cfg := demoConfig(env)
	switch {
	case opts.follow:
		cfg = &config.Config{}
		opts.noFollow = true
	case !opts.demo:
		var err error
		if cfg, err = g.load(ctx, env, log); err != nil {
			return err
		}
	}
	// The address comes first: a start that fails because it is in use does not touch the log.
	var f *served
	s, ln, serve, err := opts.server(ctx, env, log, func() error { return f.engine.Ready() })
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	receiver, err := opts.receiver(env)
	if err != nil {
		return err
	}
	picked := selection{all: opts.allServers}
	desired, err := opts.desired(env, g, log, cfg, picked.of)
	if err != nil {
		return err
	}
	f, err = openFeed(ctx, env, log, opts, desired, tracker.Options{Dial: env.Dial, Session: opts.session(env, g), Logger: log, Texts: true, Webhooks: receiver})
	if err != nil {
		return err
	}
	defer f.close()
	f.lines = kept.Lines
	if !opts.follow && len(picked.of(cfg).Servers) == 0 {
		picked.warnNone(log, cfg)
	}
	if receiver != nil {
		s.Handle(standardwebhooks.Path, web.Open{Handler: receiver, MaxBody: standardwebhooks.MaxBody + 1})
		s.Handle(standardwebhooks.WellKnown, web.Open{Handler: http.HandlerFunc(receiver.Describe)})
	}
	parts := append(f.routes(s, env.Version, opts.maxClients), engine.Reader(serve))
	fmt.Fprintf(env.Err, "listening on %s\n", s.URL())
	return f.engine.Run(ctx, parts...)
}
