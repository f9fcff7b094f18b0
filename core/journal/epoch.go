package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// openLog makes or opens the streams and finds out whether they are what they
// were when this process, or the one before it, had them last.
func (j *Journal) openLog(ctx context.Context) error {
	if j.dir != nil {
		if err := j.lookForLog(ctx); err != nil {
			return err
		}
	}
	info, err := j.ensure(ctx)
	if err != nil {
		return err
	}
	if j.dir != nil {
		if info, err = j.compare(ctx, info); err != nil {
			return err
		}
	}
	j.take(info)
	return nil
}

// lookForLog sets a store aside that was a log and is none now: its description
// cannot be read. What is in it is for somebody to look into.
func (j *Journal) lookForLog(ctx context.Context) error {
	_, err := j.info(ctx, j.opts.Stream)
	if !errors.Is(err, jetstream.ErrStreamNotFound) || j.dir.readMark().Epoch == "" && !j.dir.holds(j.opts.Stream) {
		return nil
	}
	j.embedded.stop()
	to, err := j.dir.setAside()
	if err != nil {
		return fmt.Errorf("journal: set a damaged store aside: %w", err)
	}
	j.damages.Add(1)
	j.opts.Logger.Error("the log cannot be read; it was set aside and a new one begun", "was", to)
	if err := j.embedded.start(); err != nil {
		return err
	}
	return j.reconnected(ctx)
}

// reconnected waits until the client has found the server again.
func (j *Journal) reconnected(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		// A question that was asked on the old connection is never answered.
		try, done := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := j.js.AccountInfo(try)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("journal: reach the store: %w", err)
		}
	}
}

// compare holds the log against the mark. A log that may have lost events that
// somebody saw begins another epoch: their numbers would be given out again.
func (j *Journal) compare(ctx context.Context, info *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	was := j.dir.readMark()
	if was.Epoch != info.Config.Metadata[epochKey] {
		return info, nil
	}
	lost := info.State.LastSeq < was.Last
	boot := bootID()
	cut := !was.Clean && was.Durability != Always && (was.Boot == "" || was.Boot != boot)
	if lost {
		j.damages.Add(1)
		j.opts.Logger.Error("the log is shorter than it was; a new epoch begins", "last", info.State.LastSeq, "was", was.Last)
	} else if cut {
		j.opts.Logger.Warn("the machine stopped while events were not yet durable; a new epoch begins")
	}
	if !lost && !cut {
		return info, nil
	}
	return j.renew(ctx, info)
}

// check is compare while running: after the store was read anew, or was made
// anew by somebody. It reports whether the log has another epoch now.
func (j *Journal) check(ctx context.Context, info *jetstream.StreamInfo) (renewed bool, err error) {
	if j.dir != nil && info.State.LastSeq < j.last && info.Config.Metadata[epochKey] == j.Epoch() {
		j.damages.Add(1)
		j.opts.Logger.Error("the log came back shorter; a new epoch begins", "last", info.State.LastSeq, "was", j.last)
		if info, err = j.renew(ctx, info); err != nil {
			return false, err
		}
	}
	if info.Config.Metadata[epochKey] == j.Epoch() {
		return false, nil
	}
	if j.dir == nil {
		j.opts.Logger.Warn("somebody made the log anew; a new epoch begins", "last", info.State.LastSeq, "was", j.last)
	}
	j.take(info)
	return true, nil
}

// suspect makes the writer look whether the log is still the one that it knows.
func (j *Journal) suspect() {
	j.doubt.Store(true)
	j.queue.rouse()
}

// verify is check where there is reason to: on a cluster another process may make
// the log anew, and nothing fails here. It is the writer's.
func (j *Journal) verify(ctx context.Context) error {
	if !j.doubt.Swap(false) {
		return nil
	}
	info, err := j.info(ctx, j.opts.Stream)
	if err == nil {
		_, err = j.check(ctx, info)
	}
	if err != nil {
		j.doubt.Store(true)
		return fmt.Errorf("journal: look whether the log is still the same: %w", err)
	}
	return nil
}

// take makes the log that the store has ours.
func (j *Journal) take(info *jetstream.StreamInfo) {
	epoch := info.Config.Metadata[epochKey]
	j.epoch.Store(&epoch)
	j.last = info.State.LastSeq
	j.durable.set(j.last)
}

// mark writes down what is true of the log, when that has changed.
func (j *Journal) mark(clean bool) {
	if j.dir == nil || j.epoch.Load() == nil {
		return
	}
	m := mark{Epoch: j.Epoch(), Last: j.durable.get(), Durability: j.opts.Durability, Boot: bootID(), Clean: clean}
	if m == j.dir.marked {
		return
	}
	if err := j.dir.writeMark(m); err != nil {
		j.opts.Logger.Debug("cannot write the mark", "err", err)
		return
	}
	j.dir.marked = m
}
