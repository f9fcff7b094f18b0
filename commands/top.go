package commands

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/tui"
)

type topOptions struct {
	cli.ConnectFlags
	cli.RemoteFlags
	cli.TrackFlags
	cli.Filter
}

func newTop(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts topOptions
	cmd := &cobra.Command{
		Use:   "top [URL]",
		Short: "Show servers, resources and changes live on a full screen",
		Long: `Shows the tracked servers on a full screen: their state, their updates and, below them, the
events. Enter opens a server, a tool or a resource; c shows the calls of tools. ? lists all keys.

If a running daemon follows the same config, or with a URL, top shows the servers there.
Otherwise it connects to the servers itself, and the history begins when top starts.`,
		Example: `  mcptrack top --demo
  mcptrack top --server 'docs*' --type 'resource.*'
  mcptrack top https://mcp.example:8722 --token-file token`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(opts.ConnectFlags.Parse(), opts.Filter.Parse()); err != nil {
				return err
			}
			if err := opts.TakeURL(args, ""); err != nil {
				return err
			}
			if !env.OutTTY {
				return cli.UsageHint("use mcptrack watch to print lines, or mcptrack status to print a table", "top needs a terminal")
			}
			if opts.URL != "" && (g.Demo() || opts.AllServers) {
				return cli.Usage("--url cannot be used with --demo or --all")
			}
			return runTop(cmd.Context(), env, g, opts)
		},
	}
	opts.ConnectFlags.AddServing(cmd)
	opts.RemoteFlags.Add(cmd)
	g.AddDemo(cmd)
	cli.AddAllFlag(cmd, &opts.AllServers)
	opts.AddTypes(cmd)
	opts.AddServers(cmd)
	_ = cmd.RegisterFlagCompletionFunc("server", cli.CompleteServers(env, g))
	cli.MainFlags(cmd, "demo", "server", "type", "url", "token-file")
	return cmd
}

// errQuit stops all tasks when the user quits.
var errQuit = errors.New("the user quit")

// show shows the servers of a source, and runs the tasks, until the user quits, ctx ends or a task fails.
func (o *topOptions) show(ctx context.Context, env *cli.Env, g *cli.Globals, source *tui.Source, screen tui.Options, tasks ...func(context.Context) error) error {
	if err := source.Refresh(ctx); err != nil {
		return cli.RemoteFailure(ctx, err, "token-file")
	}
	screen.Source, screen.Colour = source, g.Colours(env, env.OutTTY)
	for _, name := range []string{"TERM", "TERM_PROGRAM", "COLORTERM", "TMUX", "SSH_TTY", "WT_SESSION"} {
		if v, ok := env.LookupEnv(name); ok {
			screen.Env = append(screen.Env, name+"="+v)
		}
	}
	running, ctx := errgroup.WithContext(ctx)
	for _, task := range append(tasks, source.Run, source.Poll) {
		running.Go(func() error {
			if err := task(ctx); ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	running.Go(func() error { return cmp.Or(tui.Run(ctx, env.In, env.Out, screen), errQuit) })
	if err := running.Wait(); !errors.Is(err, errQuit) {
		return err
	}
	return nil
}

func runTop(ctx context.Context, env *cli.Env, g *cli.Globals, opts topOptions) error {
	if opts.URL != "" {
		client, err := opts.Client(env)
		if err != nil {
			return err
		}
		servers := cli.Filter{Servers: opts.Servers}
		only := func(id string) bool { return servers.Keep(&event.Event{ServerID: id}) }
		return opts.show(ctx, env, g, &tui.Source{Client: client, Only: only}, tui.Options{Title: strings.TrimSuffix(client.Base.String(), "/"), Keep: opts.Filter.Keep})
	}
	cfg, err := g.Load(ctx, env, g.Logger(env))
	if err != nil {
		return err
	}
	picked := cli.Selection{Servers: opts.Servers, All: opts.AllServers}
	if err := picked.Check(cfg, nil, false); err != nil {
		return err
	}
	desired, err := opts.Desired(env, g, slog.New(slog.DiscardHandler), cfg, picked.Of) // no logging here: the feed reports reloads
	if err != nil {
		return err
	}
	if done, err := opts.fromDaemon(ctx, env, g, desired); done {
		return err
	}
	log := serverlog.New()
	sessions := opts.SessionOptions(env, g)
	sessions.Logger = slog.New(log)
	e, err := engine.New(ctx, desired, journal.NewMemory(cli.MemoryLog(keptTexts)), engine.Options{Logger: sessions.Logger,
		Tracker: tracker.Options{Dial: env.Dial, Session: sessions, Logger: sessions.Logger, Texts: true, Card: servercard.Fetch}})
	if err != nil {
		return err
	}
	t := e.Tracker()
	source := &tui.Source{Client: api.Local(e.Log(), dashboard.Options{Snapshot: t.Snapshot, Log: log.Lines, Calls: cli.ReadCalls(env, sessions.Logger, e.Servers),
		Read: func(ctx context.Context, server, uri string, digest catalog.Digest) (cache.Resource, error) {
			return t.Client(server).CurrentResource(ctx, uri, digest)
		}})}
	err = e.Run(ctx, engine.Source(func(ctx context.Context) error {
		return cmp.Or(opts.show(ctx, env, g, source, tui.Options{Title: cmp.Or(cfg.Path, "demo"), Keep: opts.Filter.Keep, Reconnect: t.Restart}), cli.ErrStopped)
	}))
	if errors.Is(err, cli.ErrStopped) {
		return nil
	}
	return err
}

// keptTexts limits the total size of the texts of versions that top keeps.
const keptTexts = 32 << 20

// fromDaemon shows the servers of a running daemon. done is false if the command must follow the
// servers itself.
func (o *topOptions) fromDaemon(ctx context.Context, env *cli.Env, g *cli.Globals, desired engine.Desired) (done bool, err error) {
	own := func(cfg *config.Config) string {
		return ownWatch(o.ConnectFlags, cfg, desired.Select(cfg))
	}
	ctx, daemon := g.OpenDaemon(ctx, env, g.Logger(env), cli.DaemonUse{Quiet: true, Own: own(desired.Config)})
	if daemon == nil {
		return false, nil
	}
	defer daemon.Close()
	var current atomic.Pointer[config.Config]
	current.Store(desired.Config)
	picked := func(id string) bool { _, ok := desired.Select(current.Load()).Server(id); return ok }
	keep := func(e *event.Event) bool { // also events of servers that have left the config
		_, known := current.Load().Server(e.ServerID)
		return (!known || picked(e.ServerID)) && o.Filter.Keep(e)
	}
	source := &tui.Source{Client: daemon.Client(), Only: picked}
	follow := func(ctx context.Context) error {
		return followConfig(ctx, desired, func(cfg *config.Config) error {
			current.Store(cfg)
			if len(desired.Select(cfg).Servers) > 0 && own(cfg) != "" {
				return errNotThere
			}
			return nil
		}, func(e *event.Event) error { source.Add(e); return nil })
	}
	err = o.show(ctx, env, g, source, tui.Options{Title: cmp.Or(desired.Config.Path, "daemon"), Keep: keep}, follow)
	failed, ok := errors.AsType[*cli.Failure](err)
	if ok && (failed.Code == "unreachable" || failed.Code == "refused") || errors.Is(err, errNotThere) {
		return false, nil
	}
	return !errors.Is(context.Cause(ctx), cli.ErrDaemonGone), err
}
