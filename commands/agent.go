package commands

import (
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
	cmd.Flags().BoolVar(&o.agent, "agent", false, "print short lines (mcptrack help agents)")
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

// openReader opens the reader that stores what was reported. followed, together with the working directory,
// identifies its directory. It is nil if nothing can be stored; see unstored.
func (o *agentFlags) openReader(env *cli.Env, log *slog.Logger, followed ...any) (r *agent.Reader, dir string, err error) {
	folder, err := os.Getwd()
	key, keyErr := json.Marshal(append([]any{folder}, followed...))
	if err = errors.Join(err, keyErr); err == nil {
		sum := sha256.Sum256(key)
		if dir = env.StateDir("agent", hex.EncodeToString(sum[:12])); dir == "" {
			err = fmt.Errorf("%w: there is no home directory", agent.ErrNoReader)
		} else {
			r, err = agent.OpenReader(dir, log)
		}
	}
	if err != nil {
		return nil, "", o.unstored(log, err)
	}
	return r, dir, nil
}

// unstored returns the error of a run with --once that cannot store what was reported. Without --once, it logs err,
// and the run continues.
func (o *agentFlags) unstored(log *slog.Logger, err error) error {
	if o.once {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "no_cursor", Err: err, Hint: "make the state directory writable, or set XDG_STATE_HOME"}
	}
	log.Warn("cannot store which changes were reported; changes between this run and the next will not be reported", "err", err)
	return nil
}

// runWatchAgent implements watch --agent. The events of servers in the config are stored, so that a later run
// begins with what changed since. If another process does the same, its events are read until it ends.
func runWatchAgent(ctx context.Context, env *cli.Env, g *cli.Globals, opts watchOptions) error {
	log := g.Logger(env)
	s := &stream{flags: opts.streamFlags}
	report := agent.Options{W: env.Out, Keep: opts.Keep, Count: opts.count}
	var err error
	if opts.URL != "" {
		if report.Reader, _, err = opts.openReader(env, log, "feed", opts.URL, opts.Types, opts.Servers); err != nil {
			return err
		}
		defer report.Reader.Close()
		if s.agent = agent.NewWatch(report); opts.since == "" {
			opts.after.ID = report.Reader.ID()
		}
		return s.outcome(ctx, opts.fromURL(ctx, env, log, s))
	}
	cfg, err := opts.config(ctx, env, g, log)
	if err != nil {
		return err
	}
	if !g.Demo() {
		path, err := filepath.Abs(cfg.Path)
		if err != nil {
			return err
		}
		if report.Reader, opts.Dir, err = opts.openReader(env, log, path, opts.Servers, opts.Types, opts.AllServers); err != nil {
			return err
		}
		defer report.Reader.Close()
	}
	desired, err := opts.Desired(env, g, log, cfg, opts.selection().Of)
	if err != nil {
		return err
	}
	for s.agent = agent.NewWatch(report); ; {
		var events journal.Log = journal.NewMemory(journal.MemoryOptions{})
		var err error
		if report.Reader != nil {
			events, err = opts.JournalFlags.Open(ctx, env, log, cli.Retained(keptForAgents))
		}
		switch {
		case errors.Is(err, journal.ErrLocked):
			opts.after.ID = report.Reader.ID()
			err = opts.fromLog(ctx, env, g, log, s, !opts.once)
			if f, ok := errors.AsType[*cli.Failure](err); ok && f.Code == "nothing_stored" { // the other process has just begun
				if err = nil; backoff.Sleep(ctx, writerGone/50) {
					continue
				}
			}
		case err != nil:
			if err := opts.unstored(log, err); err != nil {
				return err
			}
			report.Reader = nil
			s.agent = agent.NewWatch(report)
			continue
		default:
			err = errors.Join(opts.agentFollows(ctx, env, g, desired, events, s), events.Close())
		}
		if !errors.Is(err, errWriterEnded) {
			return s.outcome(ctx, err)
		}
	}
}

// keptForAgents limits the size in bytes of the events that are stored for later runs.
const keptForAgents = 64 << 20

// agentFollows follows the servers, stores their events and reports them.
func (o *watchOptions) agentFollows(ctx context.Context, env *cli.Env, g *cli.Globals, desired engine.Desired, events journal.Log, s *stream) error {
	from, err := s.agent.Resume(ctx, events)
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
		err := runReading(ctx, e, func(ctx context.Context) error { return s.from(ctx, client, remote.ReadOptions{From: from}) })
		s.followed, s.connected = true, s.connected || s.agent.Connected()
		return err
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
	var missed []string
	for i := range snap.Servers {
		switch st := &snap.Servers[i]; {
		case st.Connected():
			s.reached()
		case st.State != event.Disabled:
			missed = append(missed, printable.Line(st.ID, 64))
		}
	}
	switch { // hooks discard the output of a failed command
	case s.connected:
		return s.agent.Once(context.WithoutCancel(ctx), client, remote.ReadOptions{From: from}, snap.Servers)
	case limited.Err() != nil && !errors.Is(context.Cause(limited), cli.ErrTimeout):
		return context.Cause(limited) // interrupted
	}
	return cli.Unreachable("mcptrack list shows why", "no server could be reached: %s", cli.Join(missed, 10))
}
