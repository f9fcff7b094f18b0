package commands

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

type watchOptions struct {
	streamFlags
	agentFlags
	cli.Filter
	cli.TrackFlags
	cli.JournalFlags
	file   string   // value of the FILE argument
	named  []string // values of the SERVER arguments
	since  string
	after  since // parsed value of --since
	stored bool  // value of --no-follow: print only stored events
}

func newWatch(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts watchOptions
	cmd := &cobra.Command{
		Use:   "watch [FILE|SERVER...]",
		Short: "Follow all tracked servers and print what changes",
		Long: `Connects to every enabled server with "trackResources" (or trackTools, trackPrompts), or
with --all to every enabled server, follows it through crashes, restarts and list changes,
and prints every change. Changes to the config file take effect without a restart; a
config with errors is rejected, and the last valid one stays in use. SIGHUP rereads the
config immediately. watch waits for a FILE that does not exist yet; the file of --config
must exist.

An argument is a FILE if it exists, contains a path separator or ends in .json, .jsonc,
.toml, .yaml or .yml. Any other argument is the name of a SERVER in the config. watch then
follows only the named servers: all their resources, tools and prompts, whether the config
tracks them or not.

Events are printed as readable lines, or with --json as one JSON object per line; see
mcptrack help events. Lines omit transient states and repeated failures; on a terminal
the last lines count them, and -v prints them. --count counts changes to resources, lists
and the config, or the events that --type selects.

--since starts with the events that a serve-sse on this machine has stored, as replay
prints them. While that serve-sse runs, watch shows its events and connects to no server;
otherwise it follows the servers itself. --no-follow exits after the stored events.

--agent prints at most one short line per second for agents that read a process, beginning
with what changed since the last run; see mcptrack help agents.

Exit codes: 0 stopped (interrupted, --count, --timeout or a closed pipe); 1 failed;
2 wrong usage; 3 config invalid or missing; 4 no server could be reached within
--timeout or by --once; 6 --timeout expired before --count was reached.`,
		Example: `  # See it work, without a config
  mcptrack watch --demo

  # One JSON object per line
  mcptrack watch --json | jq

  # Wait in a script until some resource really changes
  mcptrack watch --type resource.updated --changed-only --count 1 --timeout 10m

  # Show how the resources of docs change, whether the config tracks docs or not
  mcptrack watch docs --diff

  # What changed within the last ten minutes, and what changes from now on
  mcptrack watch --since 10m

  # For an agent's monitor, and for a hook
  mcptrack watch --agent
  mcptrack watch --agent --once --timeout 5s`,
		Args: cli.Args(0, -1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			names, _ := cli.Choices(cli.ServerNames(cli.ConfigForCompletion(env, g)), args)
			return names, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(opts.streamFlags.parse(), opts.Filter.Parse(), opts.agentFlags.parse(cmd, g)); err != nil {
				return err
			}
			if err := opts.parseSince(cmd, g); err != nil {
				return err
			}
			if err := opts.parseArgs(cmd, g, args); err != nil {
				return err
			}
			ctx, cancel := opts.Bound(cmd.Context())
			defer cancel()
			if opts.agent {
				return runWatchAgent(ctx, env, g, opts)
			}
			return runWatch(ctx, env, g, opts)
		},
	}
	opts.streamFlags.add(cmd)
	f := cmd.Flags()
	opts.AddTypes(cmd)
	opts.AddServers(cmd)
	f.BoolVar(&opts.ChangedOnly, "changed-only", false, "omit updates that did not change the content")
	f.StringVar(&opts.since, "since", "", "begin with the stored events after this `ID`, since this time (RFC 3339), or within this duration (2h, 7d)")
	f.BoolVar(&opts.stored, "no-follow", false, "with --since: print what is stored, and exit")
	opts.JournalFlags.Add(cmd)
	opts.AddReload(cmd)
	cli.AddAllFlag(cmd, &opts.AllServers)
	opts.agentFlags.add(cmd)
	opts.addOnce(cmd)
	g.AddDemo(cmd)
	_ = cmd.RegisterFlagCompletionFunc("server", cli.CompleteServers(env, g))
	return cmd
}

