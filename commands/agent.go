package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/agent"
	"github.com/mcptrack/mcptrack/output/remote"
)

// agentFlags contains the flags of commands that report to agents.
type agentFlags struct {
	agent bool
	once  bool // --once, which only watch has
}

// onceFor limits a run with --once, because the agent waits for its hook to finish.
const onceFor = 30 * time.Second

func (o *agentFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.agent, "agent", false, "print at most one short line per second, for agents; see mcptrack help agents")
}

func (o *agentFlags) addOnce(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.once, "once", false, "with --agent: print what changed since the last run, and exit")
}

// parse validates the flags and checks that they are compatible with the command's other flags.
func (o *agentFlags) parse(cmd *cobra.Command, g *cli.Globals) error {
	if !o.agent {
		if o.once {
			return cli.Usage("--once needs --agent")
		}
		return nil
	}
	if g.JSON || cmd.Flag("output").Changed {
		return cli.UsageHint("omit --agent to print events as JSON", "--agent cannot be used with --output or --json")
	}
	for _, name := range []string{"content", "diff", "verbose", "lock"} {
		if f := cmd.Flag(name); f != nil && f.Changed {
			return cli.Usage("--agent cannot be used with --%s", name)
		}
	}
	if f := cmd.Flag("count"); o.once && f.Changed {
		return cli.Usage("--once cannot be used with --count")
	}
	return nil
}

// openCursor opens the cursor file, which records what was already reported. followed, together
// with the working directory, identifies the cursor. Without --once, a failure is only a warning.
func (o *agentFlags) openCursor(env *cli.Env, log *slog.Logger, followed any) (*agent.Cursor, error) {
	folder, err := os.Getwd()
	key, keyErr := json.Marshal([]any{folder, followed})
	dir := env.StateDir("agent")
	if dir == "" {
		err = fmt.Errorf("%w: there is no home directory", agent.ErrNoCursor)
	}
	var c *agent.Cursor
	if err = errors.Join(err, keyErr); err == nil {
		c, err = agent.OpenCursor(dir, string(key), log)
	}
	switch {
	case err == nil:
		return c, nil
	case o.once:
		return nil, &cli.Failure{Exit: cli.ExitFailed, Code: "no_cursor", Err: err, Hint: "make the state directory writable, or set XDG_STATE_HOME"}
	}
	log.Warn("cannot store which changes were reported; changes between this run and the next will not be reported", "err", err)
	return nil, nil
}

// runWatchAgent implements watch --agent.
func runWatchAgent(ctx context.Context, env *cli.Env, g *cli.Globals, opts watchOptions) error {
	if opts.URL != "" {
		return agentFromURL(ctx, env, g.Logger(env), opts)
	}
	log := g.Logger(env)
	cfg, err := opts.config(ctx, env, g, log)
	if err != nil {
		return err
	}
	var followed atomic.Pointer[config.Config]
	followed.Store(opts.selection().Of(cfg))
	var cursor *agent.Cursor
	if !g.Demo() {
		path, err := filepath.Abs(cfg.Path)
		if err != nil {
			return err
		}
		if cursor, err = opts.openCursor(env, log, []any{path, opts.Servers, opts.Types, opts.AllServers}); err != nil {
			return err
		}
		defer cursor.Close()
	}
	desired, err := opts.Desired(env, g, log, cfg, func(next *config.Config) *config.Config {
		followed.Store(opts.selection().Of(next))
		return followed.Load()
	})
	if err != nil {
		return err
	}
	if opts.once {
		desired.Follow = nil
	}
	sessions := opts.SessionOptions(env, g)
	sessions.OneShot = opts.once
	e, err := cli.NewUnstoredEngine(ctx, desired, tracker.Options{Dial: env.Dial, Session: sessions, Logger: log, Texts: true, Stored: cursor.Stored(), Card: servercard.Fetch}, nil)
	if err != nil {
		return err
	}
	w := agent.NewWatch(e.Tracker(), agent.Options{W: env.Out, Cursor: cursor, Keep: opts.Keep, Count: opts.count,
		Server: func(id string) (config.Server, bool) { return followed.Load().Server(id) }})
	if opts.once {
		return watchOnce(ctx, e, w)
	}
	var ended error // error from writing the last lines; set even after ctx has ended
	failed := e.Run(ctx, engine.Reader(func(context.Context) error {
		ended = w.Run()
		return ended
	}))
	failed = cmp.Or(failed, ended)
	if errors.Is(failed, agent.ErrEnough) {
		failed = errCounted
	}
	s := stream{flags: opts.streamFlags, followed: true, connected: w.Connected()}
	return s.outcome(ctx, failed)
}

// watchOnce reports the changes since the last run. It fails only if no server can be reached;
// otherwise it reports unreachable servers, because hooks discard the output of a failed command.
func watchOnce(ctx context.Context, e *engine.Engine, w *agent.Watch) error {
	ctx, cancel := context.WithTimeoutCause(ctx, onceFor, cli.ErrTimeout)
	defer cancel()
	var reached, missed []string
	err := e.Run(context.WithoutCancel(ctx), engine.Source(func(context.Context) (err error) {
		if reached, missed, err = w.Once(ctx); err == nil {
			err = cli.ErrStopped
		}
		return err
	}))
	if errors.Is(err, cli.ErrStopped) {
		err = nil
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil
	case err != nil:
		return err
	case len(reached) == 0 && ctx.Err() != nil && !errors.Is(context.Cause(ctx), cli.ErrTimeout):
		return context.Cause(ctx) // interrupted
	case len(reached) == 0:
		for i := range missed {
			missed[i] = printable.Line(missed[i], 64)
		}
		return cli.Unreachable("mcptrack list shows why", "no server could be reached: %s", cli.Join(missed, 10))
	}
	return nil
}

// agentFromURL implements --agent with the feed of a running serve-sse. It resumes after the last event
// that an earlier run reported.
func agentFromURL(ctx context.Context, env *cli.Env, log *slog.Logger, opts watchOptions) error {
	client, err := opts.Client(env)
	if err == nil {
		err = opts.checkNamed(ctx, client, nil)
	}
	if err != nil {
		return err
	}
	cursor, err := opts.openCursor(env, log, []any{"feed", client.Base.String(), opts.Types, opts.Servers})
	if err != nil {
		return err
	}
	defer cursor.Close()
	if opts.since == "" {
		opts.after.ID = cursor.LastID()
	}
	s := stream{flags: opts.streamFlags}
	err = agent.Feed(ctx, agent.Options{W: env.Out, Cursor: cursor, Keep: opts.Keep, Count: opts.count}, client,
		remote.ReadOptions{From: opts.after, Types: opts.Types, Servers: opts.Servers, Logger: log, Connected: s.reached})
	if errors.Is(err, agent.ErrEnough) {
		return nil
	}
	return s.outcome(ctx, feedFailure(ctx, client, err, s.connected))
}
