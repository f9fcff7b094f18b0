package commands

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/sse/follow"
	"github.com/mcptrack/mcptrack/output/tui"
)

type topOptions struct {
	connectFlags
	remoteFlags
	url        string
	demo       bool
	allServers bool
}

func newTop(env *Env, g *globals) *cobra.Command {
	var opts topOptions
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show servers, resources and changes live on a full screen",
		Long: `Follows the tracked servers of the config, as watch does, or looks at a running serve-sse
with --url, and shows them on a full screen: servers with their state and updates, the
feed below, and behind each server its resources, tools, prompts, timeline and log, and
behind each resource its content, differences and versions. Press ? for the keys, q to
leave. Versions, timeline and log are those since the start, with --url those that
serve-sse keeps.

Exit codes: 0 left; 1 failed; 2 wrong usage, or stdout is not a terminal; 3 config
invalid or missing; 4 the --url could not be reached; 5 it refused the request.`,
		Example: `  mcptrack top --demo
  mcptrack top --config mcp-servers.json
  mcptrack top --url https://mcp.example:8722 --token-file token`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.parse(); err != nil {
				return err
			}
			if !env.OutTTY {
				return usageHint("mcptrack watch prints lines, mcptrack status a table", "top needs a terminal")
			}
			if opts.url != "" {
				if opts.demo || opts.allServers {
					return usage("--url cannot be used with --demo or --all")
				}
				return runTopRemote(cmd.Context(), env, g, opts)
			}
			return runTop(cmd.Context(), env, g, opts)
		},
	}
	opts.connectFlags.add(cmd)
	opts.remoteFlags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.url, "url", "", "look at the serve-sse at this `URL`")
	f.BoolVar(&opts.demo, "demo", false, "follow a built-in demo server; no config needed")
	addAllFlag(cmd, &opts.allServers)
	return cmd
}

// errLeft ends all tasks when the user quits.
var errLeft = errors.New("the user left")

// show runs the screen and the tasks until the user quits, ctx ends or a task fails.
func (o *topOptions) show(ctx context.Context, env *Env, g *globals, screen tui.Options, tasks ...func(context.Context) error) error {
	screen.Colour = g.colours(env, env.OutTTY)
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
		return errLeft
	})
	if err := running.Wait(); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

func runTop(ctx context.Context, env *Env, g *globals, opts topOptions) error {
	cfg, title := demoConfig(env), "demo"
	if !opts.demo {
		var err error
		if cfg, err = g.load(ctx, env, g.logger(env)); err != nil {
			return err
		}
		title = cfg.Path
	}
	picked := selection{all: opts.allServers}
	if len(picked.of(cfg).Servers) == 0 {
		return nothingToFollow(cfg, picked)
	}
	log := serverlog.New()
	sessions := opts.session(env, g)
	sessions.Logger = slog.New(log)
	t := tracker.New(tracker.Options{Dial: env.Dial, Session: sessions, Logger: sessions.Logger, Texts: true})
	current := new(applied)
	current.apply(t, picked.of(cfg))
	source := &tui.Tracker{Tracker: t, Lines: log.Lines, Restart: func(ctx context.Context, id string) error { return current.restart(ctx, t, id) }}
	tasks := []func(context.Context) error{source.Run, t.Run}
	if !opts.demo {
		quiet := *env
		quiet.Err = io.Discard // the feed shows the outcome of reloads
		tasks = append(tasks, followConfig(&quiet, g, cfg, false, t, func(next *config.Config) { current.apply(t, picked.of(next)) }))
	}
	return opts.show(ctx, env, g, tui.Options{Source: source, Title: title}, tasks...)
}

// applied is the config that a tracker follows.
type applied struct{ cfg atomic.Pointer[config.Config] }

func (a *applied) apply(t *tracker.Tracker, cfg *config.Config) {
	a.cfg.Store(cfg)
	t.Apply(cfg)
}

// restart ends the connection to a server and makes a new one, with the config that is
// current then.
func (a *applied) restart(ctx context.Context, t *tracker.Tracker, id string) error {
	without := *a.cfg.Load()
	without.Servers = slices.DeleteFunc(slices.Clone(without.Servers), func(s config.Server) bool { return s.ID == id })
	t.Apply(&without)
	err := t.Gone(ctx, id)
	t.Apply(a.cfg.Load())
	return err
}

func runTopRemote(ctx context.Context, env *Env, g *globals, opts topOptions) error {
	base, err := parseServeURL("--url", opts.url)
	if err != nil {
		return err
	}
	token, err := opts.token(env, base)
	if err != nil {
		return err
	}
	source := &tui.Remote{Client: remote.Client{Base: base, Token: token}}
	if err := source.Refresh(ctx); err != nil {
		return askFailure(ctx, err)
	}
	feed := base.JoinPath("events")
	feed.RawQuery = "since=10m"
	source.Follow = follow.Options{URL: feed.String(), Header: bearer(token)}
	return opts.show(ctx, env, g, tui.Options{Source: source, Title: strings.TrimSuffix(base.String(), "/")}, source.Run, source.Poll)
}
