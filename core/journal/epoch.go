package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// openLog creates or opens the streams and checks whether they are as this process, or the one
// before it, left them.
func (w *writer) openLog(ctx context.Context) error {
	if w.store.dir != nil {
		if err := w.store.setDamagedAside(ctx); err != nil {
			return err
		}
	}
	info, err := w.store.ensure(ctx)
	if err != nil {
		if w.store.embedded != nil {
			if disk := w.store.dir.probe(); disk != nil {
				return disk // the store's own error does not say why
			}
		}
		return err
	}
	if w.store.dir != nil {
		if info, err = w.compare(ctx, info); err != nil {
			return err
		}
	}
	w.take(info)
	return nil
}

// setDamagedAside moves away a store whose description of the log is unreadable, so that it can
// be examined, and starts an empty one.
func (s *store) setDamagedAside(ctx context.Context) error {
	_, err := s.info(ctx, s.opts.Stream)
	if !errors.Is(err, jetstream.ErrStreamNotFound) || s.dir.readMark().Epoch == "" && !s.dir.holds(s.opts.Stream) {
		return nil
	}
	s.embedded.stop()
	to, err := s.dir.setAside()
	if err != nil {
		return fmt.Errorf("journal: set a damaged store aside: %w", err)
	}
	s.counts.damages.Add(1)
	s.opts.Logger.Error("the event log cannot be read; it was moved away, and a new log was started", "movedTo", to)
	if err := s.embedded.start(); err != nil {
		return err
	}
	return s.reconnected(ctx)
}

// compare compares the log with the mark. A log that may have lost events that
// readers saw begins a new epoch: their numbers would be given out again.
func (w *writer) compare(ctx context.Context, info *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	was := w.store.dir.readMark()
	if was.Epoch != info.Config.Metadata[epochKey] {
		return info, nil
	}
	lost := info.State.LastSeq < was.Last
	cut := !was.Clean && was.Durability != Always && (was.Boot == "" || was.Boot != w.boot)
	if lost {
		w.store.counts.damages.Add(1)
		w.store.opts.Logger.Error("the event log has lost its last events; a new epoch begins", "last", info.State.LastSeq, "was", was.Last)
	} else if cut {
		w.store.opts.Logger.Warn("the machine stopped before all events were durable, so the last events may be lost; a new epoch begins")
	}
	if !lost && !cut {
		return info, nil
	}
	return w.store.renew(ctx, info)
}

// check does what compare does, but while running: after the store was restarted, or the log
// was possibly replaced. It reports whether the log has another epoch now.
func (w *writer) check(ctx context.Context, info *jetstream.StreamInfo) (renewed bool, err error) {
	if w.shorter(info) && w.store.dir == nil {
		if info, err = w.lookAgain(ctx, info); err != nil {
			return false, err
		}
	}
	if w.shorter(info) {
		w.store.counts.damages.Add(1)
		w.store.opts.Logger.Error("the event log has lost its last events; a new epoch begins", "last", info.State.LastSeq, "was", w.last)
		if info, err = w.store.renew(ctx, info); err != nil {
			return false, err
		}
		renewed = true
	}
	if info.Config.Metadata[epochKey] == w.head.id() {
		return false, nil
	}
	if !renewed {
		w.store.opts.Logger.Warn("the event log was replaced; a new epoch begins", "last", info.State.LastSeq, "was", w.last)
	}
	w.take(info)
	return true, nil
}

// shorter reports whether the log has fewer events than when it was last written or read.
func (w *writer) shorter(info *jetstream.StreamInfo) bool {
	return info.State.LastSeq < w.last && info.Config.Metadata[epochKey] == w.head.id()
}

// lookAgain reads the state of the log again for some seconds while it is shorter than it was:
// a cluster node that has just become leader may not have applied all stored events yet.
func (w *writer) lookAgain(ctx context.Context, info *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout/2)
	defer cancel()
	for w.shorter(info) && backoff.Sleep(ctx, 100*time.Millisecond) {
		again, err := w.store.info(ctx, w.store.opts.Stream)
		if err == nil {
			info = again
		} else if ctx.Err() == nil {
			return nil, err
		}
	}
	return info, nil
}

// suspect makes the writer check whether the log is still the one that it knows.
func (w *writer) suspect() {
	w.doubt.Store(true)
	w.queue.rouse()
}

// verify calls check if there is reason to: on a cluster another process may replace the log
// although nothing fails here.
func (w *writer) verify(ctx context.Context) error {
	if !w.doubt.Swap(false) {
		return nil
	}
	info, err := w.store.info(ctx, w.store.opts.Stream)
	if err == nil {
		_, err = w.check(ctx, info)
	}
	if err != nil {
		w.doubt.Store(true)
		return fmt.Errorf("journal: check whether the event log is still the same: %w", err)
	}
	return nil
}

// take makes the store's current log the one that is written and read.
func (w *writer) take(info *jetstream.StreamInfo) {
	epoch := info.Config.Metadata[epochKey]
	w.head.epoch.Store(&epoch)
	w.last = info.State.LastSeq
	w.show()
}

// show writes the mark, and then lets readers see everything up to the last event.
func (w *writer) show() {
	w.mark(false)
	w.head.durable.set(w.last)
}

// mark writes the mark if it has changed.
func (w *writer) mark(clean bool) {
	if w.store.dir == nil || w.head.id() == "" {
		return
	}
	m := mark{Epoch: w.head.id(), Last: w.last, Durability: w.store.opts.Durability, Boot: w.boot, Clean: clean}
	if m == w.store.dir.marked {
		return
	}
	if err := w.store.dir.writeMark(m); err != nil {
		w.store.opts.Logger.Debug("cannot write the file mark in the data directory", "err", err)
		return
	}
	w.store.dir.marked = m
}
