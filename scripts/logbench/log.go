package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
)

// eventLog is the log as logbench uses it. Nothing else here knows the package of the log.
type eventLog struct {
	journal.Log
	appended int
}

// queue is how many events may wait to be stored. Further ones would replace older ones of
// their resource.
const queue = 1 << 16

// openLog opens the log in dir, or makes one. The durability is always, interval or os. The
// caller closes it.
func openLog(ctx context.Context, dir, durability string) (*eventLog, error) {
	l, err := sqlitelog.Open(ctx, sqlitelog.Options{
		Dir: dir, Durability: journal.Durability(durability), Queue: queue,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	return &eventLog{Log: l}, err
}

// append stores the event some time later. It waits only while the queue is half full.
func (l *eventLog) append(e *event.Event) error {
	for l.appended%1024 == 0 && l.Stats().Waiting > queue/2 {
		time.Sleep(time.Millisecond)
	}
	l.appended++
	return l.Append(e)
}

// flush waits until all appended events are stored.
func (l *eventLog) flush(ctx context.Context) error {
	if err := l.Flush(ctx); err != nil {
		return err
	}
	if stored := l.Stats().Stored; stored != uint64(l.appended) {
		return fmt.Errorf("%d of %d events were stored", stored, l.appended)
	}
	return nil
}

// store appends one event and waits until it is stored.
func (l *eventLog) store(ctx context.Context, e *event.Event) error {
	_, err := l.Store(ctx, e)
	return err
}

// read yields the ids of all events in their order.
func (l *eventLog) read(ctx context.Context) iter.Seq2[string, error] { return l.from(ctx, 1) }

func (l *eventLog) from(ctx context.Context, seq uint64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range l.Read(ctx, seq) {
			if err == nil && (e.Gap != nil || e.Seq != seq) {
				err = fmt.Errorf("read %s and not number %d", e.ID, seq)
			}
			if !yield(e.ID, err) || err != nil {
				return
			}
			seq++
		}
	}
}

// resume returns the id of the event after the one with the id.
func (l *eventLog) resume(ctx context.Context, id string) (string, error) {
	r, err := l.Resume(ctx, id)
	switch {
	case err != nil:
		return "", err
	case r.Gap != nil:
		return "", fmt.Errorf("a gap (%s) after %s", r.Gap.Reason, id)
	}
	for first, err := range l.from(ctx, r.From) {
		return first, err
	}
	return "", errors.New("nothing follows " + id)
}

// versions returns how many versions of a resource the log knows, as mcptrack history lists
// them.
func (l *eventLog) versions(ctx context.Context, server, uri string) (int, error) {
	const most = 500
	versions, err := history.Versions(decoded(l.Select(ctx, journal.Selection{ServerID: server, URI: uri})), most)
	return len(versions), err
}

func decoded(entries iter.Seq2[journal.Entry, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for entry, err := range entries {
			e := event.Event{}
			if err == nil {
				e, err = entry.Event()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
