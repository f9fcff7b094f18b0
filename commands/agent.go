package commands

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/agent"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
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

// agentDir returns the directory for what a command stores about its reports. followed, together with the
// working directory, identifies it. It is empty if nothing is stored.
func agentDir(env *cli.Env, followed ...any) (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	key, err := json.Marshal(append([]any{folder}, followed...))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(key)
	dir := env.StateDir("agent", hex.EncodeToString(sum[:12]))
	if dir == "" {
		return "", fmt.Errorf("%w: there is no home directory", agent.ErrNoReader)
	}
	return dir, nil
}

// noReader returns the failure of a command that cannot store what it reports. Without --once, this is only a
// warning.
func (o *agentFlags) noReader(log *slog.Logger, err error) error {
	if o.once {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "no_cursor", Err: err, Hint: "make the state directory writable, or set XDG_STATE_HOME"}
	}
	log.Warn("cannot store which changes were reported; changes between this run and the next will not be reported", "err", err)
	return nil
}

// reporting returns a Watch that stores in dir what it reports, unless dir is empty. The caller closes its Reader.
func (o *watchOptions) reporting(env *cli.Env, log *slog.Logger, dir string, failed error) (*agent.Watch, error) {
	opts := agent.Options{W: env.Out, Keep: o.Keep, Count: o.count}
	if dir != "" {
		opts.Reader, failed = agent.OpenReader(dir, log)
	}
	if failed != nil {
		if err := o.noReader(log, failed); err != nil {
			return nil, err
		}
	}
	return agent.NewWatch(opts), nil
}

// agentEnd returns the command's error, or nil if the command succeeded. connected is whether a server, or the
// source of its events, was reached.
func (o *watchOptions) agentEnd(ctx context.Context, err error, connected bool) error {
	if errors.Is(err, agent.ErrEnough) {
		return nil
	}
	s := stream{flags: o.streamFlags, followed: true, connected: connected}
	return s.outcome(ctx, err)
}

// runWatchAgent implements watch --agent.
func runWatchAgent(ctx context.Context, env *cli.Env, g *cli.Globals, opts watchOptions) error {
	if opts.URL != "" {
		return agentFromURL(ctx, env, g.Logger(env), opts)
	}
	return agentFromConfig(ctx, env, g, opts)
}

// agentFromURL reports the events of a running serve-sse.
func agentFromURL(ctx context.Context, env *cli.Env, log *slog.Logger, opts watchOptions) error {
	client, err := opts.Client(env)
	if err == nil {
		err = opts.checkNamed(ctx, client, nil)
	}
	if err != nil {
		return err
	}
	dir, failed := agentDir(env, "feed", client.Base.String(), opts.Types, opts.Servers)
	w, err := opts.reporting(env, log, dir, failed)
	if err != nil {
		return err
	}
	defer w.Reader.Close()
	if opts.since == "" {
		opts.after.ID = w.Reader.ID()
	}
	connected := false
	err = w.Follow(ctx, client, remote.ReadOptions{From: opts.after, Types: opts.Types, Servers: opts.Servers, Logger: log, Connected: func() { connected = true }})
	if !errors.Is(err, agent.ErrEnough) {
		err = feedFailure(ctx, client, err, connected)
	}
	return opts.agentEnd(ctx, err, connected)
}

// agentFromConfig follows the servers in the config and stores their events, so that a later run begins with
// what changed since. If another process does the same, its events are reported until it ends.
func agentFromConfig(ctx context.Context, env *cli.Env, g *cli.Globals, opts watchOptions) error {
	log := g.Logger(env)
	cfg, err := opts.config(ctx, env, g, log)
	if err != nil {
		return err
	}
	dir := ""
	var failed error
	if !g.Demo() {
		path, err := filepath.Abs(cfg.Path)
		if err != nil {
			return err
		}
		dir, failed = agentDir(env, path, opts.Servers, opts.Types, opts.AllServers)
	}
	w, err := opts.reporting(env, log, dir, failed)
	if err != nil {
		return err
	}
	defer w.Reader.Close()
	desired, err := opts.Desired(env, g, log, cfg, opts.selection().Of)
	if err != nil {
		return err
	}
	beside := false
	for {
		var events journal.Log = journal.NewMemory(journal.MemoryOptions{})
		if w.Reader != nil {
			opts.Dir = dir
			events, err = opts.JournalFlags.Open(ctx, env, log, cli.Retained(keptForAgents))
		}
		switch {
		case errors.Is(err, journal.ErrLocked):
			beside = true
			err = opts.agentBeside(ctx, env, log, w)
		case err != nil:
			return err
		default:
			err = errors.Join(opts.agentFollows(ctx, env, g, desired, events, w), events.Close())
		}
		if !errors.Is(err, errWriterEnded) {
			return opts.agentEnd(ctx, err, beside || w.Connected())
		}
	}
}

