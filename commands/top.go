package commands

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/tui"
)

type topOptions struct {
	cli.ConnectFlags
	cli.RemoteFlags
	cli.TrackFlags
	cli.JournalFlags
	cli.Filter
}

func newTop(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts topOptions
	cmd := &cobra.Command{
		Use:   "top [URL]",
		Short: "Show servers, resources and changes live on a full screen",
		Long: `Follows the tracked servers in the config, as watch does, or with --url the servers of a
running serve-sse, and shows them on a full screen: the servers with their state and
updates, and below them the feed. Each server opens to its resources, tools, prompts,
timeline and log, each resource to its content, differences and versions, each tool to
its schema, and each event to its differences.

Timeline and log begin when top starts; with --url they are those that serve-sse keeps.
If a running daemon follows the same config, top shows its servers; see mcptrack help
daemon.
If a serve-sse stores its events on this machine, the feed begins with the last ten
minutes, and versions include the stored ones. --type limits the feed.

Keys: enter opens, q goes back or quits, tab moves between servers and feed or between
the tabs of a page, e shows the feed alone, s sorts by last change, / filters, d shows
differences and < > those of older and newer versions, m marks a version to compare, L
shows the log, r reconnects, p pauses, y copies a URI, ctrl+z suspends, ? lists all keys.
The mouse wheel scrolls.

Exit codes: 0 quit; 1 failed; 2 wrong usage, or stdout is not a terminal; 3 config
invalid or missing; 4 the --url could not be reached; 5 it refused the request.`,
		Example: `  mcptrack top --demo
  mcptrack top --config mcp-servers.json
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
			if opts.URL != "" {
				if g.Demo() || opts.AllServers {
					return cli.Usage("--url cannot be used with --demo or --all")
				}
				return runTopRemote(cmd.Context(), env, g, opts)
			}
			return runTop(cmd.Context(), env, g, opts)
		},
	}
	opts.ConnectFlags.Add(cmd)
	opts.RemoteFlags.Add(cmd)
	opts.JournalFlags.Add(cmd)
	g.AddDemo(cmd)
	cli.AddAllFlag(cmd, &opts.AllServers)
	opts.AddTypes(cmd)
	opts.AddServers(cmd)
	_ = cmd.RegisterFlagCompletionFunc("server", cli.CompleteServers(env, g))
	return cmd
}

// errQuit stops all tasks when the user quits.
var errQuit = errors.New("the user quit")

// show runs the screen and the tasks until the user quits (errQuit), ctx ends or a task fails.
func (o *topOptions) show(ctx context.Context, env *cli.Env, g *cli.Globals, screen tui.Options, tasks ...func(context.Context) error) error {
	screen.Colour = g.Colours(env, env.OutTTY)
	for _, name := range []string{"TERM", "TERM_PROGRAM", "COLORTERM", "TMUX", "SSH_TTY", "WT_SESSION"} {
		if v, ok := env.LookupEnv(name); ok {
			screen.Env = append(screen.Env, name+"="+v)
		}
	}
	running, ctx := errgroup.WithContext(ctx)
	for _, task := range tasks {
		running.Go(func() error {
			if err := task(ctx); ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	running.Go(func() error {
		if err := tui.Run(ctx, env.In, env.Out, screen); err != nil {
			return err
		}
		return errQuit
	})
	return running.Wait()
}

func runTop(ctx context.Context, env *cli.Env, g *cli.Globals, opts topOptions) error {
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
	if done, err := opts.ofDaemon(ctx, env, g, desired); done {
		return err
	}
	log := serverlog.New()
	sessions := opts.SessionOptions(env, g)
	sessions.Logger = slog.New(log)
	e, err := cli.NewUnstoredEngine(ctx, desired, tracker.Options{Dial: env.Dial, Session: sessions, Logger: sessions.Logger, Texts: true, Card: servercard.Fetch}, nil)
	if err != nil {
		return err
	}
	past, err := opts.Existing(ctx, env, slog.New(slog.DiscardHandler)) // no logging here: a log line would garble the screen
	if err != nil {
		return err
	}
	if past != nil {
		defer func() { _ = past.Close() }()
	}
	t := e.Tracker()
	source := tui.NewLocal(tui.LocalOptions{Snapshot: t.Snapshot, Read: t.ReadResource, Lines: log.Lines, Past: past})
	err = e.Run(ctx, engine.Events(source.Run), engine.Source(func(ctx context.Context) error {
		return opts.show(ctx, env, g, tui.Options{Source: source, Title: cmp.Or(cfg.Path, "demo"), Keep: opts.Filter.Keep, Reconnect: t.Restart})
	}))
	if errors.Is(err, errQuit) {
		return nil
	}
	return err
}

func runTopRemote(ctx context.Context, env *cli.Env, g *cli.Globals, opts topOptions) error {
	client, err := opts.Client(env)
	if err != nil {
		return err
	}
	servers := cli.Filter{Servers: opts.Servers}
	only := func(id string) bool { return servers.Keep(&event.Event{ServerID: id}) }
	return opts.showRemote(ctx, env, g, &tui.Remote{Client: client, Only: only},
		tui.Options{Title: strings.TrimSuffix(client.Base.String(), "/"), Keep: opts.Filter.Keep})
}

// ofDaemon shows the servers of a running daemon. done is false if the command must follow the
// servers itself.
func (o *topOptions) ofDaemon(ctx context.Context, env *cli.Env, g *cli.Globals, desired engine.Desired) (done bool, err error) {
	own := func(cfg *config.Config) string {
		return ownWatch(o.ConnectFlags, o.JournalFlags, cfg, desired.Select(cfg))
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
	source := &tui.Remote{Client: daemon.Client(), Only: picked}
	follow := func(ctx context.Context) error {
		if desired.Follow == nil {
			return nil
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		opts := *desired.Follow
		opts.Current = desired.Config
		opts.Apply = func(cfg *config.Config) {
			current.Store(cfg)
			if len(desired.Select(cfg).Servers) > 0 && own(cfg) != "" {
				cancel(errNotThere)
			}
		}
		opts.Publish = func(e event.Event) { // the daemon does not store it
			e.Timestamp = time.Now()
			source.Add(&e)
		}
		return reload.Run(ctx, opts)
	}
	err = o.showRemote(ctx, env, g, source, tui.Options{Title: cmp.Or(desired.Config.Path, "daemon"), Keep: keep}, follow)
	failed, ok := errors.AsType[*cli.Failure](err)
	if ok && (failed.Code == "unreachable" || failed.Code == "refused") || errors.Is(err, errNotThere) {
		return false, nil
	}
	return !errors.Is(context.Cause(ctx), cli.ErrDaemonGone), err
}

// showRemote shows the servers of a serve-sse or a daemon.
func (o *topOptions) showRemote(ctx context.Context, env *cli.Env, g *cli.Globals, source *tui.Remote, screen tui.Options, tasks ...func(context.Context) error) error {
	if err := source.Refresh(ctx); err != nil {
		return askFailure(ctx, err)
	}
	feed := source.Client.Base.JoinPath("events")
	feed.RawQuery = "since=10m"
	source.Follow = remote.FeedOptions{URL: feed.String(), Header: cli.Bearer(source.Client.Token), Client: source.Client.HTTP}
	screen.Source = source
	err := o.show(ctx, env, g, screen, append(tasks, source.Run, source.Poll)...)
	if errors.Is(err, errQuit) {
		return nil
	}
	return err
}
