package commands

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// newTracker makes the tracker of a command that prints events.
func newTracker(env *Env, g *globals, flags streamFlags) *tracker.Tracker {
	return tracker.New(tracker.Options{
		Dial: env.Dial, Session: flags.session(env, g), Logger: g.logger(env),
		Texts: flags.content || flags.diff,
	})
}

// followConfig returns what keeps the tracker to the config's file, for as long as it
// runs: each good config is applied. hold keeps new and changed commands back until
// SIGHUP.
func followConfig(env *Env, cfg *config.Config, hold bool, t *tracker.Tracker, apply func(*config.Config), log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return reload.Run(ctx, reload.Options{
			Path: cfg.Path, Config: configOptions(env), Current: cfg, Kick: env.reloads(), HoldCommands: hold,
			Apply: apply, Publish: t.Publish, Logger: log,
		})
	}
}

func nothingToFollow(cfg *config.Config, servers []string) error {
	return &failure{exit: exitConfig, code: "nothing_to_follow", err: errors.New("there is no server to follow"), hint: hintFollow(cfg, servers)}
}

// hintFollow is what to do about a config without a server to follow among those of
// --server, globs; none: all.
func hintFollow(cfg *config.Config, servers []string) string {
	var ids []string
	for _, srv := range cfg.Servers {
		if ids = append(ids, srv.ID); matchesAny(servers, srv.ID) {
			servers = nil // it is there, but not to be followed
		}
	}
	if len(servers) == 0 || len(ids) == 0 {
		return `set "trackResources": true on the servers to follow`
	}
	return "--server matches none of the config's: " + printable.Line(strings.Join(ids, ", "), 200)
}

// errPrinted ends a tracker whose output has ended.
var errPrinted = errors.New("output ended")

// track runs the tracker, and beside it what else the command does, until ctx
// ends, the stream has printed what it should, or beside fails. The stream sees
// what the tracker tells while it shuts down. The error is the command's.
func track(ctx context.Context, t *tracker.Tracker, s *stream, beside ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		running sync.WaitGroup
		once    sync.Once
		failed  error // the first that ended it all
	)
	end := func(err error) {
		once.Do(func() { failed = err })
		cancel(errPrinted)
	}
	for _, work := range beside {
		running.Go(func() {
			if err := work(ctx); err != nil && ctx.Err() == nil {
				end(err)
			}
		})
	}
	// The tracker ends the stream, not ctx: what it tells last is printed.
	unbound := context.WithoutCancel(ctx)
	_, sub := t.Subscribe(unbound)
	printed := make(chan struct{}) // closed when nothing more is printed
	running.Go(func() {
		defer close(printed)
		if err := s.run(unbound, t, sub); err != nil {
			end(err)
		}
	})
	_ = t.Run(ctx)
	<-printed
	cancel(errPrinted)
	running.Wait()
	return s.outcome(ctx, failed)
}

// outcome is the command's error: why it ended, and whether that is what was
// asked for.
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
	case !s.connected:
		return &failure{exit: exitUnreachable, code: "unreachable", err: errors.New("--timeout ran out and no server could be reached"),
			hint: "mcptrack list shows why"}
	case s.flags.count > 0:
		return &failure{exit: exitTimeout, code: "timeout", err: errors.New("--timeout ran out before --count was reached"),
			hint: "give it more time with --timeout"}
	}
	return nil
}
