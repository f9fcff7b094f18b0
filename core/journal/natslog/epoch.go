package natslog

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// check compares the log with what this process knows of it, after a failure and whenever it may
// have been replaced. A log that may have lost events that readers saw begins a new epoch: their
// numbers would be given out again. It reports whether the log has another epoch now.
func (w *writer) check(ctx context.Context, info *jetstream.StreamInfo) (renewed bool, err error) {
	if w.shorter(info) {
		if info, err = w.lookAgain(ctx, info); err != nil {
			return false, err
		}
	}
	if w.shorter(info) {
		w.store.health.Damages.Add(1)
		w.store.opts.Logger.Error("the event log has lost its last events; a new epoch begins", "last", info.State.LastSeq, "was", w.last)
		if info, err = w.store.renew(ctx, info); err != nil {
			return false, err
		}
		renewed = true
	}
	if info.Config.Metadata[epochKey] == w.store.epoch() {
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
	return info.State.LastSeq < w.last && info.Config.Metadata[epochKey] == w.store.epoch()
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
	w.queue.Rouse()
}

// verify calls check if there is reason to: another process may replace the log although
// nothing fails here.
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
		return fmt.Errorf("event log: check whether the event log is still the same: %w", err)
	}
	return nil
}

// take makes the store's current log the one that is written.
func (w *writer) take(info *jetstream.StreamInfo) {
	epoch := info.Config.Metadata[epochKey]
	w.store.current.Store(&epoch)
	w.last = info.State.LastSeq
}
