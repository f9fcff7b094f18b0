package tracker

import (
	"context"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
)

// drain tells what is owed before the end, unless the server is not wanted any
// more: then its silence is.
func (f *follower) drain(cause error) {
	if errors.Is(cause, errRemoved) {
		return
	}
	over := time.NewTimer(f.w.opts.Drain)
	defer over.Stop()
	f.signals(f.s.Signals().Take())
	f.w.co.closeWindows(time.Now())
	for f.startReads(); f.w.co.busy(); f.startReads() {
		select {
		case a := <-f.reads:
			f.answered(a)
		case <-f.s.Done():
			return
		case <-over.C:
			return
		}
		f.w.co.closeWindows(time.Now())
	}
}

// close ends the jobs and the session, and waits for both. An orderly end tells
// the server first, for at most a second.
func (f *follower) close() {
	if f.s.Err() == nil {
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		f.quiesce(ctx)
		_, _ = f.s.Subscribe(ctx, session.Filter{})
		cancel()
	}
	f.cancel()
	f.s.Close()
	f.w.dropped(f.s.Signals().Take().Dropped)
	f.jobs.Wait()
	f.w.co.abandon()
}

// quiesce ends a walk that is under way: two changes of one subscription must
// not overlap.
func (f *follower) quiesce(ctx context.Context) {
	if !f.syncing {
		return
	}
	f.stopWalk()
	select {
	case <-f.syncs:
	case <-ctx.Done():
	}
}
