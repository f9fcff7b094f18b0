package commands

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/mcptrack/mcptrack/core/nowait"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/remote"
)

// watchOptions contains the flags of watch, and of tail and replay, which are names for watch with
// other defaults.
type watchOptions struct {
	streamFlags
	agentFlags
	cli.Filter
	cli.TrackFlags
	cli.LockFlags
	cli.JournalFlags
	cli.RemoteFlags
	name   string   // of the command: watch, tail or replay
	file   string   // value of the FILE argument
	named  []string // values of the SERVER arguments
	since  string
	after  remote.Position // parsed value of --since
	stored bool            // print only stored events; value of --no-follow
	json   bool            // print events as JSON
}

func newWatch(env *cli.Env, g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [FILE|SERVER...]",
		Short: "Follow all tracked servers and print what changes",
		Long: `Follows the servers in the config and prints every change until you stop it. Without
SERVER it follows the enabled servers that have "trackResources" or another track key;
--all follows all enabled servers. watch reconnects to servers that fail, and applies
changes to the config without a restart.

With SERVER, watch follows only this server, with all its resources, tools, prompts and
skills. A path, or a name that ends in .json, .jsonc, .toml, .yaml or .yml, is a config
FILE; watch waits until it exists.

If a running daemon follows the same config, watch prints the daemon's events and connects
to no server. --url prints the events of a running serve-sse. --since also prints events
that serve-sse has stored, and --no-follow prints only the stored events and exits.

Lines leave out short-lived states and repeated failures; --json prints every event (see
mcptrack help events). If there is a lock file, watch also prints what differs from it (see
mcptrack help lock).`,
		Example: `  # See it work, without a config
  mcptrack watch --demo

  # Show how the resources of docs change
  mcptrack watch docs --diff

  # Wait in a script until a resource changes; exit with 6 after 10 minutes
  mcptrack watch --type resource.updated --count 1 --timeout 10m

  # Show what changed within the last ten minutes, and what changes now
  mcptrack watch --url https://mcp.example --since 10m

  # Wait for the next change that nobody has approved
  mcptrack watch --lock mcptrack.lock --type lock.drift --count 1`,
		Args: cli.Args(0, -1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			names, _ := cli.Choices(cli.ServerNames(cli.ConfigForCompletion(env, g)), args)
			return names, cobra.ShellCompDirectiveDefault
		},
	}
	cli.MainFlags(cmd, "json", "diff", "type", "count", "timeout")
	return watching(env, g, cmd, func(o *watchOptions, args []string) error { return o.parseArgs(cmd, g, args) })
}

// newTail returns watch --url, which prints NDJSON into a pipe.
func newTail(env *cli.Env, g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{Use: "tail [URL]", Short: "Print the events of a running serve-sse (watch --url)", Args: cli.Args(0, 1), Hidden: true}
	return watching(env, g, cmd, func(o *watchOptions, args []string) error { return o.TakeURL(args, cli.DefaultServeURL) })
}

// newReplay returns watch --no-follow, which prints NDJSON into a pipe and every event on a terminal.
func newReplay(env *cli.Env, g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{Use: "replay", Short: "Print stored events (watch --no-follow)", Args: cli.Args(0, 0), Hidden: true}
	return watching(env, g, cmd, func(o *watchOptions, _ []string) error {
		o.stored = true
		return nil
	})
}

