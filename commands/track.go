package commands

import (
	"context"
	"errors"
	"log/slog"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// trackFlags say what a command follows, and whether it follows changes of the config.
type trackFlags struct {
	allServers   bool
	demo         bool
	noFollow     bool
	holdCommands bool
}

// addReload adds the flags for changes of the config.
func (o *trackFlags) addReload(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.noFollow, "no-follow-config", false, "ignore changes of the config file")
	f.BoolVar(&o.holdCommands, "no-exec-on-reload", false, "do not start new or changed commands of the config before SIGHUP")
}

// desired returns what an engine follows: the selected servers of a config, which load returned,
// and, unless the flags say otherwise, of what its file becomes.
func (o *trackFlags) desired(env *Env, g *globals, log *slog.Logger, cfg *config.Config, pick func(*config.Config) *config.Config) (engine.Desired, error) {
	d := engine.Desired{Config: cfg, Select: pick}
	kick := o.reloads(env)
	if o.noFollow || o.demo {
		return d, nil
	}
	c, err := g.permission(env, cfg.Path)
	if err != nil {
		return d, err
	}
	d.Follow = &reload.Options{Path: cfg.Path, Config: g.configOptions(env), Kick: kick, Hold: c.hold(cfg, o.holdCommands), Logger: log}
	return d, nil
}

// reloads receives when the user asks for files to be read again; nil if the config is not followed.
func (o *trackFlags) reloads(env *Env) <-chan struct{} {
	if o.noFollow || o.demo {
		return nil
	}
	return env.reloads()
}

// printed makes the engine of a command that prints events as they happen and keeps none.
func printed(ctx context.Context, d engine.Desired, opts tracker.Options) (*engine.Engine, error) {
	return engine.New(ctx, d, journal.NewMemory(journal.MemoryOptions{}), engine.Options{Tracker: opts, Logger: opts.Logger})
}

// trackerOptions are the options of the tracker of a command that prints events.
func (s *streamFlags) trackerOptions(env *Env, g *globals) tracker.Options {
	return tracker.Options{Dial: env.Dial, Session: s.session(env, g), Logger: statesOnce(env, g), Texts: s.content || s.diff}
}

func nothingToFollow(cfg *config.Config, s selection) error {
	return &failure{exit: exitConfig, code: "nothing_to_follow", err: errors.New("there is no server to follow"), hint: s.hint(cfg)}
}

// run runs the engine together with the parts until ctx ends, the stream has printed enough, or
// one of them fails. The stream also prints the events of the end. It returns the command's
// error.
func (s *stream) run(ctx context.Context, e *engine.Engine, parts ...engine.Part) error {
	return s.outcome(ctx, e.Run(ctx, append(parts, engine.Events(s.print))...))
}

// outcome returns the command's error, nil if it did what was asked for.
func (s *stream) outcome(ctx context.Context, failed error) error {
	switch {
	case errors.Is(failed, errCounted), errors.Is(failed, syscall.EPIPE):
		return nil
	case failed != nil:
		return failed
	}
	if !errors.Is(context.Cause(ctx), errTimeout) {
		return nil // interrupted: that is how streams end
	}
	switch {
	case !s.followed && !s.connected:
		return &failure{exit: exitUnreachable, code: "unreachable", err: errors.New("--timeout expired and there was no server to follow"),
			hint: "mcptrack validate shows how many servers are tracked"}
	case !s.connected:
		return &failure{exit: exitUnreachable, code: "unreachable", err: errors.New("--timeout expired and no server could be reached"),
			hint: "mcptrack list shows why"}
	case s.flags.count > 0:
		return &failure{exit: exitTimeout, code: "timeout", err: errors.New("--timeout expired before --count was reached"),
			hint: "give it more time with --timeout"}
	}
	return nil
}