// parseArgs sorts the arguments into the config file and the names of servers.
func (o *watchOptions) parseArgs(cmd *cobra.Command, g *cli.Globals, args []string) error {
	o.file, o.named = "", nil
	for _, arg := range args {
		switch name := printable.Line(arg, 200); {
		case !isFile(arg):
			o.named = append(o.named, arg)
		case o.file != "":
			return cli.Usage("watch takes one config file, not both %s and %s", printable.Line(o.file, 200), name)
		case g.Host != "":
			return cli.Usage("--host and the config file %s cannot be used together", name)
		case cmd.Flags().Changed("config"):
			return cli.Usage("--config and the config file %s cannot be used together", name)
		case g.Demo():
			return cli.UsageHint("remove "+name+" or --demo", "--demo uses a built-in server and no config; it cannot be used with %s", name)
		default:
			o.file = arg
		}
	}
	if o.file != "" {
		g.Config, g.Host = o.file, ""
	}
	if len(o.named) > 0 {
		if len(o.Servers) > 0 {
			return cli.UsageHint("remove --server, and name all servers as arguments", "--server cannot be used with the name of a server")
		}
		o.Servers, o.AllServers = o.named, true
	}
	return nil
}

// isFile reports whether an argument is a config file, and not the name of a server.
func isFile(arg string) bool {
	if strings.ContainsRune(arg, '/') || strings.ContainsRune(arg, filepath.Separator) {
		return true
	}
	if slices.Contains([]string{".json", ".jsonc", ".toml", ".yaml", ".yml"}, filepath.Ext(arg)) {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}

// parseSince validates --since and the flags that require it.
func (o *watchOptions) parseSince(cmd *cobra.Command, g *cli.Globals) (err error) {
	if !cmd.Flags().Changed("since") {
		for _, name := range []string{"no-follow", "data-dir", "nats", "nats-credentials"} {
			if cmd.Flags().Changed(name) {
				return cli.Usage("--%s needs --since", name)
			}
		}
		return nil
	}
	if g.Demo() || o.agent {
		return cli.Usage("--since cannot be used with --demo or --agent")
	}
	o.after, err = parseSince(cmd, o.since)
	return err
}

func (o *watchOptions) selection() cli.Selection {
	return cli.Selection{Servers: o.Servers, All: o.AllServers}
}

func runWatch(ctx context.Context, env *cli.Env, g *cli.Globals, opts watchOptions) error {
	env, screen := newScreen(env, g)
	log := g.Logger(env)
	s := newStream(env, g, opts.streamFlags)
	s.keep = opts.Keep
	s.counts = func(e *event.Event) bool { return len(opts.Types) > 0 || isChange(e) }
	var err error
	if opts.since != "" {
		if written := opts.Written(env); opts.stored || written { // only stored events: no server is needed
			s.follow(env, g, screen, nil, len(opts.Types) > 0)
			if opts.after, err = s.backlog(ctx, env, log, &opts.JournalFlags, opts.after, written && !opts.stored); !errors.Is(err, errWriterEnded) {
				return s.outcome(ctx, err)
			}
			log.Warn("the process that stored the events has ended; this process now follows the servers")
		}
	}
	cfg, err := opts.config(ctx, env, g, log)
	if err != nil {
		return err
	}
	s.follow(env, g, screen, cfg, len(opts.Types) > 0)
	desired, err := opts.Desired(env, g, log, cfg, opts.selection().Of)
	if err != nil {
		return err
	}
	if opts.since != "" {
		if _, err := s.backlog(ctx, env, log, &opts.JournalFlags, opts.after, false); err != nil {
			return s.outcome(ctx, err)
		}
	}
	e, err := cli.NewUnstoredEngine(ctx, desired, opts.trackerOptions(env, g))
	if err != nil {
		return err
	}
	err = s.run(ctx, e)
	if !g.Demo() {
		rememberSnapshot(env, cfg.Path, e.Tracker().Snapshot())
	}
	return err
}

// config loads the initial config. It is empty if watch waits for its file to be created.
func (o *watchOptions) config(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger) (*config.Config, error) {
	if o.file != "" && !o.NoFollow {
		if _, err := os.Stat(o.file); errors.Is(err, fs.ErrNotExist) {
			log.Warn("the config does not exist yet; waiting for "+o.file, "hint", "run mcptrack init to create one")
			return &config.Config{Path: o.file}, nil
		}
	}
	cfg, err := g.Load(ctx, env, log)
	if err != nil {
		return nil, err
	}
	if len(o.named) > 0 {
		if _, err := cli.SelectServers(cfg, o.named); err != nil {
			return nil, err
		}
	}
	return cfg, o.selection().Check(cfg, log, !o.NoFollow && !o.once)
}
