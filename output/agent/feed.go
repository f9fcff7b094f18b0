package agent

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/event"
)

// Entry is an entry of a feed: an event, or only an id (Event is nil) that says how far the
// feed has come.
type Entry struct {
	ID    string
	Event *event.Event
}

// Feed reports the entries of a feed until ctx ends or follow returns; then it returns follow's
// error. follow must call deliver with each entry, in order, and return if deliver fails.
func Feed(ctx context.Context, opts Options, follow func(ctx context.Context, deliver func(Entry) error) error) error {
	f := &feed{Options: opts, lines: newLines(opts.W, nil)}
	// Sent to and closed by the goroutine below. No capacity: the connection is the queue.
	entries := make(chan Entry)
	var failed error
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error {
		defer close(entries)
		failed = follow(ctx, func(x Entry) error {
			select {
			case entries <- x:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		return nil
	})
	running.Go(func() error { return f.run(entries) })
	if err := running.Wait(); err != nil {
		return err
	}
	return failed
}

// feed is the state of Feed.
type feed struct {
	Options
	lines   *lines
	at      string // id of the last entry received
	counted int
}

func (f *feed) run(entries <-chan Entry) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	learned := time.Now()
	for {
		if f.lines.empty() && time.Since(learned) >= learnEvery {
			f.remember()
			learned = time.Now()
		}
		wait, any := f.lines.due(false)
		if any && wait <= 0 {
			if err := f.report(); err != nil {
				return err
			}
			continue
		}
		if !any {
			wait = learnEvery - time.Since(learned)
		}
		timer.Reset(wait)
		select {
		case x, ok := <-entries:
			if !ok {
				return f.end()
			}
			f.take(x)
		case <-timer.C:
		}
	}
}

func (f *feed) take(x Entry) {
	if x.ID != "" {
		f.at = x.ID
	}
	if x.Event != nil && f.keep(x.Event) {
		f.lines.take(x.Event)
	}
}

func (f *feed) report() error {
	f.counted += f.lines.count()
	if err := f.lines.print(); err != nil {
		return err
	}
	f.remember()
	if f.Count > 0 && f.counted >= f.Count {
		return ErrEnough
	}
	return nil
}

// remember stores that all entries received so far were reported.
func (f *feed) remember() {
	if f.at != "" {
		f.Cursor.SetLastID(f.at)
	}
	_ = f.Cursor.Save() // Save logs its error and tries again later
}

func (f *feed) end() error {
	wait, any := f.lines.due(true)
	if !any {
		f.remember()
		return nil
	}
	time.Sleep(wait)
	return f.report()
}
