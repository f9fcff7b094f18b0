package commands

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/lines"
)

// newScreen returns the screen of a command that prints lines on a terminal, and an environment
// whose stderr does not overwrite the lines at the bottom of the screen; a nil screen if the
// output is not lines on a terminal.
func newScreen(env *Env, g *globals) (*Env, *lines.Screen) {
	if !g.format.Table() || env.width() == 0 || env.getenv("TERM") == "dumb" {
		return env, nil
	}
	screen := lines.NewScreen(env.Out)
	if !env.ErrTTY {
		return env, screen
	}
	beside := *env
	beside.Err = screen.Beside(env.Err)
	return &beside, screen
}

// follow prepares the lines of a long-running command: transient states are left out unless
// types says that --type selects events, the servers of cfg get columns and colours, and after
// the first subscription a terminal gets a hint.
func (s *stream) follow(env *Env, g *globals, screen *lines.Screen, cfg *config.Config, types bool) {
	if s.lines == nil {
		return
	}
	s.lines.Verbose, s.lines.Screen = s.flags.verbose || types, screen
	if cfg != nil {
		for _, srv := range cfg.Servers {
			if srv.Tracked() {
				s.lines.Servers(srv.ID)
			}
		}
	}
	if screen == nil || !env.ErrTTY || g.quiet || s.flags.diff || s.flags.content || s.flags.verbose || s.lines.Wide {
		return
	}
	hinted := false
	s.write = func(events ...*event.Event) error {
		if err := s.lines.Write(events...); err != nil || hinted {
			return err
		}
		for _, e := range events {
			if e.Type() == event.TypeSubscriptionActive && !hinted {
				hinted = true
				fmt.Fprintln(env.Err, "hint: --diff shows what changes, -v every state; mcptrack top is a live view; -q leaves out hints")
			}
		}
		return nil
	}
}

// statesOnce is the logger of a tracker whose events are printed as lines on the terminal that
// the log is written to: it leaves out records that repeat events about states.
func statesOnce(env *Env, g *globals) *slog.Logger {
	log := g.logger(env)
	if !g.format.Table() || !env.OutTTY || !env.ErrTTY {
		return log
	}
	return slog.New(withoutStates{log.Handler()})
}

type withoutStates struct{ slog.Handler }

func (h withoutStates) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == status.StateMessage {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutStates) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutStates{h.Handler.WithAttrs(attrs)}
}

func (h withoutStates) WithGroup(name string) slog.Handler {
	return withoutStates{h.Handler.WithGroup(name)}
}
