package commands

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// since is the parsed value of --since: an id, a time, or neither.
type since struct {
	id   string
	time time.Time
}

// clockSkew limits how far in the future the time of an event from another machine may be.
const clockSkew = time.Minute

// parseSince parses the value of --since.
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
			return since{}, cli.Usage("--since %s is in the future; it is %s", s, now.UTC().Format(time.RFC3339))
		case t.Unix() < 0:
			return since{}, cli.UsageHint("1970-01-01T00:00:00Z is before every event", "--since %s is before 1970", s)
		}
		return since{time: t}, nil
	}
	age, err := cli.ParseAge("since", s)
	if err != nil {
		return since{}, cli.Usage("invalid --since %q; expected an id such as 3f9a1c20b7e4d581-42, a time such as 2026-11-20T08:00:00Z, or a duration such as 2h or 7d", printable.Line(s, 60))
	}
	return since{time: time.Now().Add(-age)}, nil
}

// place returns the number of the first entry to read, and the gap before it, if any.
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

// backlog prints the stored events since an id or a time. With follow it also prints new events
// that another process stores, until ctx ends, --count is reached, or that process has exited
// (errWriterEnded). It returns where to resume.
func (s *stream) backlog(ctx context.Context, env *cli.Env, log *slog.Logger, flags *cli.JournalFlags, check func(journal.Log) error, at since, follow bool) (since, error) {
	stored, err := flags.Stored(ctx, env, log)
	if err != nil {
		return at, err
	}
	defer func() { _ = stored.Close() }() // nothing was written, so the error is irrelevant
	if err := check(stored); err != nil {
		return at, err
	}
	s.live = follow
	s.texts = func(_ *event.Event, digest catalog.Digest) *string {
		if digest.IsZero() {
			return nil
		}
		text, ok, err := stored.Contents().Get(ctx, digest)
		if err != nil || !ok {
			return nil
		}
		return &text
	}
	defer func() { s.texts = nil }() // it reads the log, which is closed
	for {
		from, gap, err := at.place(ctx, stored)
		if err != nil {
			return at, err
		}
		if gap != nil {
			if err := s.take([]*event.Event{{ID: gap.To, Timestamp: time.Now(), Payload: *gap}}); err != nil {
				return at, err
			}
			at = since{id: gap.To}
		}
		if !follow {
			return at, s.printStored(ctx, stored.Read(ctx, from))
		}
		s.followed, s.connected = true, true
		if b, err := stored.Bounds(ctx); err == nil && (at == since{} || !at.time.IsZero()) { // used if the log is replaced before the first read
			at = since{id: event.FormatID(b.Epoch, max(from, b.First)-1)}
		}
		err = s.followLog(ctx, env, flags, stored, from, &at)
		if !errors.Is(err, journal.ErrEpoch) {
			return at, err
		}
	}
}

// errWriterEnded reports that no process is writing to the log any longer.
var errWriterEnded = errors.New("the process that stored the events has ended")

// writerGone is how long a followed log may have no writer. A restart takes less time.
const writerGone = 5 * time.Second

// followLog prints the events that another process stores, starting with number from, and keeps at
// up to date. It returns errWriterEnded soon after that process has exited.
func (s *stream) followLog(ctx context.Context, env *cli.Env, flags *cli.JournalFlags, stored journal.Log, from uint64, at *since) error {
	reading, end := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		for seen := time.Now(); backoff.Sleep(reading, writerGone/5); {
			if flags.Written(env) {
				seen = time.Now()
			} else if time.Since(seen) > writerGone {
				end(errWriterEnded)
			}
		}
	})
	defer looking.Wait()
	defer end(nil)
	err := s.printStored(ctx, func(yield func(journal.Entry, error) bool) {
		for e, err := range journal.FollowToEnd(reading, stored, from) {
			if err == nil {
				*at = since{id: e.ID}
			}
			if !yield(e, err) {
				return
			}
		}
	})
	if cause := context.Cause(reading); err == nil && errors.Is(cause, errWriterEnded) {
		return cause
	}
	return err
}

// readable yields entries, and replaces each one that is not a valid event with a gap, because
// another program on the cluster or a newer mcptrack may have stored it.
func readable(entries iter.Seq2[journal.Entry, error]) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for e, err := range entries {
			if _, bad := e.Event(); err == nil && bad != nil {
				epoch, _, _ := event.ParseID(e.ID) // cannot fail: the log created the id
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
