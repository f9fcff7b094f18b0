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
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/machine"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/printable"
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
	cli.TrackFlags
	cli.LockFlags
	access      cli.AccessFlags
	addr        string
	keepContent string
	follow      bool
	publicURL   string
	dashboard   string // URL for links
	actions     bool   // the dashboard can use servers
}

// Command returns the serve-sse command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "serve-sse",
		Short: "Serve events over HTTP, with history, dashboard and metrics",
		Long: `Follows the servers in the config, as watch does, stores their events, and serves them over
HTTP: as server-sent events, in a dashboard, as JSON and as Prometheus metrics. A client
that reconnects with the last id it received misses nothing, even after a crash.

Without --token-file only this machine can connect. See mcptrack help serving for routes,
access, backups and several processes.`,
		Example: `  mcptrack serve-sse --demo
  mcptrack serve-sse --config mcp-servers.json --addr :8722 --token-file token
  curl -N -H "Authorization: Bearer $(cat token)" http://127.0.0.1:8722/events
  mcptrack serve-sse --nats nats://nats-1:4222,nats://nats-2:4222 --follow`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"lock", "public-url", "dashboard-url", "dashboard-actions", "demo"} {
				if opts.follow && cmd.Flags().Changed(flag) {
					return cli.Usage("--%s cannot be used with --follow, which follows no server", flag)
				}
			}
			if err := opts.parse(); err != nil {
				return err
			}
			return run(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.addr, "addr", "127.0.0.1:8722", "`ADDRESS` or port to listen on; port 0 means any free one")
	opts.access.Add(cmd, "clients", "read from here")
	opts.JournalFlags.Add(cmd)
	opts.RetentionFlags.Add(cmd)
	opts.LockFlags.Add(cmd)
	f.StringVar(&opts.keepContent, "keep-content", "256MiB", "`BYTES` of texts to keep for history")
	cli.AddAllFlag(cmd, &opts.AllServers)
	g.AddDemo(cmd)
	f.BoolVar(&opts.follow, "follow", false, "with --nats: only serve what other processes store")
	f.StringVar(&opts.publicURL, "public-url", "", "`URL` at which servers reach this process with webhooks")
	f.StringVar(&opts.dashboard, "dashboard-url", "", "`URL` of the dashboard, for links in Slack messages")
	f.BoolVar(&opts.actions, "dashboard-actions", false, "let the dashboard call tools and restart servers")
	f.BoolVar(&opts.HoldCommands, "no-exec-on-reload", false, "start new or changed commands only after SIGHUP")
	_ = f.MarkHidden("no-exec-on-reload")
	_ = f.MarkHidden("dashboard-url") // see mcptrack help serving
	opts.AddServing(cmd)
	cli.MainFlags(cmd, "addr", "token-file", "data-dir", "retain", "demo")
	return cmd
}