// keptForAgents limits the size in bytes of the events that are stored for later runs.
const keptForAgents = 64 << 20

// agentBeside reports the events that another process stores, until it ends (errWriterEnded).
func (o *watchOptions) agentBeside(ctx context.Context, env *cli.Env, log *slog.Logger, w *agent.Watch) error {
	stored, err := o.Stored(ctx, env, log)
	if f, ok := errors.AsType[*cli.Failure](err); ok && f.Code == "nothing_stored" { // it has just begun
		backoff.Sleep(ctx, writerGone/50)
		return errWriterEnded
	}
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }() // nothing was written, so the error is irrelevant
	client := api.Local(stored, dashboard.Options{})
	from, err := w.Resume(ctx, stored)
	switch {
	case err != nil:
		return err
	case o.once:
		return w.Once(ctx, client, from, nil)
	}
	return o.whileWritten(ctx, env, func(ctx context.Context) error { return w.Follow(ctx, client, remote.ReadOptions{From: from}) })
}

// agentFollows follows the servers, stores their events and reports them.
func (o *watchOptions) agentFollows(ctx context.Context, env *cli.Env, g *cli.Globals, desired engine.Desired, events journal.Log, w *agent.Watch) error {
	from, err := w.Resume(ctx, events)
	if err != nil {
		return err
	}
	stored, err := events.States(ctx, "")
	if err != nil {
		return err
	}
	if o.once {
		desired.Follow = nil
	}
	sessions := o.SessionOptions(env, g)
	sessions.OneShot = o.once
	e, err := engine.New(ctx, desired, events, engine.Options{Logger: sessions.Logger,
		Tracker: tracker.Options{Dial: env.Dial, Session: sessions, Logger: sessions.Logger, Texts: true, Card: servercard.Fetch}})
	if err != nil {
		return err
	}
	client := api.Local(events, dashboard.Options{})
	if !o.once {
		var ended error // error from writing the last lines; set even after ctx has ended
		err := e.Run(ctx, engine.Reader(func(ctx context.Context) error {
			ended = w.Follow(ctx, client, remote.ReadOptions{From: from})
			return ended
		}))
		return cmp.Or(err, ended)
	}
	limited, cancel := context.WithTimeoutCause(ctx, onceFor, cli.ErrTimeout)
	defer cancel()
	var snap *status.Snapshot
	err = e.Run(context.WithoutCancel(ctx), engine.Source(func(context.Context) error {
		_, _ = e.Tracker().Settled(limited) // if it ends, use what is known by then
		agent.Compared(limited, e.Tracker().Snapshot, stored, func(id string) bool {
			srv, _ := desired.Config.Server(id)
			return srv.Read != config.ReadNone
		})
		snap = e.Tracker().Snapshot()
		return cli.ErrStopped
	}))
	if !errors.Is(err, cli.ErrStopped) {
		return err
	}
	return reportOnce(limited, w, client, from, snap.Servers)
}

// reportOnce reports the changes since the last run. It fails only if no server could be reached; otherwise it
// reports unreachable servers, because hooks discard the output of a failed command.
func reportOnce(ctx context.Context, w *agent.Watch, client remote.Client, from remote.Position, servers []status.ServerStatus) error {
	var missed []string
	reached := false
	for i := range servers {
		switch st := &servers[i]; {
		case st.Connected():
			reached = true
		case st.State != event.Disabled:
			missed = append(missed, printable.Line(st.ID, 64))
		}
	}
	switch {
	case reached:
		return w.Once(context.WithoutCancel(ctx), client, from, servers)
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), cli.ErrTimeout):
		return context.Cause(ctx) // interrupted
	}
	return cli.Unreachable("mcptrack list shows why", "no server could be reached: %s", cli.Join(missed, 10))
}
