package remote

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/jsonl"
)

// Position is where a reader begins. The zero value is after the newest event.
type Position struct {
	ID   string    // after the event with this id
	Time time.Time // with the first event stored at this time or later
	All  bool      // with the oldest event
}

// ReadOptions configures [Client.Follow]. Zero fields have their defaults.
type ReadOptions struct {
	From Position
	// Stored ends the reader with the event that is the newest one at the time of the call.
	Stored bool
	// Types and Servers have globs of the events to send, unless Stored is set. The reader must not
	// rely on them: a log in this process has all its events.
	Types, Servers []string
	// Passed is called with the id of an entry that is not delivered: a checkpoint, or an event of a
	// type from a newer version.
	Passed func(id string)
	// Connected is called after each successful connection.
	Connected func()
	// Retry makes Follow try again if the first attempt to connect fails.
	Retry bool
	// Logger receives connections, outages and invalid events; nil discards them.
	Logger *slog.Logger
}

// Follow passes events to deliver, in the order of the log, until ctx ends, and returns nil then; see
// [Follow] for its errors. Events that are no longer stored are delivered as a gap.
func (c *Client) Follow(ctx context.Context, o ReadOptions, deliver func(journal.Entry) error) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Passed == nil {
		o.Passed = func(string) {}
	}
	if c.log != nil {
		if o.Connected != nil {
			o.Connected()
		}
		return c.followLog(ctx, o, deliver)
	}
	ends := func(string) bool { return false }
	if o.Stored {
		epoch, newest, err := c.Newest(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		ends = func(id string) bool {
			in, seq, err := event.ParseID(id)
			return err == nil && (in != epoch || seq >= newest) // another epoch: the log was replaced
		}
	}
	err := Follow(ctx, c.feed(o), func(x eventstream.Event) error {
		err := o.take(x, deliver)
		if err == nil && ends(x.ID) {
			err = errStored
		}
		return err
	})
	if errors.Is(err, errStored) {
		return nil
	}
	return err
}

// errStored ends Follow when all stored events were delivered.
var errStored = errors.New("all stored events were delivered")

// take delivers an entry of a feed, unless it is not an event.
func (o *ReadOptions) take(x eventstream.Event, deliver func(journal.Entry) error) error {
	if x.Type == "checkpoint" {
		o.Passed(x.ID)
		return nil
	}
	e, err := jsonl.Decode([]byte(x.Data))
	if err != nil {
		o.Logger.Warn("the feed sent an invalid event", "err", err)
	}
	if e == nil {
		o.Passed(x.ID)
		return nil
	}
	return deliver(journal.Received(x.ID, printable.JSON([]byte(x.Data)), e))
}

// Newest returns the epoch and the number of the newest event that a feed may have sent.
func (c *Client) Newest(ctx context.Context) (epoch string, seq uint64, err error) {
	var at struct {
		Epoch string
		Seq   uint64
	}
	err = c.Get(ctx, []string{"api", "status"}, nil, &at)
	return at.Epoch, at.Seq, err
}

// feed returns the options for the feed of a serve-sse or a daemon.
func (c *Client) feed(o ReadOptions) FeedOptions {
	u := c.Base.JoinPath("events")
	query := u.Query()
	switch {
	case o.From.ID != "":
		query.Set("since", o.From.ID)
	case !o.From.Time.IsZero():
		query.Set("since", o.From.Time.UTC().Format(time.RFC3339))
	case o.From.All:
		query.Set("since", "earliest")
	}
	if !o.Stored { // otherwise events that do not pass tell where to stop
		query["type"] = append(query["type"], o.Types...)
		query["server"] = append(query["server"], o.Servers...)
	}
	u.RawQuery = query.Encode()
	header := http.Header{}
	if c.Token != "" {
		header.Set("Authorization", "Bearer "+c.Token)
	}
	return FeedOptions{URL: u.String(), Header: header, Client: c.HTTP, Connected: o.Connected, MustConnect: !o.Retry, Logger: o.Logger}
}

// followLog reads the log of this process, also if it is replaced.
func (c *Client) followLog(ctx context.Context, o ReadOptions, deliver func(journal.Entry) error) error {
	at := o.From
	for {
		from, gap, err := at.place(ctx, c.log)
		if err != nil {
			return err
		}
		if gap != nil {
			_, last, _ := event.ParseID(gap.To) // cannot fail: the log made the id
			if err := deliver(journal.GapOf(*gap, last)); err != nil {
				return err
			}
			at = Position{ID: gap.To}
		}
		entries := c.log.Read(ctx, from)
		if !o.Stored {
			entries = journal.FollowToEnd(ctx, c.log, from)
		}
		if b, err := c.log.Bounds(ctx); err == nil && at.ID == "" { // used if the log is replaced before the first read
			at = Position{ID: event.FormatID(b.Epoch, max(from, b.First)-1)}
		}
		if err := each(entries, &at, deliver); !errors.Is(err, journal.ErrEpoch) {
			return err
		}
	}
}

// each delivers the entries and keeps at up to date.
func each(entries iter.Seq2[journal.Entry, error], at *Position, deliver func(journal.Entry) error) error {
	for entry, err := range entries {
		if err != nil {
			return err
		}
		*at = Position{ID: entry.ID}
		if err := deliver(entry); err != nil {
			return err
		}
	}
	return nil
}

// place returns the number of the first entry to read, and the gap before it, if any.
func (p Position) place(ctx context.Context, log journal.Log) (from uint64, gap *event.Gap, err error) {
	switch {
	case p.ID != "":
		r, err := log.Resume(ctx, p.ID)
		return r.From, r.Gap, err
	case !p.Time.IsZero():
		from, err = log.Since(ctx, p.Time)
		return from, nil, err
	case p.All:
		return 0, nil, nil
	}
	b, err := log.Bounds(ctx)
	return b.Last + 1, nil, err
}