func (o *options) parse() (err error) {
	if err = cmp.Or(o.ConnectFlags.Parse(), o.access.Check(), o.RetentionFlags.Parse()); err != nil {
		return err
	}
	if o.follow && o.NATS == "" {
		return cli.Usage("--follow requires --nats")
	}
	if o.publicURL != "" {
		if err = standardwebhooks.CheckOrigin(o.publicURL); err != nil {
			return cli.Usage("--public-url: %w", err)
		}
		if o.access.TokenFile == "" && !strings.HasPrefix(strings.ToLower(o.publicURL), "http:") {
			return cli.UsageHint("add --token-file", "--public-url requires --token-file: a proxy may make more than the webhook path reachable")
		}
	}
	if o.dashboard != "" {
		if err = web.CheckOrigin("dashboard-url", o.dashboard); err != nil {
			return cli.Usage("--%w", err)
		}
	}
	if o.keepContent != "0" {
		o.Keep.Content, err = cli.StoredBytes("keep-content", o.keepContent)
	}
	return err
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
	f := &feedServer{env: env, globals: g, opts: opts, lines: kept.Lines}
	f.logger = slog.New(slog.NewMultiHandler(g.Logger(env).Handler(), kept))
	cfg := &config.Config{}
	if f.opts.follow {
		f.opts.NoFollow = true
	} else {
		var err error
		if cfg, err = g.Load(ctx, env, f.logger); err != nil {
			return err
		}
	}
	// Listen first: if the address is in use, the log is not opened.
	s, ln, err := f.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	picked := cli.Selection{All: opts.AllServers}
	desired, err := f.opts.Desired(env, g, f.logger, cfg, picked.Of)
	if err != nil {
		return err
	}
	var lock *engine.Lock
	if !opts.follow {
		if lock, err = opts.LockFlags.Open(env, g, cfg, f.logger, opts.actions); err != nil {
			return err
		}
	}
	receiver, err := opts.receiver(env, g)
	if err != nil {
		return err
	}
	err = f.open(ctx, desired, lock, tracker.Options{Dial: env.Dial, Session: opts.SessionOptions(env, g), Logger: f.logger, Texts: true, Webhooks: receiver, Card: servercard.Fetch})
	if err != nil {
		return err
	}
	defer f.close()
	if !opts.follow {
		_ = picked.Check(cfg, f.logger, true) // with wait set, Check only warns
		s.Handle(hook.Path, cli.HookRoute(f.hooks))
	}
	if receiver != nil {
		s.Handle(standardwebhooks.WellKnown, web.Open{Handler: http.HandlerFunc(receiver.Describe)})
	}
	parts := append(f.routes(s), engine.Reader(func(ctx context.Context) error { return s.Serve(ctx, ln) }))
	fmt.Fprintf(env.Err, "listening on %s\n", s.URL())
	opts.introduce(env, g, s.URL(), cfg, len(picked.Of(cfg).Servers))
	return f.engine.Run(ctx, parts...)
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
	env      *cli.Env
	globals  *cli.Globals
	opts     options
	logger   *slog.Logger
	log      journal.Log
	engine   *engine.Engine
	lines    func(server string) []serverlog.Line // returns the log lines for a server
	webhooks *webhook.Webhooks                    // nil with --follow
	hooks    *hook.Receiver                       // receives incoming webhooks; has none with --follow
	review   *dashboard.Review                    // nil if there cannot be a lock file
	config   atomic.Pointer[config.Config]        // the newest one
	calls    calls.Store                          // of the dashboard
}

// listen creates the HTTP server and its listener. Invalid options are usage errors.
func (f *feedServer) listen(ctx context.Context) (*web.Server, net.Listener, error) {
	o := &f.opts
	tokens, err := o.access.Tokens(f.logger, o.Reloads(f.env, f.globals))
	if err != nil {
		return nil, nil, err
	}
	return o.access.Listen(ctx, f.logger, tokens, o.addr, func(w *web.Options) {
		for _, url := range []string{o.publicURL, o.dashboard} { // the public address of a reverse proxy
			if url != "" {
				w.Origins = append(slices.Clone(w.Origins), url)
			}
		}
		w.Ready = func() error { return f.engine.Ready() }
	})
}

// open opens the log that the options specify, or a log in memory for a demo.
func (f *feedServer) open(ctx context.Context, desired engine.Desired, lock *engine.Lock, t tracker.Options) (err error) {
	opts := &f.opts
	if f.globals.Demo() && opts.Dir == "" && opts.NATS == "" {
		f.log = journal.NewMemory(cli.MemoryLog(opts.Keep.Content))
	} else if f.log, err = opts.JournalFlags.Open(ctx, f.env, f.logger, opts.Keep); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	var others http.Handler // for the messages that are for no hook: the events of servers
	if t.Webhooks != nil {
		others = t.Webhooks
	}
	f.hooks = hook.NewReceiver(hook.Options{Deliver: func(d hook.Delivery) { f.engine.Receive(d) }, Next: others, Logger: f.logger})
	role := engine.Alone
	switch {
	case opts.follow:
		role = engine.Watches
	case opts.NATS != "":
		role = engine.Shares
	}
	f.engine, err = engine.New(ctx, desired, f.log, engine.Options{
		Tracker: t, Lock: lock, Role: role, Logger: f.logger,
		Applied: func(cfg *config.Config) {
			f.config.Store(cfg)
			if f.webhooks != nil {
				f.webhooks.Apply(cfg.Webhooks)
			}
			f.hooks.Apply(cfg.Hooks)
		},
	})
	if err != nil {
		return err
	}
	f.calls = cli.Calls(f.log)
	if lock != nil {
		f.review = &dashboard.Review{Guard: lock.Guard, Changes: f.engine.LockChanges}
	}
	if opts.follow {
		return nil
	}
	stored, err := webhook.OpenRecords(f.log)
	if err != nil {
		return err
	}
	sender := webhook.NewSender(nil)
	sender.Tracer = f.globals.Tracer()
	f.webhooks = webhook.NewWebhooks(webhook.WebhookOptions{
		Log: f.log, Records: stored, Reader: mcpevents.NewReader(f.log, mcpevents.Scope{}), Sender: sender, Follow: true, Logger: f.logger,
		Publish:   func(p event.Payload) { f.engine.Tracker().Publish(event.Event{Payload: p}) },
		Dashboard: strings.TrimSuffix(cmp.Or(opts.dashboard, opts.publicURL), "/"),
	})
	return nil
}