// watching makes cmd run watch, and adds the flags of watch. parse sets the options that depend on the
// arguments.
func watching(env *cli.Env, g *cli.Globals, cmd *cobra.Command, parse func(*watchOptions, []string) error) *cobra.Command {
	opts := watchOptions{name: cmd.Name()}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(opts.streamFlags.parse(), opts.Filter.Parse(), opts.agentFlags.parse(cmd, g)); err != nil {
			return err
		}
		if err := parse(&opts, args); err != nil {
			return err
		}
		if err := opts.parseSource(cmd); err != nil {
			return err
		}
		opts.json = g.Format.Name == "json" || opts.name != "watch" && g.Format.Table() && !env.OutTTY && !cmd.Flag("output").Changed
		ctx, cancel := opts.Bound(cmd.Context())
		defer cancel()
		if opts.agent {
			return runWatchAgent(ctx, env, g, opts)
		}
		return runWatch(ctx, env, g, opts)
	}
	opts.streamFlags.add(cmd)
	f := cmd.Flags()
	opts.AddTypes(cmd)
	opts.AddServers(cmd)
	opts.AddChangedOnly(cmd)
	cli.AddSince(cmd, &opts.since)
	f.BoolVar(&opts.stored, "no-follow", false, "print what is stored, and exit")
	opts.LockFlags.Add(cmd)
	opts.JournalFlags.Add(cmd)
	opts.RemoteFlags.Add(cmd)
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
		if !isFile(arg) {
			o.named = append(o.named, arg)
			continue
		}
		name := printable.Line(arg, 200)
		if o.file != "" {
			return cli.Usage("watch takes one config file, not both %s and %s", printable.Line(o.file, 200), name)
		}
		o.file = arg
		for _, flag := range []string{"url", "host", "config", "demo"} {
			if cmd.Flags().Changed(flag) {
				return cli.UsageHint("remove "+name+" or --"+flag, "--%s cannot be used with the config file %s", flag, name)
			}
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

// parseSource validates the flags that select where events come from: a running serve-sse (--url), stored
// events (--no-follow), stored events and then servers (--since), or servers. It refuses the flags that only
// concern another source.
func (o *watchOptions) parseSource(cmd *cobra.Command) (err error) {
	if o.after, err = parseSince(cmd, o.since); err != nil {
		return err
	}
	o.after.All = o.stored && o.since == ""
	servers := []string{"all", "demo", "once", "no-follow-config", "no-exec-on-reload", "lock", "connect-timeout"}
	log, url := []string{"data-dir", "nats", "nats-credentials"}, []string{"token-file", "insecure"}
	refuse := func(how, hint string, flags ...string) error {
		for _, name := range flags {
			if cmd.Flags().Changed(name) {
				return cli.UsageHint(hint, "--%s %s", name, how)
			}
		}
		return nil
	}
	switch {
	case o.agent && (o.stored || o.since != "" && o.URL == ""):
		return cli.UsageHint("--since can be used with --agent and --url", "--agent cannot be used with the events stored on this machine, or with --no-follow")
	case o.URL != "":
		return refuse("cannot be used with --url", "use mcptrack watch without --url to follow servers, or to read the events stored here", slices.Concat(servers, log)...)
	case o.stored:
		return refuse("cannot be used with --no-follow", "use mcptrack watch without --no-follow to follow servers", slices.Concat(servers, url)...)
	case o.since != "":
		return refuse("cannot be used with --since", "", append(url, "demo")...)
	}
	return cmp.Or(refuse("needs --since", "--since 1h prints the events stored there", log...), refuse("needs --url", "", url...))
}

// stream returns the stream that prints the events.
func (o *watchOptions) stream(env *cli.Env, g *cli.Globals) *stream {
	s := newStream(env, g, o.streamFlags)
	if o.json {
		s.write, s.lines = jsonl.NewWriter(env.Out).Write, nil
		if !o.content && !o.diff {
			s.raw = bufio.NewWriterSize(nowait.NewWriter(env.Out), 64<<10)
		}
	}
	if !o.All() {
		s.keep = o.Keep
	}
	s.counts = func(e *event.Event) bool { return len(o.Types) > 0 || isChange(e) }
	return s
}

// checkNamed returns an error if a source of stored events has none about a named server. known lists further
// servers that may be named.
func (o *watchOptions) checkNamed(ctx context.Context, client remote.Client, known []string) error {
	if len(o.named) == 0 {
		return nil
	}
	servers, err := client.Servers(ctx)
	if err != nil {
		return nil // such as a gateway with --events, which lists no servers; otherwise, the feed reports why
	}
	for _, srv := range servers {
		known = append(known, srv.ID)
	}
	for _, name := range o.named {
		if slices.Contains(known, name) {
			continue
		}
		if events, err := client.Standing(ctx, name); err != nil || len(events) == 0 {
			return &cli.Failure{Exit: cli.ExitUsage, Code: "unknown_server", Err: fmt.Errorf("serve-sse knows no server %q", printable.Line(name, 128)),
				Hint: cli.DidYouMean(name, known, "mcptrack status lists the servers of a running serve-sse")}
		}
	}
	return nil
}

func (o *watchOptions) selection() cli.Selection {
	return cli.Selection{Servers: o.Servers, All: o.AllServers}
}

// pick returns the function that selects the servers to follow from each version of the config. It
// warns if a named server is missing.
func (o *watchOptions) pick(log *slog.Logger) func(*config.Config) *config.Config {
	return func(cfg *config.Config) *config.Config {
		for _, name := range o.named {
			if _, ok := cfg.Server(name); !ok && len(cfg.Servers) > 0 {
				log.Warn("the config has no server "+printable.Line(name, 128)+"; waiting for it", "file", cfg.Path, "hint", cli.DidYouMean(name, cli.ServerNames(cfg), "the config has: "+cli.Join(cli.ServerNames(cfg), 20)))
			}
		}
		return o.selection().Of(cfg)
	}
}

func runWatch(ctx context.Context, env *cli.Env, g *cli.Globals, opts watchOptions) error {
	log, s := g.Logger(env), opts.stream(env, g)
	follow := func(cfg *config.Config) {
		if opts.name != "replay" {
			s.follow(env, g, cfg, len(opts.Types) > 0)
		}
	}
	stored := opts.stored || opts.since != ""
	if opts.URL != "" || opts.stored || stored && opts.Written(env) { // no server is needed
		follow(nil)
		var err error
		if opts.URL != "" {
			err = opts.fromURL(ctx, env, log, s)
		} else {
			err = opts.fromLog(ctx, env, g, log, s, !opts.stored)
		}
		if opts.stored && s.lines != nil && !s.printed && err == nil {
			g.Tell(env, "no events")
		}
		if !errors.Is(err, errWriterEnded) {
			return s.outcome(ctx, err)
		}
		log.Warn("the process that stored the events has ended; this process now follows the servers")
	}
	cfg, err := opts.config(ctx, env, g, log)
	if err != nil {
		return err
	}
	follow(cfg)
	desired, err := opts.Desired(env, g, log, cfg, opts.pick(log))
	if err != nil {
		return err
	}
	if done, err := opts.fromDaemon(ctx, env, g, log, s, desired); done {
		return err
	}
	if opts.since != "" {
		if err := opts.fromLog(ctx, env, g, log, s, false); err != nil {
			return s.outcome(ctx, err)
		}
	}
	lock, err := opts.LockFlags.Open(env, g, cfg, log, false)
	if err != nil {
		return err
	}
	e, err := cli.NewUnstoredEngine(ctx, desired, opts.trackerOptions(env, g), lock)
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
