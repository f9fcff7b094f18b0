// Package serve implements the serve-sse command, which stores events and serves them over HTTP,
// with the dashboard, metrics and the webhooks in the config.
package serve

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/records"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/feed"
	"github.com/mcptrack/mcptrack/output/metrics"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/web"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// Manual contains the help pages of this package, as Markdown.
//
//go:embed *.md
var Manual embed.FS

type options struct {
	cli.ConnectFlags
	cli.JournalFlags
	cli.RetentionFlags
	access      cli.AccessFlags
	addr        string
	keepContent string
	noContent   bool
	maxClients  int
	cli.TrackFlags
	cli.LockFlags
	follow    bool
	publicURL string
	dashboard string // URL for links
}

// Command returns the serve-sse command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "serve-sse",
		Short: "Serve events over HTTP, with history, dashboard and metrics",
		Long: `Follows all tracked servers in the config, as watch does, and serves their events:

  /                            the dashboard
  /events                      every event as server-sent events; filter (globs)
                               by ?server= ?type= ?uri=, resume by Last-Event-ID
                               or ?since=
  /api/mcp/resource-events     the feed of resource updates in the VibeChat form
  /api/status, /api/servers    the current state, as JSON
  /metrics, /healthz, /readyz  for Prometheus and for probes
  /hooks/ID                    incoming webhooks; see mcptrack help hooks

Events are stored before they are sent: a client that reconnects with the last id it
received misses nothing, even after a restart or a crash of mcptrack. Text versions of the
followed resources are also kept, for the dashboard, history and diff, unless they contain
a secret from the config. On a terminal, the address of the dashboard and the number of
followed servers are printed. The address must be a loopback address unless a token protects it.

If mcptrack.lock is beside the config, or --lock names a lock file, what differs from it is
an event too, once for each change; see mcptrack help events.

With --nats several processes serve one feed with the same ids and share the servers: one
process follows each server, and another takes over within 10 s if that process dies.
Clients can reconnect to any of them. With --follow a process reads no config and connects
to no server: it serves the events that the others store.`,
		Example: `  mcptrack serve-sse --demo
  mcptrack serve-sse --config mcp-servers.json --retain 30d
  curl -N 'http://127.0.0.1:8722/events?type=resource.updated'
  mcptrack serve-sse --addr :8722 --token-file token
  mcptrack serve-sse --nats nats://nats-1:4222,nats://nats-2:4222 --follow

  # Let servers send their events by webhook
  mcptrack serve-sse --token-file token --public-url https://hooks.example`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.noContent && cmd.Flags().Changed("keep-content") {
				return cli.Usage("--keep-content cannot be used with --no-content")
			}
			if opts.follow && cmd.Flags().Changed("lock") {
				return cli.Usage("--lock cannot be used with --follow, which follows no server")
			}
			if err := opts.parse(g); err != nil {
				return err
			}
			return run(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.addr, "addr", "127.0.0.1:8722", "`ADDRESS` or port to listen on; port 0 selects a free port")
	opts.access.Add(cmd, "clients", "read from here")
	opts.JournalFlags.Add(cmd)
	opts.RetentionFlags.Add(cmd)
	opts.LockFlags.Add(cmd)
	f.StringVar(&opts.keepContent, "keep-content", "256MiB", "`BYTES` of text versions that are kept for history and diff; the oldest are removed first")
	f.BoolVar(&opts.noContent, "no-content", false, "keep no text versions, and remove those in the data directory")
	f.IntVar(&opts.maxClients, "max-clients", 2000, "maximum `NUMBER` of open event streams; further clients must retry later")
	cli.AddAllFlag(cmd, &opts.AllServers)
	g.AddDemo(cmd)
	f.BoolVar(&opts.follow, "follow", false, "with --nats: only serve the events that other processes store")
	f.StringVar(&opts.publicURL, "public-url", "", "`URL` (https://HOST[:PORT]) at which servers reach this process, to receive their events by webhook")
	f.StringVar(&opts.dashboard, "dashboard-url", "", "`URL` (https://HOST[:PORT]) at which people open the dashboard, for links in Slack messages (default: --public-url)")
	f.BoolVar(&opts.HoldCommands, "no-exec-on-reload", false, "do not start new or changed commands in the config before SIGHUP")
	opts.AddServing(cmd)
	return cmd
}

