package commands

import (
	"bufio"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

type replayOptions struct {
	journalFlags
	filter
	since string
}

func newReplay(env *Env, g *globals) *cobra.Command {
	var opts replayOptions
	cmd := &cobra.Command{
		Use:   "replay [--since ID|DURATION]",
		Short: "Print stored events",
		Long: `Prints what serve-sse has stored, oldest first, as NDJSON (lines for people on a
terminal): all of it, or what came after an id, or within the last DURATION. Events
that are no longer there are told as a gap, and so is what others stored on a
cluster that is no event.

A log that does not exist is an error; nothing is made. A data directory belongs to
one process at a time: while serve-sse runs, ask its /events?since=ID instead.

Exit codes: 0 done; 1 failed; 2 wrong usage.`,
		Example: `  mcptrack replay --since 2h
  mcptrack replay --since 3f9a1c20b7e4d581-42 --type 'resource.*'
  mcptrack replay --nats nats://a:4222,b:4222 --since 1d`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.types, opts.servers = globs(opts.types), globs(opts.servers)
			if err := opts.check(); err != nil {
				return err
			}
			return runReplay(cmd.Context(), env, g, opts)
		},
	}
	opts.add(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.since, "since", "", "only what came after this `ID`, or within this duration (2h, 7d)")
	f.StringSliceVar(&opts.types, "type", nil, "only events of these `TYPES`, globs separated by commas")
	f.StringSliceVar(&opts.servers, "server", nil, "only these servers, `IDS` or globs separated by commas")
	_ = cmd.RegisterFlagCompletionFunc("type", completeTypes)
	return cmd
}

func runReplay(ctx context.Context, env *Env, g *globals, opts replayOptions) (err error) {
	since, err := parseSince(opts.since)
	if err != nil {
		return err
	}
	stored, err := opts.open(ctx, env, g.logger(env), journal.Options{Existing: true})
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }()
	from, gap, err := since.place(ctx, stored)
	if err != nil {
		return err
	}
	print := newStream(env, g, streamFlags{})
	raw := g.format.Name == "json" || g.format.Table() && !env.OutTTY && g.output != "wide"
	out := bufio.NewWriterSize(env.Out, 64<<10) // used when raw
	defer func() {
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
	}()
	put := func(e *event.Event, line []byte) error {
		switch {
		case !opts.keep(e):
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
	asStored := raw && opts.all()
	for entry, err := range stored.Read(ctx, from) {
		if err != nil {
			return err
		}
		if asStored {
			_, _ = out.Write(entry.Data)
			if err := out.WriteByte('\n'); err != nil { // that of Write, if it had one
				return err
			}
			continue
		}
		e, line, err := decode(&entry)
		if err != nil {
			return err
		}
		if err := put(e, line); err != nil {
			return err
		}
	}
	return nil
}

// decode returns an entry as an event and its line. Others on a cluster, or a newer
// mcptrack, may have stored what is none to us: that is told in its place, and no
// reason to end.
func decode(entry *journal.Entry) (*event.Event, []byte, error) {
	if e, err := entry.Event(); err == nil {
		return &e, entry.Data, nil
	}
	epoch, seq, err := event.ParseID(entry.ID)
	if err != nil {
		return nil, nil, err
	}
	e := event.Event{ID: entry.ID, Seq: seq, Timestamp: entry.Stored, Payload: event.Gap{
		From: event.FormatID(epoch, seq-1), To: entry.ID, Reason: journal.ReasonDamaged}}
	line, err := e.AppendJSON(nil)
	return &e, line, err
}

// since is a value of --since: an id, an age, or neither.
type since struct {
	id  string
	age time.Duration
}

func parseSince(s string) (since, error) {
	if s == "" {
		return since{}, nil
	}
	if _, _, err := event.ParseID(s); err == nil {
		return since{id: s}, nil
	}
	if strings.Contains(s, "-") {
		return since{}, usage("--since: %q is no id; ids look like 3f9a1c20b7e4d581-42", s)
	}
	age, err := parseAge(s)
	return since{age: age}, err
}

// place finds where to read from, and what is missing before it.
func (s since) place(ctx context.Context, j *journal.Journal) (from uint64, gap *event.Gap, err error) {
	switch {
	case s.id != "":
		r, err := j.Resume(ctx, s.id)
		return r.From, r.Gap, err
	case s.age > 0:
		from, err = j.Since(ctx, time.Now().Add(-s.age))
		return from, nil, err
	}
	return 0, nil, nil
}
