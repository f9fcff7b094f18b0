package commands

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/remote"
)

// clockSkew limits how far in the future the time of an event from another machine may be.
const clockSkew = time.Minute

// parseSince parses the value of --since.
func parseSince(cmd *cobra.Command, s string) (remote.Position, error) {
	if !cmd.Flags().Changed("since") {
		return remote.Position{}, nil
	}
	if _, _, err := event.ParseID(s); err == nil {
		return remote.Position{ID: s}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		switch now := time.Now(); {
		case t.After(now.Add(clockSkew)):
			return remote.Position{}, cli.Usage("--since %s is in the future; it is %s", s, now.UTC().Format(time.RFC3339))
		case t.Unix() < 0:
			return remote.Position{}, cli.UsageHint("1970-01-01T00:00:00Z is before every event", "--since %s is before 1970", s)
		}
		return remote.Position{Time: t}, nil
	}
	age, err := cli.ParseAge("since", s)
	if err != nil {
		return remote.Position{}, cli.Usage("invalid --since %q; expected an id such as 3f9a1c20b7e4d581-42, a time such as 2026-11-20T08:00:00Z, or a duration such as 2h or 7d", printable.Line(s, 60))
	}
	return remote.Position{Time: time.Now().Add(-age)}, nil
}

// fromURL prints the events of a running serve-sse.
func (o *watchOptions) fromURL(ctx context.Context, env *cli.Env, log *slog.Logger, s *stream) error {
	client, err := o.Client(env)
	if err == nil {
		err = o.checkNamed(ctx, client, nil)
	}
	if err != nil {
		return err
	}
	err = s.from(ctx, client, remote.ReadOptions{From: o.after, Stored: o.stored, Types: o.Types, Servers: o.Servers, Logger: log, Connected: s.reached})
	return feedFailure(ctx, client, err, s.connected)
}

// feedFailure adds an exit code and a hint to an error of a feed. connected is whether it was ever connected.
func feedFailure(ctx context.Context, client remote.Client, err error, connected bool) error {
	err = cli.RemoteFailure(ctx, err, "token-file")
	_, refused := errors.AsType[*cli.Failure](err)
	switch {
	case refused:
	case errors.Is(err, remote.ErrFeedEnded):
		return nil
	case !connected && (err != nil || errors.Is(context.Cause(ctx), cli.ErrTimeout)):
		if err == nil {
			err = cli.ErrTimeout
		}
		return cli.Unreachable("is mcptrack serve-sse running there?", "%s cannot be reached: %w", client.Base.Host, err)
	}
	return err
}

// errWriterEnded reports that no process is writing to the log any longer.
var errWriterEnded = errors.New("the process that stored the events has ended")

// writerGone is how long a followed log may have no writer. A restart takes less time.
const writerGone = 5 * time.Second

// fromLog prints the stored events. With follow it also prints new events that another process stores,
// until ctx ends, or until that process has exited (errWriterEnded). It sets o.after to where to resume.
func (o *watchOptions) fromLog(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger, s *stream, follow bool) error {
	stored, err := o.Stored(ctx, env, log)
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }() // nothing was written, so the error is irrelevant
	client := api.Local(stored, dashboard.Options{})
	if err := o.checkNamed(ctx, client, cli.ServerNames(cli.ConfigForCompletion(env, g))); err != nil {
		return err
	}
	reading, end := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer end(nil)
	if follow {
		looking.Go(func() {
			for seen := time.Now(); backoff.Sleep(reading, writerGone/5); {
				if o.Written(env) {
					seen = time.Now()
				} else if time.Since(seen) > writerGone {
					end(errWriterEnded)
				}
			}
		})
	}
	s.last = ""
	err = s.from(reading, client, remote.ReadOptions{From: o.after, Stored: !follow, Connected: s.reached})
	if s.last != "" {
		o.after = remote.Position{ID: s.last}
	}
	if cause := context.Cause(reading); err == nil && errors.Is(cause, errWriterEnded) {
		return cause
	}
	return err
}
