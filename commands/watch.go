package commands

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

type watchOptions struct {
	streamFlags
	filter
	demo         bool
	noFollow     bool
	holdCommands bool
}

func newWatch(env *Env, g *globals) *cobra.Command {
	var opts watchOptions
	cmd := &cobra.Command{
		Use:   "watch [FILE]",
		Short: "Follow all tracked servers of the config and print what changes",
		Long: `Connects to every enabled server with "trackResources" (or trackTools,
trackPrompts), follows it through crashes, restarts and list changes, and prints
every change. The config is followed too: servers that are added, changed or
removed there are from then on; a config with errors changes nothing. SIGHUP reads
the config again at once.

Events are lines for people, or with --json one JSON object per line; see mcptrack
help events. --count counts changes (everything but server.state and
subscription.active), or whatever --type asks for.

Exit codes: 0 stopped (interrupted, --count, --timeout or a closed pipe); 1 failed;
2 wrong usage; 3 config invalid or missing; 4 no server could be reached within
--timeout; 6 --timeout ran out before --count.`,
		Example: `  # See it work, without a config
  mcptrack watch --demo

  # One JSON object per line
  mcptrack watch --json | jq

  # Wait in a script until some resource really changes
  mcptrack watch --type resource.updated --changed-only --count 1 --timeout 10m

  # What changed in the docs, as diffs
  mcptrack watch --server docs --diff`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions([]string{"json", "jsonc"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.types, opts.servers = globs(opts.types), globs(opts.servers)
			if err := errors.Join(opts.streamFlags.check(), opts.filter.check()); err != nil {
				return err
			}
			switch {
			case len(args) == 1 && opts.demo:
				return usage("--demo needs no config; leave out %s", printable.Line(args[0], 200))
			case len(args) == 1:
				g.config = args[0]
			}
			ctx, cancel := opts.bound(cmd.Context())
			defer cancel()
			return runWatch(ctx, env, g, opts)
		},
	}
	opts.add(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&opts.types, "type", nil, "only events of these `TYPES`, globs separated by commas")
	f.StringSliceVar(&opts.servers, "server", nil, "only these servers, `IDS` or globs separated by commas")
	f.BoolVar(&opts.changedOnly, "changed-only", false, "leave out updates whose content is the same")
	f.BoolVar(&opts.noFollow, "no-follow-config", false, "do not follow changes of the config")
	f.BoolVar(&opts.holdCommands, "no-exec-on-reload", false, "do not start new or changed commands of the config before SIGHUP")
	f.BoolVar(&opts.demo, "demo", false, "follow a built-in server whose resources change; no config needed")
	_ = cmd.RegisterFlagCompletionFunc("server", completeServers(env, g))
	_ = cmd.RegisterFlagCompletionFunc("type", completeTypes)
	return cmd
}

func runWatch(ctx context.Context, env *Env, g *globals, opts watchOptions) error {
	log := g.logger(env)
	cfg, err := watchConfig(env, g, log, opts)
	if err != nil {
		return err
	}
	t := newTracker(env, g, opts.streamFlags)
	tracked := opts.tracked(cfg)
	t.Apply(tracked)
	if len(tracked.Servers) == 0 {
		if opts.noFollow {
			return nothingToFollow(cfg, opts.servers)
		}
		log.Warn("no server to follow yet", "file", cfg.Path, "hint", hintFollow(cfg, opts.servers))
	}
	s := newStream(env, g, opts.streamFlags)
	s.keep, s.counts = opts.keep, opts.filter.counts
	var beside []func(context.Context) error
	if !opts.noFollow && !opts.demo {
		beside = append(beside, followConfig(env, cfg, opts.holdCommands, t, func(next *config.Config) { t.Apply(opts.tracked(next)) }, log))
	}
	err = track(ctx, t, s, beside...)
	if !opts.demo {
		rememberSnapshot(env, cfg.Path, t.Snapshot())
	}
	return err
}

// watchConfig is the config to begin with.
func watchConfig(env *Env, g *globals, log *slog.Logger, opts watchOptions) (*config.Config, error) {
	if opts.demo {
		return demoConfig(env), nil
	}
	return g.load(env, log)
}

// tracked is the part of a config that is to be followed.
func (o watchOptions) tracked(cfg *config.Config) *config.Config {
	out := &config.Config{Path: cfg.Path, Servers: slices.Clone(cfg.Servers)}
	out.Servers = slices.DeleteFunc(out.Servers, func(srv config.Server) bool {
		return !srv.Tracked() || len(o.servers) > 0 && !matchesAny(o.servers, srv.ID)
	})
	return out
}