func (o *options) parse(g *cli.Globals) (err error) {
	if err = o.ConnectFlags.Parse(); err != nil {
		return err
	}
	if err = o.access.Check(); err != nil {
		return err
	}
	if o.follow && (o.NATS == "" || g.Demo()) {
		return cli.Usage("--follow requires --nats and cannot be used with --demo")
	}
	if o.publicURL != "" {
		if err = standardwebhooks.CheckOrigin(o.publicURL); err != nil {
			return cli.Usage("--public-url: %w", err)
		}
		if o.access.TokenFile == "" && !strings.HasPrefix(strings.ToLower(o.publicURL), "http:") {
			return cli.UsageHint("add --token-file", "--public-url requires --token-file: a proxy may make more than the webhook path reachable")
		}
		if o.follow {
			return cli.Usage("--public-url cannot be used with --follow, which follows no server")
		}
	}
	if o.dashboard != "" {
		if err = web.CheckOrigin("dashboard-url", o.dashboard); err != nil {
			return cli.Usage("--%w", err)
		}
		if o.follow {
			return cli.Usage("--dashboard-url cannot be used with --follow, which sends no webhooks")
		}
	}
	if o.maxClients < 1 {
		return cli.Usage("invalid --max-clients %d; expected at least 1", o.maxClients)
	}
	if err = o.RetentionFlags.Parse(); err != nil || o.noContent {
		return err
	}
	o.Keep.Content, err = cli.StoredBytes("keep-content", o.keepContent)
	return err
}

// otherConns limits the number of open connections in addition to streams: scrapers, probes,
// dashboards, and rejected clients.
const otherConns = 2096

// server creates the HTTP server and its listener. Invalid options are usage errors.
func (o *options) server(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger, ready func() error) (*web.Server, net.Listener, error) {
	tokens, err := o.access.Tokens(log, o.Reloads(env, g))
	if err != nil {
		return nil, nil, err
	}
	return o.access.Listen(ctx, log, tokens, o.addr, func(w *web.Options) {
		for _, url := range []string{o.publicURL, o.dashboard} { // the public address of a reverse proxy
			if url != "" {
				w.Origins = append(slices.Clone(w.Origins), url)
			}
		}
		w.Ready, w.MaxConns = ready, o.maxClients+otherConns
	})
}

// receiverFile is the name of the file, in the data directory, that contains the key of the webhook
// receiver.
const receiverFile = "webhook-receiver.key"

