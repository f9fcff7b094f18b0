package commands

import (
	"bufio"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/event"
)

type replayOptions struct {
	cli.JournalFlags
	cli.Filter
	since string
	after since // parsed value of --since
	raw   bool  // print events exactly as stored
}

func newReplay(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts replayOptions
	cmd := &cobra.Command{
		Use:   "replay [--since ID|TIME|DURATION]",
		Short: "Print stored events",
		Long: `Prints the events that serve-sse has stored, oldest first, as NDJSON: all of them, or
those after an id, since a time (RFC 3339), or within the last DURATION. On a terminal
and with -o table it prints one aligned line for each event. Events that are no longer
stored, and entries that are not events (other programs can store anything on a
cluster), are printed as a gap.

The log of a data directory can be read while serve-sse runs. A log that does not exist
is an error; replay creates none.

Exit codes: 0 done; 1 failed; 2 wrong usage.`,
		Example: `  mcptrack replay --since 2h
  mcptrack replay --since 2026-11-20T08:00:00Z -o table
  mcptrack replay --since 3f9a1c20b7e4d581-42 --type 'resource.*'
  mcptrack replay --nats nats://a:4222,b:4222 --since 1d`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err = opts.Parse(); err != nil {
				return err
			}
			if opts.after, err = parseSince(cmd, opts.since); err != nil {
				return err
			}
			opts.raw = rawEvents(cmd, env, g)
			return runReplay(cmd.Context(), env, g, opts)
		},
	}
	opts.JournalFlags.Add(cmd)
	opts.AddTypes(cmd)
	opts.AddServers(cmd)
	cmd.Flags().StringVar(&opts.since, "since", "", "only events after this `ID`, since this time (RFC 3339), or within this duration (2h, 7d)")
	return cmd
}

func runReplay(ctx context.Context, env *cli.Env, g *cli.Globals, opts replayOptions) (err error) {
	stored, err := opts.Stored(ctx, env, g.Logger(env))
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }()
	from, gap, err := opts.after.place(ctx, stored)
	if err != nil {
		return err
	}
	print := newStream(env, g, streamFlags{})
	out := bufio.NewWriterSize(env.Out, 64<<10) // used if raw is set
	defer func() {
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
	}()
	line := func(text []byte) error {
		_, _ = out.Write(text)
		return out.WriteByte('\n') // also returns an earlier write error
	}
	if gap != nil {
		e := event.Event{ID: gap.To, Timestamp: time.Now(), Payload: *gap}
		text, err := e.AppendJSON(nil)
		switch {
		case err != nil || !opts.Keep(&e):
		case opts.raw:
			err = line(text)
		default:
			err = print.write(&e)
		}
		if err != nil {
			return err
		}
	}
	everything := opts.raw && opts.All() // no event needs to be decoded
	entries := stored.Read(ctx, from)
	if !everything {
		entries = readable(entries)
	}
	for entry, err := range entries {
		if err != nil {
			return err
		}
		if !everything {
			e, err := entry.Event()
			if err != nil {
				return err
			}
			if !opts.Keep(&e) {
				continue
			}
			if !opts.raw {
				if err := print.write(&e); err != nil {
					return err
				}
				continue
			}
		}
		if err := line(entry.Data()); err != nil { // exactly as stored
			return err
		}
	}
	return nil
}