func (f *feedServer) close() {
	if err := f.log.Close(); err != nil {
		f.logger.Warn("cannot store the last events", "err", err)
	}
}

// running returns what is known about a server that is followed here.
func (f *feedServer) running(ctx context.Context, st *status.ServerStatus) (r dashboard.Running) {
	cfg := f.config.Load()
	srv, ok := cfg.Server(st.ID)
	if !ok {
		return r // it was just removed
	}
	if r.Start = cli.LineOf(cfg, st.ID); st.Error != "" {
		r.Fix = f.globals.Fix(f.env, cfg, srv, st.State)
	}
	if st.Connected() && st.Info.PID > 0 {
		r.PID = st.Info.PID
		memory, _ := machine.Memory(ctx, []int{r.PID})
		r.Memory = memory[r.PID]
	}
	return r
}

// routes registers the HTTP routes, and returns the engine parts that they require.
func (f *feedServer) routes(s *web.Server) []engine.Part {
	t := f.engine.Tracker()
	shown := dashboard.Options{
		Version: f.env.Version, Snapshot: t.Snapshot, Servers: f.engine.Servers, Cluster: f.engine.Cluster,
		Read: func(ctx context.Context, server, uri string, digest catalog.Digest) (cache.Resource, error) {
			return t.Client(server).CurrentResource(ctx, uri, digest)
		},
		Review: f.review, Logger: f.logger, Log: f.lines, Calls: cli.ReadCalls(f.env, f.logger, f.engine.Servers, f.calls), Hooks: func(*http.Request) []hook.Status { return f.hooks.Status() },
		Login: slices.Contains(s.Routes(), "/login"), Running: f.running,
	}
	if f.opts.actions {
		shown.Actions = &dashboard.Actions{Call: t.CallTool, Prompt: t.GetPrompt, Refuse: f.engine.Refuse, Restart: t.Restart, Called: f.calls.Add}
	}
	counted := metrics.Options{
		Version: f.env.Version, Snapshot: t.Snapshot, Journal: f.log.Stats, Reloads: f.engine.Reloads, LockChanges: f.engine.LockChanges, Cluster: f.engine.Cluster, Hooks: f.hooks.Status,
	}
	var parts []engine.Part
	if f.webhooks != nil {
		shown.Webhooks = func(*http.Request) []webhook.EndpointStatus { return f.webhooks.Endpoints() }
		shown.Resend = f.webhooks.Resend
		shown.Deliveries, counted.Deliveries = f.webhooks.Deliverers, f.webhooks.Deliverers
		counted.Webhooks = func() map[webhook.Source]webhook.Stats {
			return map[webhook.Source]webhook.Stats{webhook.FromConfig: f.webhooks.Stats()}
		}
		parts = append(parts, engine.Reader(f.webhooks.Run))
	}
	var served *api.API
	counted.Clients = func() metrics.Clients {
		st := served.Hub().Stats()
		return metrics.Clients{Connected: st.Clients, Served: st.Accepted, Slow: st.Closed["slow"] + st.Closed["overrun"], Refused: st.Refused, Gaps: st.Gaps}
	}
	counts := metrics.New(counted)
	served = api.New(api.Options{Dashboard: shown, Feed: feed.Options{Log: f.log, Logger: f.logger, Wrote: func(_ int, received time.Time) {
		if !received.IsZero() {
			counts.Delivered(time.Since(received))
		}
	}}})
	for pattern, h := range served.Routes() {
		s.Handle(pattern, h)
	}
	for pattern, h := range served.Writes() {
		s.Handle(pattern, web.Write{Handler: h})
	}
	s.Handle("GET /metrics", counts.Handler())
	s.OnShutdown(served.Hub().Shutdown)
	return append(parts, engine.Reader(served.Run))
}
