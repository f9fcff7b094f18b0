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
	after since // parsed from since
	lines bool  // --output was given as table or wide: print lines also into a pipe
}

func newReplay(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts replayOptions
	cmd := &cobra.Command{
		Use:   "replay [--since ID|TIME|DURATION]",
		Short: "Print stored events",
		Long: `Prints the events that serve-sse has stored, oldest first, as NDJSON: all of them, or
those after an id, since a time (RFC 3339), or within the last DURATION. On a terminal
and with -o table it prints one aligned line for each event. Where events are no longer
there, or are not events (others can store anything on a cluster), it prints a gap.

The log of a data directory can be read while serve-sse runs. A log that does not
exist is an error; nothing is made.

Exit codes: 0 done; 1 failed; 2 wrong usage.`,
		Example: `  mcptrack replay --since 2h
  mcptrack replay --since 2026-11-20T08:00:00Z -o table
  mcptrack replay --since 3f9a1c20b7e4d581-42 --type 'resource.*'
  mcptrack replay --nats nats://a:4222,b:4222 --since 1d`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Types, opts.Servers = cli.SplitList(opts.Types), cli.SplitList(opts.Servers)
			if err := opts.Check(); err != nil {
				return err
			}
			var err error
			if opts.after, err = parseSince(cmd, opts.since); err != nil {
				return err
			}
			opts.lines = g.Format.Table() && cmd.Flag("output").Changed
			return runReplay(cmd.Context(), env, g, opts)
		},
	}
	opts.Add(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.since, "since", "", "only events after this `ID`, since this time (RFC 3339), or within this duration (2h, 7d)")
	f.StringSliceVar(&opts.Types, "type", nil, "only events of these `TYPES` (globs, separated by commas)")
	f.StringSliceVar(&opts.Servers, "server", nil, "only these server `IDS` (globs, separated by commas)")
	_ = cmd.RegisterFlagCompletionFunc("type", completeTypes)
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
	raw := g.Format.Name == "json" || g.Format.Table() && !env.OutTTY && !opts.lines
	out := bufio.NewWriterSize(env.Out, 64<<10) // used when raw
	defer func() {
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
	}()
	put := func(e *event.Event, line []byte) error {
		switch {
		case !opts.Keep(e):
			return nil
		case raw: // as stored, byte for byte
			_, _ = out.Write(line)
			return out.WriteByte('\n') // the error of Write, if it had one
		}
		return print.write(e)
	}
	if gap != nil {
		e := event.Event{ID: gap.To, Timestamp: time.Now(), Payload: *gap}
		line, err := e.AppendJSON(nil)
		if err != nil {
			return err
		}
		if err := put(&e, line); err != nil {
			return err
		}
	}
	asStored := raw && opts.All()
	entries := stored.Read(ctx, from)
	if !asStored {
		entries = readable(entries)
	}
	for entry, err := range entries {
		if err != nil {
			return err
		}
		if asStored {
			_, _ = out.Write(entry.Data())
			if err := out.WriteByte('\n'); err != nil { // that of Write, if it had one
				return err
			}
			continue
		}
		e, err := entry.Event()
		if err != nil {
			return err
		}
		if err := put(&e, entry.Data()); err != nil {
			return err
		}
	}
	return nil
}