// receiver creates the webhook receiver, or returns nil without --public-url. Its key is stored in
// the data directory if there is one and no cluster is used. Without a stored key, servers receive
// a new URL after a restart, and their old subscriptions expire.
func (o *options) receiver(env *cli.Env, g *cli.Globals) (*standardwebhooks.Receiver, error) {
	if o.publicURL == "" {
		return nil, nil
	}
	dir := o.Dir
	if dir == "" && !g.Demo() {
		dir = env.StateDir()
	}
	key := standardwebhooks.NewKey()
	if o.NATS == "" && dir != "" {
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

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	kept := serverlog.New()
	log := slog.New(slog.NewMultiHandler(g.Logger(env).Handler(), kept))
	cfg := &config.Config{}
	if opts.follow {
		opts.NoFollow = true
	} else {
		var err error
		if cfg, err = g.Load(ctx, env, log); err != nil {
			return err
		}
	}
	// Listen first: if the address is in use, the log is not opened.
	var f *feedServer
	s, ln, err := opts.server(ctx, env, g, log, func() error { return f.engine.Ready() })
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	receiver, err := opts.receiver(env, g)
	if err != nil {
		return err
	}
	picked := cli.Selection{All: opts.AllServers}
	desired, err := opts.Desired(env, g, log, cfg, picked.Of)
	if err != nil {
		return err
	}
	var lock *engine.Lock
	if !opts.follow {
		if lock, err = opts.LockFlags.Open(env, g, cfg, log); err != nil {
			return err
		}
	}
	received := hook.NewReceiver(hook.Options{Deliver: func(d hook.Delivery) { f.engine.Receive(d) }, Next: next(receiver), Logger: log})
	f, err = openServer(ctx, env, g, log, opts, received, desired, lock, tracker.Options{Dial: env.Dial, Session: opts.SessionOptions(env, g), Logger: log, Texts: true, Webhooks: receiver, Card: servercard.Fetch})
	if err != nil {
		return err
	}
	defer f.close()
	f.lines = kept.Lines
	f.calls = func(ctx context.Context, q calls.Query) ([]calls.Call, error) { return f.called(ctx, env, q) }
	if !opts.follow {
		_ = picked.Check(cfg, log, true) // with wait set, Check only warns
	}
	if !opts.follow {
		s.Handle(hook.Path, cli.HookRoute(received))
	}
	if receiver != nil {
		s.Handle(standardwebhooks.WellKnown, web.Open{Handler: http.HandlerFunc(receiver.Describe)})
	}
	parts := append(f.routes(s, env.Version, opts.maxClients), engine.Reader(func(ctx context.Context) error { return s.Serve(ctx, ln) }))
	fmt.Fprintf(env.Err, "listening on %s\n", s.URL())
	opts.introduce(env, g, s.URL(), cfg, len(picked.Of(cfg).Servers))
	return f.engine.Run(ctx, parts...)
}

// next returns the handler for the messages that are for no hook: the events of servers.
func next(r *standardwebhooks.Receiver) http.Handler {
	if r == nil {
		return nil
	}
	return r
}

// introduce says on a terminal where the dashboard is, and how many servers are followed.
func (o *options) introduce(env *cli.Env, g *cli.Globals, url string, cfg *config.Config, followed int) {
	login := ""
	if o.access.TokenFile != "" {
		login = "; log in with the token in " + printable.Line(o.access.TokenFile, 200)
	}
	g.Tell(env, "dashboard: %s/%s", url, login)
	if o.follow {
		g.Tell(env, "following no server; other processes follow them and store the events")
		return
	}
	g.Tell(env, "following %d of %s", followed, cli.Plural(len(cfg.Servers), "server"))
}

// feedServer is an engine with an event log and the components that serve the log.
type feedServer struct {
	logger   *slog.Logger
	log      journal.Log
	engine   *engine.Engine
	calls    func(context.Context, calls.Query) ([]calls.Call, error)
	lines    func(server string) []serverlog.Line // returns the log lines for a server
	webhooks *webhook.Webhooks                    // nil with --follow
	hooks    *hook.Receiver                       // receives incoming webhooks; has none with --follow
	review   *dashboard.Review                    // nil if there cannot be a lock file
}

// openServer opens the log that the options specify, or a log in memory for a demo.
func openServer(ctx context.Context, env *cli.Env, g *cli.Globals, logger *slog.Logger, opts options, received *hook.Receiver, desired engine.Desired, lock *engine.Lock, t tracker.Options) (*feedServer, error) {
	f := &feedServer{logger: logger, hooks: received}
	if g.Demo() && opts.Dir == "" && opts.NATS == "" {
		f.log = journal.NewMemory(cli.MemoryLog(opts.Keep.Content))
	} else {
		var err error
		if f.log, err = opts.JournalFlags.Open(ctx, env, logger, opts.Keep); err != nil {
			return nil, err
		}
	}
	role := engine.Alone
	switch {
	case opts.follow:
		role = engine.Watches
	case opts.NATS != "":
		role = engine.Shares
	}
	var err error
	f.engine, err = engine.New(ctx, desired, f.log, engine.Options{
		Tracker: t, Lock: lock, Role: role, Logger: logger,
		Applied: func(cfg *config.Config) {
			if f.webhooks != nil {
				f.webhooks.Apply(cfg.Webhooks)
			}
			received.Apply(cfg.Hooks)
		},
	})
	if err == nil && lock != nil {
		f.review = &dashboard.Review{Guard: lock.Guard, Changes: f.engine.LockChanges}
	}
	var stored records.Store
	if err == nil && !opts.follow {
		stored, err = webhook.OpenRecords(f.log)
	}
	if err == nil && !opts.follow {
		sender := webhook.NewSender(nil)
		sender.Tracer = g.Tracer()
		f.webhooks = webhook.NewWebhooks(webhook.WebhookOptions{
			Log: f.log, Records: stored, Reader: mcpevents.NewReader(f.log, mcpevents.Scope{}), Sender: sender, Follow: true, Logger: logger,
			Dashboard: strings.TrimSuffix(cmp.Or(opts.dashboard, opts.publicURL), "/"),
		})
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *feedServer) close() {
	if err := f.log.Close(); err != nil {
		f.logger.Warn("cannot store the last events", "err", err)
	}
}

// called returns the newest calls that a query selects, which clients made through the daemon or a gateway of
// this user to servers that are followed here.
func (f *feedServer) called(ctx context.Context, env *cli.Env, q calls.Query) ([]calls.Call, error) {
	logs, err := cli.OpenCalls(ctx, env, f.logger)
	if err != nil {
		return nil, err
	}
	defer logs.Close()
	list, err := logs.Newest(ctx, q)
	followed := f.engine.Servers()
	return slices.DeleteFunc(list, func(c calls.Call) bool {
		return !slices.ContainsFunc(followed, func(s status.Summary) bool { return s.ID == c.ServerID })
	}), err
}

// routes registers the HTTP routes, and returns the engine parts that they require.
func (f *feedServer) routes(s *web.Server, version string, maxClients int) []engine.Part {
	t := f.engine.Tracker()
	var served *api.API
	var webhooks func(*http.Request) []webhook.EndpointStatus
	var deliveries func() []webhook.Deliverer
	var delivered func() map[webhook.Source]webhook.Stats
	if f.webhooks != nil {
		webhooks = func(*http.Request) []webhook.EndpointStatus { return f.webhooks.Endpoints() }
		deliveries = f.webhooks.Deliverers
		delivered = func() map[webhook.Source]webhook.Stats {
			return map[webhook.Source]webhook.Stats{webhook.FromConfig: f.webhooks.Stats()}
		}
	}
	counts := metrics.New(metrics.Options{
		Version: version, Snapshot: t.Snapshot, Journal: f.log.Stats, Reloads: f.engine.Reloads, LockChanges: f.engine.LockChanges, Cluster: f.engine.Cluster, Hooks: f.hooks.Status, Webhooks: delivered, Deliveries: deliveries,
		Clients: func() metrics.Clients {
			st := served.Hub().Stats()
			return metrics.Clients{Connected: st.Clients, Served: st.Accepted, Slow: st.Closed["slow"] + st.Closed["overrun"], Refused: st.Refused, Gaps: st.Gaps}
		},
	})
	served = api.New(api.Options{
		Feed: feed.Options{Log: f.log, MaxClients: maxClients, Logger: f.logger, Wrote: func(_ int, received time.Time) {
			if !received.IsZero() {
				counts.Delivered(time.Since(received))
			}
		}},
		Dashboard: dashboard.Options{Version: version, Snapshot: t.Snapshot, Servers: f.engine.Servers, Cluster: f.engine.Cluster,
			Read: func(ctx context.Context, server, uri string, digest catalog.Digest) (cache.Resource, error) {
				return t.Client(server).CurrentResource(ctx, uri, digest)
			},
			Review: f.review, Logger: f.logger, Log: f.lines, Calls: f.calls, Hooks: func(*http.Request) []hook.Status { return f.hooks.Status() }, Webhooks: webhooks, Deliveries: deliveries, Login: slices.Contains(s.Routes(), "/login")},
	})
	for pattern, h := range served.Routes() {
		s.Handle(pattern, h)
	}
	for pattern, h := range served.Writes() {
		s.Handle(pattern, web.Write{Handler: h})
	}
	s.Handle("GET /metrics", counts.Handler())
	s.OnShutdown(served.Hub().Shutdown)
	parts := []engine.Part{engine.Reader(served.Run)}
	if f.webhooks != nil {
		parts = append(parts, engine.Reader(f.webhooks.Run))
	}
	return parts
}
