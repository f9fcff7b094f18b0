package commands

import (
	"cmp"
	"context"
	"errors"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// newTracker returns the tracker of a command that prints events.
func newTracker(env *Env, g *globals, flags streamFlags) *tracker.Tracker {
	return tracker.New(tracker.Options{
		Dial: env.Dial, Session: flags.session(env, g), Logger: statesOnce(env, g),
		Texts: flags.content || flags.diff,
	})
}

// followConfig returns a function that applies every valid version of the config file
// until its context ends, but for what the user has not approved. hold delays new and changed
// commands until SIGHUP. cfg is the config in use, which load returned.
func followConfig(env *Env, g *globals, cfg *config.Config, hold bool, t *tracker.Tracker, apply func(*config.Config)) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := g.permission(env, cfg.Path)
		if err != nil {
			return err
		}
		return reload.Run(ctx, reload.Options{
			Path: cfg.Path, Config: g.configOptions(env), Current: cfg, Kick: env.reloads(), Hold: c.hold(cfg, hold),
			Apply: apply, Publish: t.Publish, Logger: g.logger(env),
		})
	}
}

func nothingToFollow(cfg *config.Config, s selection) error {
	return &failure{exit: exitConfig, code: "nothing_to_follow", err: errors.New("there is no server to follow"), hint: s.hint(cfg)}
}

// errPrinted ends a tracker whose output has ended.
var errPrinted = errors.New("output ended")

// track runs the tracker together with the functions in also until ctx ends, the stream
// has printed enough, or one of them fails. The stream also prints the events that the
// tracker publishes while it shuts down. track returns the command's error.
func track(ctx context.Context, t *tracker.Tracker, s *stream, also ...func(context.Context) error) error {
	running, ours := errgroup.WithContext(ctx)
	for _, work := range also {
		running.Go(func() error {
			if err := work(ours); ours.Err() == nil {
				return err
			}
			return nil
		})
	}
	// The tracker ends the stream, not ctx, so that its last events are printed.
	unbound := context.WithoutCancel(ctx)
	_, sub := t.Subscribe(unbound)
	running.Go(func() error { return cmp.Or(s.run(unbound, t, sub), errPrinted) })
	_ = t.Run(ours)
	failed := running.Wait()
	if errors.Is(failed, errPrinted) {
		failed = nil
	}
	return s.outcome(ctx, failed)
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
