package commands

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// since is a value of --since: an id, a time, or neither.
type since struct {
	id   string
	time time.Time
}

// clockSkew is how far in the future the time of an event may be that another machine stored.
const clockSkew = time.Minute

// parseSince parses the flag --since of a command.
func parseSince(cmd *cobra.Command, s string) (since, error) {
	if !cmd.Flags().Changed("since") {
		return since{}, nil
	}
	if _, _, err := event.ParseID(s); err == nil {
		return since{id: s}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		switch now := time.Now(); {
		case t.After(now.Add(clockSkew)):
			return since{}, usage("--since %s is in the future; it is %s", s, now.UTC().Format(time.RFC3339))
		case t.Unix() < 0:
			return since{}, usageHint("1970-01-01T00:00:00Z is before every event", "--since %s is before 1970", s)
		}
		return since{time: t}, nil
	}
	age, err := parseAge("since", s)
	if err != nil {
		return since{}, usage("invalid --since %q; expected an id such as 3f9a1c20b7e4d581-42, a time such as 2026-11-20T08:00:00Z, or a duration such as 2h or 7d", printable.Line(s, 60))
	}
	return since{time: time.Now().Add(-age)}, nil
}

// place finds where to read from, and what is missing before it.
func (s since) place(ctx context.Context, log journal.Log) (from uint64, gap *event.Gap, err error) {
	switch {
	case s.id != "":
		r, err := log.Resume(ctx, s.id)
		return r.From, r.Gap, err
	case !s.time.IsZero():
		from, err = log.Since(ctx, s.time)
		return from, nil, err
	}
	return 0, nil, nil
}

// written reports whether another process writes the log at present, so that its events can be
// followed there.
func (j *journalFlags) written(env *Env) bool {
	if j.nats != "" {
		return true
	}
	dir, err := j.directory(env)
	return err == nil && sqlitelog.InUse(dir)
}

// backlog prints the stored events since an id or a time, and with follow also those that another
// process stores, until ctx ends or enough is printed.
func (s *stream) backlog(ctx context.Context, env *Env, log *slog.Logger, flags *journalFlags, at since, follow bool) error {
	stored, err := flags.stored(ctx, env, log)
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }() // it was only read
	from, gap, err := at.place(ctx, stored)
	if err != nil {
		return err
	}
	if gap != nil {
		if err := s.take([]*event.Event{{ID: gap.To, Timestamp: time.Now(), Payload: *gap}}); err != nil {
			return err
		}
	}
	if !follow {
		return s.print(ctx, readable(stored.Read(ctx, from)))
	}
	s.followed, s.connected = true, true
	return s.print(ctx, readable(journal.FollowToEnd(ctx, stored, from)))
}

// readable yields the events of entries, with a gap in place of each that is no event, because
// others on a cluster or a newer mcptrack stored it.
func readable(entries iter.Seq2[journal.Entry, error]) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for e, err := range entries {
			if _, bad := e.Event(); err == nil && bad != nil {
				epoch, _, _ := event.ParseID(e.ID) // the log made it
				gap := journal.GapEntry(epoch, e.Seq, e.Seq, journal.ReasonDamaged)
				gap.More = e.More
				e = gap
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
